SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules

# Directories that are modules. tools has a few lines of code.
MODULES := . $(patsubst %/go.mod,%,$(wildcard bench/go.mod))

# What `make test` gives to go test besides; a run of one package is
# make test PACKAGES=./postgres TESTFLAGS='-run Claim -v'
PACKAGES ?= ./...
TESTFLAGS ?=
TIMEOUT ?= 15m

# Tests that count allocations.
COUNTED := -run Alloc . ./idemhttp

FUZZTIME ?= 60s
COUNT ?= 3
KILLS ?= 1000

export PATH := $(CURDIR)/bin:$(PATH)

.PHONY: help
help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: ## run all tests with real servers, getting those that are missing
	scripts/ensure-servers.sh
	go test $(COUNTED) # the race detector allocates, too
	go test -race -timeout $(TIMEOUT) $(TESTFLAGS) $(PACKAGES)

.PHONY: test-docker
test-docker: ## run the adapters' conformance suite in containers, with images made from Debian's packages
	TIMEOUT=$(TIMEOUT) scripts/test-docker.sh $(TESTFLAGS)

.PHONY: lint
lint: tools ## check formatting, vet, linters and known vulnerabilities
	@bad=$$(gofumpt -l .); [ -z "$$bad" ] || { printf 'not formatted, run make format:\n%s\n' "$$bad" >&2; exit 1; }
	@for module in $(MODULES); do (cd "$$module" && echo "lint $$module" && go vet ./... && golangci-lint run --allow-parallel-runners ./...); done
	scripts/vulncheck.sh

.PHONY: format
format: tools ## format the code with gofumpt
	gofumpt -w .

.PHONY: limits
limits: ## write docs/limits, docs/responses.md and the tables made from them anew, from runs of the tests
	scripts/ensure-servers.sh
	IDEM_UPDATE=1 IDEM_TEST_REQUIRE=all go test -count=1 -run Conformance ./memory ./sqlite ./postgres ./redis ./etcd
	IDEM_UPDATE=1 go test -count=1 -run Matrix ./internal/limits
	IDEM_UPDATE=1 go test -count=1 -run ResponsesPage ./idemhttp

.PHONY: bench
bench: tools ## measure each path beside the bare driver, as ratios (COUNT=3)
	scripts/ensure-servers.sh
	COUNT=$(COUNT) scripts/bench.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME=60s
	FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

.PHONY: chaos
chaos: ## kill processes at random moments, KILLS=1000 times on each store
	scripts/ensure-servers.sh
	IDEM_TEST_REQUIRE=all go test -race -count=1 -v -timeout 4h -run KilledAtRandom ./internal/crash -kills $(KILLS)

.PHONY: docs
docs: ## print the documentation of the public packages
	@go list ./... | grep -v -e /internal/ -e /examples/ -e /cmd/ | while read -r p; do echo; echo "=== $$p"; go doc -all "$$p"; done

.PHONY: tools
tools: bin/.tools ## build the pinned tools into bin

# One build for all of them: they share most of what they are made of.
bin/.tools: tools/go.mod tools/go.sum
	cd tools && go build -o ../bin/ tool
	@touch $@

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
