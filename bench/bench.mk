# The bench. The most common options of `python -m bench run` are variables of the same names. Put all others into OPTIONS:
#   make bench SCALE=0.1 EXPERIMENTS="persons washers" TARGETS=diwan,postgres OPTIONS="--slices 3 --mysql-uri mysql://…"
#   make bench RESUME=bench/runs/<date>-<machine>      continues an interrupted run with its settings
#   make bench-profile WORKLOAD=persons OPERATION="count Q1" DATA_SET=flat

PYTHON ?= python3
BENCH_PYTHON := .venv/bin/python
BENCH_READY := .venv/bench-ready
INFERNO := 0.12.4

bench_option = $(if $($(1)),--$(2) "$($(1))")
BENCH_OPTIONS = $(call bench_option,SCALE,scale) $(call bench_option,TARGETS,targets) $(call bench_option,ROUNDS,rounds) \
	$(call bench_option,CLIENTS,clients) $(call bench_option,DIWAN_URI,diwan-uri) $(call bench_option,MONGODB_URI,mongodb-uri) \
	$(call bench_option,COUCHDB_URL,couchdb-url) $(OPTIONS)

.PHONY: bench bench-persons bench-washers bench-profile bench-program test-bench

bench: $(BENCH_READY) bench-program ## Measure EXPERIMENTS (all) at SCALE (1) on TARGETS (all): a report under bench/runs/.
	$(BENCH_PYTHON) -m bench run $(EXPERIMENTS) $(call bench_option,RESUME,resume) $(BENCH_OPTIONS)

bench-persons: ## Measure experiment P only.
	$(MAKE) bench EXPERIMENTS=persons

bench-washers: ## Measure experiment W only.
	$(MAKE) bench EXPERIMENTS=washers

bench-profile: $(BENCH_READY) target/fast/diwan target/tools/bin/inferno-flamegraph ## Draw flame graphs of Diwan's server during WORKLOAD (and OPERATION).
	$(BENCH_PYTHON) -m bench profile $(WORKLOAD) --diwan-program target/fast/diwan $(call bench_option,OPERATION,operation) \
		$(call bench_option,DATA_SET,data-set) $(call bench_option,SCALE,scale) $(call bench_option,TARGETS,targets) \
		$(call bench_option,ROUNDS,rounds) $(OPTIONS)

target/tools/bin/inferno-flamegraph:
	$(CARGO) install --quiet --locked --root target/tools inferno@$(INFERNO)

# A run with a given Diwan (DIWAN_URI) or without Diwan does not need the program.
BENCH_TARGETS = $(or $(TARGETS),diwan)
bench-program:
	$(if $(DIWAN_URI),,$(if $(findstring diwan,$(BENCH_TARGETS)),$(CARGO) build --release --bin diwan))

test-bench: $(PROGRAM) $(BENCH_READY) ## Test the bench: every client, every experiment at the smallest scale.
	$(PYTEST) -p no:asyncio bench/tests

$(BENCH_READY): bench/requirements.txt
	test -x $(BENCH_PYTHON) || $(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	touch $@
