# quern's commands. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PORT ?= 8000
HOST ?= 127.0.0.1
MODEL ?=
SERVE_FLAGS ?=
FUZZ_SECONDS ?= 600
JOBS ?= $(shell nproc)

# Where rustup puts cargo, for shells that do not have it in PATH.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: help
help: ## this list
	@echo "quern: an inference server for GLM-5-class models. Two commands do all set-up themselves:"
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 18
	@echo
	@echo "Variables: PORT=$(PORT) HOST=$(HOST) MODEL=DIR SERVE_FLAGS='...' for serve, FUZZ_SECONDS=$(FUZZ_SECONDS) for fuzz, JOBS=$(JOBS)"

.PHONY: serve
serve: ## build, start the server on the bundled model (MODEL=DIR: on yours) and say what to try
	@PORT='$(PORT)' HOST='$(HOST)' MODEL='$(MODEL)' JOBS='$(JOBS)' exec tools/setup/serve.sh $(SERVE_FLAGS)

.PHONY: test
test: ## build and run every test: unit, golden, sanitizers, fuzz (short), end to end
	@JOBS='$(JOBS)' tools/ci/test.sh

.PHONY: bench
bench: ## build and run the benchmark programs
	@JOBS='$(JOBS)' tools/ci/bench.sh

.PHONY: build
build: ## only build the release program: build/release/bin/quern
	@JOBS='$(JOBS)' tools/setup/build.sh quern

.PHONY: unit
unit: ## unit tests of the dev build (checks on, warnings are errors); quick to repeat while working
	@JOBS='$(JOBS)' tools/ci/preset.sh dev

.PHONY: asan
asan: ## unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@JOBS='$(JOBS)' tools/ci/preset.sh asan

.PHONY: tsan
tsan: ## unit tests under ThreadSanitizer
	@JOBS='$(JOBS)' tools/ci/preset.sh tsan

.PHONY: fuzz
fuzz: ## fuzz each parser for FUZZ_SECONDS
	@JOBS='$(JOBS)' FUZZ_SECONDS='$(FUZZ_SECONDS)' tools/ci/fuzz.sh

.PHONY: format
format: ## clang-format our sources in place
	@tools/ci/format.sh

.PHONY: tidy
tidy: ## clang-tidy over our sources
	@JOBS='$(JOBS)' tools/ci/tidy.sh

.PHONY: clean
clean: ## remove what was built (not the Python and Node.js packages)
	rm -rf build
