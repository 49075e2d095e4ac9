#!/usr/bin/env bash
# Builds an image for the tests without a registry: PostgreSQL and Redis from Debian's
# packages, etcd from tools/. As root, with debootstrap (not for etcd) and Docker:
#
#	scripts/docker-image.sh postgres idem-postgres:debian
#	IDEM_TEST_PROVIDER=docker IDEM_TEST_POSTGRES_IMAGE=idem-postgres:debian go test ./postgres
#
# They follow the contracts of the official images, as far as the tests use them. That of
# PostgreSQL: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, PGDATA, and arguments for
# the server after "postgres". The others: the server is on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: $0 postgres|redis|etcd NAME[:TAG]"
kind=${1:?$usage} image=${2:?$usage}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# Makes a Debian with a package.
debian() {
	local suite=${DEBIAN_SUITE:-bookworm} mirror
	command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 1; }
	mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)}
	debootstrap --variant=minbase --include="$1" "$suite" "$root/fs" "$mirror" >"$root/log" 2>&1 ||
		{ tail -n 20 "$root/log" >&2; exit 1; }
	rm -rf "$root"/fs/var/cache/apt/* "$root"/fs/var/lib/apt/lists/* "$root"/fs/usr/share/{doc,locale,man}
}

# Makes the image of what is there now, with changes as a Dockerfile has them. Data is in
# volumes, as with the official images: the file systems of containers are slow.
import() {
	local changes=() c
	for c in "$@"; do changes+=(--change "$c"); done
	tar -C "$root/fs" -c . | docker import "${changes[@]}" - "$image"
}

postgres() {
	debian postgresql
	rm -rf "$root"/fs/var/lib/postgresql/*
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
	local bin
	bin=$(cd "$root/fs" && echo usr/lib/postgresql/*/bin)
	import "ENV PATH=/usr/local/bin:/usr/bin:/bin:/$bin" "ENV PGDATA=/var/lib/postgresql/data" \
		'VOLUME /var/lib/postgresql/data' 'ENTRYPOINT ["docker-entrypoint.sh"]' 'CMD ["postgres"]' 'EXPOSE 5432'
}

redis() {
	debian redis-server
	mkdir "$root/fs/data"
	import "ENV PATH=/usr/bin:/bin" 'VOLUME /data' 'WORKDIR /data' 'CMD ["redis-server"]' 'EXPOSE 6379'
}

# A program without libraries needs nothing beside it.
etcd() {
	mkdir -p "$root"/fs/{usr/bin,tmp}
	(cd tools && CGO_ENABLED=0 GOWORK=off go build -buildvcs=false -trimpath -o "$root/fs/usr/bin/etcd" ./etcd)
	import "ENV PATH=/usr/bin" 'VOLUME /tmp' 'CMD ["etcd"]' 'EXPOSE 2379'
}

case $kind in
postgres | redis | etcd) "$kind" ;;
*) echo "$usage" >&2; exit 2 ;;
esac
