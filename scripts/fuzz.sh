#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME, one after the other: go test takes one at
# a time.
set -euo pipefail

time=${FUZZTIME:-60s}
ran=0
while read -r package; do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "=== $target in $package for $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
		ran=$((ran + 1))
	done
done < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
echo "$ran fuzz targets, $time each"
[ "$ran" -gt 0 ]
