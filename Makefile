# quner: everything a person or the CI does in this checkout is a target here.
# `make` alone lists them. GNU make 4.3, bash, Go, gcc.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# The linters live in a module of their own, so that their dependencies never
# become the product's.
TOOL    := $(GO) tool -modfile=tools/go.mod

# The NVML binding is cgo and its header marks calls deprecated that are the
# only ones older drivers have.
export CGO_CFLAGS := $(CGO_CFLAGS) -O2 -g -Wno-deprecated-declarations

# The version is stamped below; stamping by Go would fail in a checkout that
# belongs to someone else.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -buildvcs=false)

CRASH_HOSTS ?= .*
WINDOWS    ?= 2000
DATA       ?= test/benchtune/testdata
SEEDS      ?= 100
FUZZTIME   ?= 5s
FUZZBUDGET ?= 60s
FUZZSEED   ?= $(shell date +%j)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/qunerd and bin/qunerctl
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/qunerd ./cmd/qunerctl

.PHONY: man
man: build ## man pages and shell completions, from the commands themselves, in bin/
	bin/qunerctl man bin/man && bin/qunerd man bin/man
	mkdir -p bin/completions
	for sh in bash zsh fish; do for c in qunerctl qunerd; do bin/$$c completion $$sh > bin/completions/$$c.$$sh; done; done

.PHONY: dist
dist: man ## .tar.gz, .deb and .rpm in dist/, the version from the tag
	@GO='$(GO)' VERSION='$(VERSION)' NFPM='$(TOOL) nfpm' bash deploy/package/build.sh

.PHONY: demo
demo: build ## the whole journey on a simulated workstation, unprivileged, nothing left behind
	bash test/demo/demo.sh

.PHONY: test
test: ## all tests that need no root and no VM, with the race detector; where they try more without it, so once more
	@bash test/in-memory.sh $(GO) test -race $$($(GO) list ./... | grep -v /test/benchtune)
	@bash test/in-memory.sh $(GO) test -run 'Crash|Real' ./internal/levers ./test/crash
	@bash test/in-memory.sh $(GO) test ./test/journey ./test/benchtune

.PHONY: crash
crash: ## end the daemon at every write boundary there is, then restore (CRASH_HOSTS='workstation|amd': only on these)
	$(GO) test -count=1 -v -tags crash -timeout 30m -run '/($(CRASH_HOSTS))$$|Real' ./test/crash | grep -v '^=== '

.PHONY: journey
journey: ## sweeps against the truth under 25 lives of noise, and called off at every change they make (half an hour or more)
	@bash test/in-memory.sh $(GO) test -count=1 -v -tags journey -timeout 60m ./test/journey | grep -v '^=== '

.PHONY: test-systemd
test-systemd: build ## install, kill, hang, upgrade, remove under a real systemd, in containers (root; CASE=…)
	@bash test/systemd/run $(CASE)

.PHONY: fuzz
fuzz: ## short fuzzing of the parsers in turn (FUZZTIME=5s each, FUZZBUDGET=60s in all, FUZZSEED=where to start)
	@GO='$(GO)' bash test/fuzz.sh '$(FUZZTIME)' '$(FUZZBUDGET)' '$(FUZZSEED)'

.PHONY: bench
bench: build ## measure against the budgets in 90 s: a table, with JSON=1 one JSON object as the last line (REST=10m)
	@$(GO) run ./test/bench $(if $(filter-out 0,$(JSON)),-json) $(if $(REST),-rest '$(REST)')

.PHONY: bench-meter
bench-meter: ## how true the meter's figures are: error and interval on simulated counters (JSON=1, CHECK=1, WINDOWS=2000)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; $(GO) test -c -o "$$dir/bench" ./test/benchmeter; \
	"$$dir/bench" -test.run "^TestBench$$" -windows $(WINDOWS) $(if $(filter-out 0,$(JSON)),-json) $(if $(filter-out 0,$(CHECK)),-check) $(ARGS) | grep -vx PASS

.PHONY: bench-tune
bench-tune: ## how well the search tunes: measured curves replayed under noise, a table and a plot (DATA=DIR, JSON=1, CHECK=1, SEEDS=100, PLOT=x.svg)
	@$(GO) run ./test/benchtune -data '$(DATA)' -seeds '$(SEEDS)' $(if $(filter-out 0,$(JSON)),-json) \
		$(if $(filter-out 0,$(CHECK)),-check) $(if $(PLOT),-plot '$(PLOT)') $(ARGS)

.PHONY: bench-windows
bench-windows: ## what energy windows cost over real sockets: rate, CPU, memory, strangers (JSON=1)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; $(GO) build -o "$$dir/bench" ./test/benchwindows; \
	"$$dir/bench" $(if $(filter-out 0,$(JSON)),-json) $(ARGS)

.PHONY: live-nvml
live-nvml: ## on a machine with an NVIDIA GPU: record its counters, read only, into live/ (LOAD='command that loads the GPU', FOR=20s)
	@$(GO) run ./test/live -for '$(or $(FOR),20s)' $(if $(LOAD),-load '$(LOAD)') $(if $(filter-out 0,$(JSON)),-json)

.PHONY: cover
cover: ## coverage by function, and coverage.html
	$(GO) test -coverpkg=./internal/...,./api/client/... -coverprofile=coverage.out ./...
	$(GO) tool cover -html=coverage.out -o coverage.html
	$(GO) tool cover -func=coverage.out

.PHONY: lint
lint: ## gofmt, golangci-lint (the layer rules too), buf lint
	@unformatted=$$(gofmt -l $$(find . -name '.?*' -prune -o -name '*.go' -print)); if [ -n "$$unformatted" ]; then \
		echo "gofmt -w is due on:"; echo "$$unformatted"; exit 1; fi
	$(TOOL) golangci-lint run ./...
	$(TOOL) buf lint

.PHONY: lint-selftest
lint-selftest: ## prove that each layer rule and each forbidden call is reported
	$(GO) test -count=1 -tags lintselftest ./test/lint/

.PHONY: generate
generate: ## Go code from api/quner/v1/*.proto
	$(TOOL) buf generate

.PHONY: check-generated
check-generated: ## fail if the generated code is not what the proto files say
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(TOOL) buf generate -o "$$fresh"; \
	if ! diff -r <(cd "$$fresh/api" && find . -name '*.pb.go' -exec sha256sum {} + | sort -k2) \
	             <(cd api && find . -name '*.pb.go' -exec sha256sum {} + | sort -k2); then \
		echo "generated code is stale: run 'make generate' and commit"; exit 1; fi

.PHONY: clean
clean: ## remove what the targets above have built
	rm -rf bin dist coverage.out coverage.html
