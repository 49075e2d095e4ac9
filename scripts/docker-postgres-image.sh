#!/usr/bin/env bash
# Builds a PostgreSQL image from Debian's packages, for machines whose Docker can
# pull none. It follows the contract of the official image that the tests use:
# POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, PGDATA, and arguments for the
# server after "postgres". As root, with debootstrap and Docker:
#
#	scripts/docker-postgres-image.sh idem-postgres:debian
#	IDEM_TEST_PROVIDER=docker IDEM_TEST_POSTGRES_IMAGE=idem-postgres:debian go test ./postgres
set -euo pipefail

image=${1:?usage: $0 NAME[:TAG]}
suite=${DEBIAN_SUITE:-bookworm}
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=postgresql "$suite" "$root/fs" "$mirror" >"$root/log" 2>&1 ||
	{ tail -n 20 "$root/log" >&2; exit 1; }
rm -rf "$root"/fs/var/cache/apt/* "$root"/fs/var/lib/postgresql/*

cat >"$root/fs/usr/local/bin/docker-entrypoint.sh" <<'ENTRY'
#!/bin/bash
set -euo pipefail
if [ "$1" = postgres ]; then
	if [ "$(id -u)" = 0 ]; then
		install -d -o postgres -g postgres -m 700 "$PGDATA"
		exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
	fi
	if [ ! -s "$PGDATA/PG_VERSION" ]; then
		user=${POSTGRES_USER:-postgres}
		initdb -D "$PGDATA" -U "$user" --encoding=UTF8 --locale=C.UTF-8 \
			--auth-local=trust --auth-host=scram-sha-256 --pwfile=<(printf '%s' "${POSTGRES_PASSWORD:?}")
		echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
		echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
		db=${POSTGRES_DB:-$user}
		if [ "$db" != postgres ]; then
			echo "CREATE DATABASE \"$db\"" | postgres --single -D "$PGDATA" postgres
		fi
	fi
fi
exec "$@"
ENTRY
chmod 755 "$root/fs/usr/local/bin/docker-entrypoint.sh"

bin=$(cd "$root/fs" && echo usr/lib/postgresql/*/bin)
tar -C "$root/fs" -c . | docker import \
	--change "ENV PATH=/usr/local/bin:/usr/bin:/bin:/$bin" \
	--change "ENV PGDATA=/var/lib/postgresql/data" \
	--change 'ENTRYPOINT ["docker-entrypoint.sh"]' \
	--change 'CMD ["postgres"]' \
	--change 'EXPOSE 5432' \
	- "$image"
