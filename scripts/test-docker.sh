#!/usr/bin/env bash
# Runs the conformance suite of the adapters on servers in containers, and the tests of
# internal/testenv, which starts them. It takes a Docker engine and no registry: images
# that IDEM_TEST_POSTGRES_IMAGE, IDEM_TEST_REDIS_IMAGE and IDEM_TEST_ETCD_IMAGE don't name
# are built here, once for each version of what they are built from, which takes root and
# debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

timeout 20 docker version --format 'Docker {{.Server.Version}}' 2>&1 || {
	echo "no Docker engine answers: start one (dockerd), or point DOCKER_HOST to it. Nothing was tested." >&2
	exit 1
}

for kind in postgres redis etcd; do
	image=IDEM_TEST_${kind^^}_IMAGE
	[ -z "${!image:-}" ] || continue
	of=(scripts/docker-image.sh)
	[ "$kind" != etcd ] || of+=(tools/go.sum)
	export "$image=idem-$kind:$(cat "${of[@]}" | sha256sum | cut -c 1-12)"
	docker image inspect "${!image}" >/dev/null 2>&1 || {
		echo "building ${!image}"
		scripts/docker-image.sh "$kind" "${!image}"
	}
done

# Without the reaper, whose image is in a registry: testenv removes what is left over.
export IDEM_TEST_PROVIDER=docker TESTCONTAINERS_RYUK_DISABLED=true
export IDEM_TEST_REQUIRE=${IDEM_TEST_REQUIRE:-postgres,redis,etcd,conformance}

# Ports of an engine of this machine are here, whatever is guessed.
case ${DOCKER_HOST:-unix:} in
unix:*) export TESTCONTAINERS_HOST_OVERRIDE=${TESTCONTAINERS_HOST_OVERRIDE:-127.0.0.1} ;;
esac

test=(go test -race -count 1 -p 1 -timeout "${TIMEOUT:-20m}")
status=0
# Two tests of testenv are about local programs.
"${test[@]}" -skip 'KilledTestProcess|KillLeftovers' "$@" ./internal/testenv || status=$?
"${test[@]}" -run Conformance "$@" ./postgres ./redis ./etcd || status=$?
exit "$status"
