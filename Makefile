# The two main commands are `make serve` and `make test`. The other targets are parts of them.

SHELL := /bin/bash
CARGO ?= cargo
PYTHON ?= python3
DATA ?= diwan-data
export CARGO_TERM_COLOR ?= auto

.PHONY: help serve build test test-quick check-style test-rust test-clients test-postgres test-crash rights
.PHONY: web web-dev check-web test-web screenshots

help: ## Show the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

serve: build ## Build Diwan and serve the directory DATA (diwan-data) on both ports.
	target/release/diwan serve --data $(DATA)

build: ## Build the release binary.
	$(CARGO) build --release --bin diwan

test: check-style check-web test-rust test-bench fuzz test-crash test-clients test-postgres test-web ## Everything: style, Rust tests, fuzzing, crash tests, real clients.

check-style: ## Formatting, lints, documentation links, rules of the repository.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --document-private-items --quiet

test-rust: ## Unit, golden, model and in-process tests.
	$(CARGO) test --workspace --lib --bins --tests

# The development build: it shares all its crates with the Rust tests.
PROGRAM := target/debug/diwan
$(PROGRAM): FORCE
	$(CARGO) build --bin diwan

# With symbols and without a release's link time: for profiles.
target/fast/diwan: FORCE
	$(CARGO) build --profile fast --bin diwan

.PHONY: FORCE
FORCE:

# A file's tests run one after another, files run side by side.
PYTEST := DIWAN_BIN=$(PROGRAM) .venv/bin/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Clients whose tests take seconds.
QUICK := crud cursors aggregation indexes two_faces http_bad_input node users

test-quick: test-rust $(PROGRAM) .venv/clients tests/node/node_modules ## What a change needs before `make test`: Rust tests and quick clients.
	$(CARGO) fmt --all --check
	$(PYTEST) $(QUICK:%=tests/clients/test_%.py)

test-crash: $(PROGRAM) .venv/clients ## Kill the server again and again under mixed writes; nothing acknowledged may be lost.
	$(PYTEST) tests/crash

test-clients: $(PROGRAM) .venv/clients tests/node/node_modules ## Real clients against a real server.
	$(PYTEST) tests/clients tests/security

# Client tests that use most of the store.
OVER_POSTGRES := crud two_faces transactions change_streams move

test-postgres: $(PROGRAM) .venv/clients ## The engine over a PostgreSQL server, some of the clients with a server over it, and several servers.
	.venv/bin/python tests/postgres_server.py -- $(CARGO) test -p diwan-postgres -- --include-ignored
	.venv/bin/python tests/postgres_server.py -- env $(PYTEST) $(OVER_POSTGRES:%=tests/clients/test_%.py)
	$(PYTEST) tests/processes

web: web/node_modules ## Build the web interface from web/src into web/dist, which the binary embeds.
	cd web && node build.mjs

web-dev: web/node_modules ## Serve the web interface from its source, beside the server at DIWAN (http://127.0.0.1:5984).
	cd web && node serve.mjs

check-web: web/node_modules ## Types and unit tests of the web interface; web/dist must be what web/src builds.
	cd web && npm run --silent check && npm test --silent && node build.mjs --check

test-web: $(PROGRAM) .venv/clients tests/web/node_modules ## The web interface in a headless Chromium.
	$(PYTEST) tests/web

screenshots: $(PROGRAM) .venv/clients tests/web/node_modules ## Pictures of each page into docs/pictures.
	SCREENSHOTS=$(CURDIR)/docs/pictures $(PYTEST) tests/web

rights: $(PROGRAM) .venv/clients ## Make docs/rights.md: try every command and route with several rights.
	DIWAN_WRITE_RIGHTS=1 $(PYTEST) tests/security

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/clients: tests/requirements.txt .venv/bin/python
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

tests/node/node_modules: tests/node/package.json
	cd tests/node && npm install --no-audit --no-fund --loglevel=error
	touch $@

web/node_modules: web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	touch $@

tests/web/node_modules: tests/web/package.json
	cd tests/web && npm install --no-audit --no-fund --no-package-lock --loglevel=error
	touch $@

include bench/bench.mk
include fuzz/fuzz.mk
