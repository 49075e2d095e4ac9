#!/usr/bin/env bash
# Makes sure that the tests find the servers they need: nothing to do where an
# address is given, where Docker has or can get the image, or where the programs
# are installed. Otherwise installs them on Debian as root, or says what to
# install. The tests themselves choose: see internal/testenv.
set -euo pipefail

provider=${IDEM_TEST_PROVIDER:-}
require=,${IDEM_TEST_REQUIRE:-},
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
		case $name in # a bare name is no file: there is a directory postgres here
		*/*) compgen -G "$name" >/dev/null && return 0 ;;
		*) command -v "$name" >/dev/null && return 0 ;;
		esac
	done
	return 1
}

postgres_here() { installed postgres '/usr/lib/postgresql/*/bin/postgres' '/usr/pgsql-*/bin/postgres' '/opt/homebrew/opt/postgresql@*/bin/postgres'; }

redis_here() { installed redis-server; }

# Finds a server the way the tests do: name, variable with its address, image,
# test for the programs, Debian package.
find_server() {
	if allowed env && [ -n "${!2:-}" ]; then
		echo "$1: the server of $2"
	elif allowed docker && docker_has "$3"; then
		echo "$1: Docker image $3"
	elif allowed local && "$4"; then
		echo "$1: installed"
	elif allowed local; then
		missing+=("$5")
	else
		echo "no $1: IDEM_TEST_PROVIDER=$provider has none to offer" >&2
		exit 1
	fi
}

find_server PostgreSQL IDEM_TEST_POSTGRES_URL "${IDEM_TEST_POSTGRES_IMAGE:-postgres:17-alpine}" postgres_here postgresql
find_server Redis IDEM_TEST_REDIS_URL "${IDEM_TEST_REDIS_IMAGE:-redis:7-alpine}" redis_here redis-server

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
  macOS:           brew install postgresql@17 pgbouncer redis
  anywhere:        start Docker, or set IDEM_TEST_POSTGRES_URL, IDEM_TEST_REDIS_URL to servers to test on
What needs no server is tested with go test ./... all the same.
TEXT
exit 1
