#!/usr/bin/env bash
# Runs the benchmarks and prints ratios to the bare driver of the same run. Two
# forms are read: a metric named "ratio", and pairs of sub-benchmarks whose names
# differ in "idem" and "bare" only. The figures themselves go to bin/bench.txt,
# for benchstat.
set -euo pipefail

count=${COUNT:-3}
mkdir -p bin
out=bin/bench.txt
: >"$out"
for module in . bench; do
	[ -f "$module/go.mod" ] || continue
	(cd "$module" && go test -run '^$' -bench "${BENCH:-.}" -benchmem -count "$count" -timeout 30m ./...) | tee -a "$out"
done

printf '\nratios to the bare driver, mean of %s runs\n' "$count"
awk '
	$1 == "pkg:" { pkg = $2; sub(/.*\//, "", pkg) }
	/^Benchmark/ {
		name = pkg "." $1
		for (i = 3; i < NF; i += 2) {
			if ($(i + 1) == "ratio") { sum[name] += $i; n[name]++; order(name) }
			if ($(i + 1) == "ns/op" && name ~ /\/(idem|bare)/) {
				both = name; kind = sub(/\/bare/, "", both) ? "bare" : "idem"; sub(/\/idem/, "", both)
				ns[kind, both] += $i; order(both)
			}
		}
	}
	function order(name) { if (!(name in seen)) { seen[name] = 1; names[++last] = name } }
	END {
		for (i = 1; i <= last; i++) {
			name = names[i]
			if (name in sum) printf "%8.2f  %s\n", sum[name] / n[name], name
			else if (ns["bare", name] > 0 && ns["idem", name] > 0) printf "%8.2f  %s\n", ns["idem", name] / ns["bare", name], name
		}
	}' "$out"
