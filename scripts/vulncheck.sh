#!/usr/bin/env bash
# Looks for known vulnerabilities in what the module uses. The database is on the
# network: where it can't be reached this says so and is no failure.
set -uo pipefail

out=$(timeout 300 govulncheck ./... 2>&1)
status=$?
if [ "$status" -ne 0 ] && [ "$status" -ne 3 ] && grep -q 'fetching vulnerabilities' <<<"$out"; then
	printf '\n*** NOT CHECKED for vulnerabilities: the database is out of reach.\n*** %s\n\n' "$(head -n 1 <<<"$out")" >&2
	exit 0
fi
printf '%s\n' "$out"
exit "$status"
