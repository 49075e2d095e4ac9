#!/usr/bin/env bash
# Makes sure that the tests find the servers they need: nothing to do where an
# address is given, where Docker has or can get the image, or where the programs
# are installed. Otherwise installs them on Debian as root, or says what to
# install. The tests themselves choose: see internal/testenv.
set -euo pipefail

provider=${IDEM_TEST_PROVIDER:-}
require=,${IDEM_TEST_REQUIRE:-},
image=${IDEM_TEST_POSTGRES_IMAGE:-postgres:17-alpine}
missing=()

allowed() { [ -z "$provider" ] || [ "$provider" = "$1" ]; }

required() { [[ ${require// /} == *,all,* || ${require// /} == *,$1,* ]]; }

docker_has() {
	command -v docker >/dev/null || return 1
	timeout 10 docker version >/dev/null 2>&1 || return 1
	docker image inspect "$1" >/dev/null 2>&1 || timeout 300 docker pull -q "$1" >/dev/null 2>&1
}

installed() {
	local name
	for name in "$@"; do
		compgen -G "$name" >/dev/null && return 0
		command -v "$name" >/dev/null && return 0
	done
	return 1
}

postgres_here() { installed postgres '/usr/lib/postgresql/*/bin/postgres' '/usr/pgsql-*/bin/postgres' '/opt/homebrew/opt/postgresql@*/bin/postgres'; }

if allowed env && [ -n "${IDEM_TEST_POSTGRES_URL:-}" ]; then
	echo "PostgreSQL: the server of IDEM_TEST_POSTGRES_URL"
elif allowed docker && docker_has "$image"; then
	echo "PostgreSQL: Docker image $image"
elif allowed local && postgres_here; then
	echo "PostgreSQL: installed"
elif allowed local; then
	missing+=(postgresql)
else
	echo "no PostgreSQL: IDEM_TEST_PROVIDER=$provider has none to offer" >&2
	exit 1
fi

# PgBouncer has no container here. Where nothing else is to be installed, only
# those who ask for it get it.
if ! installed pgbouncer /usr/sbin/pgbouncer && { [ ${#missing[@]} -gt 0 ] || required pgbouncer; }; then
	missing+=(pgbouncer)
fi

[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "installing ${missing[*]}"
	# In runlevel 1 the packages start no service: the tests start their own.
	install=(env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
		apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "${missing[@]}")
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	"${install[@]}" >"$log" 2>&1 || { apt-get update -q >>"$log" 2>&1 && "${install[@]}" >>"$log" 2>&1; } ||
		{ tail -n 30 "$log" >&2; exit 1; }
	exit 0
fi

cat >&2 <<TEXT
Missing for the tests: ${missing[*]}
  Debian, Ubuntu:  sudo apt-get install ${missing[*]}
  macOS:           brew install postgresql@17 pgbouncer
  anywhere:        start Docker, or set IDEM_TEST_POSTGRES_URL to a server to test on
What needs no server is tested with go test ./... all the same.
TEXT
exit 1
