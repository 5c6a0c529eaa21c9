# The bench. Variables: SIZES SHAPES TARGETS DURABILITY ROUNDS SLICES CLIENTS SYNCED_INSERTS SCALE, DIWAN_URI MONGODB_URI COUCHDB_URL.
# A shorter run: make bench-persons SIZES=5000,50000 TARGETS=diwan,postgres

PYTHON ?= python3
BENCH_PYTHON := .venv/bin/python
BENCH_READY := .venv/bench-ready

bench_option = $(if $($(1)),--$(2) $($(1)))
BENCH_TARGET_OPTIONS = $(call bench_option,TARGETS,targets) $(call bench_option,DIWAN_URI,diwan-uri) \
	$(call bench_option,MONGODB_URI,mongodb-uri) $(call bench_option,COUCHDB_URL,couchdb-url)
BENCH_PERSONS_OPTIONS = $(call bench_option,SIZES,sizes) $(call bench_option,SHAPES,shapes) \
	$(call bench_option,DURABILITY,durability) $(call bench_option,ROUNDS,rounds) $(call bench_option,SLICES,slices) \
	$(call bench_option,CLIENTS,clients) $(call bench_option,SYNCED_INSERTS,synced-inserts)

.PHONY: bench-persons bench-washers bench-program test-bench

# Experiment P: table and plots under bench/runs/<date>-<machine>/.
bench-persons: $(BENCH_READY) bench-program
	$(BENCH_PYTHON) -m bench persons $(BENCH_PERSONS_OPTIONS) $(BENCH_TARGET_OPTIONS)

# Experiment W, at SCALE times the published numbers of documents.
bench-washers: $(BENCH_READY) bench-program
	$(BENCH_PYTHON) -m bench washers $(call bench_option,SCALE,scale) $(BENCH_TARGET_OPTIONS)

# Neither a given server nor a run without Diwan needs the program.
BENCH_TARGETS = $(or $(TARGETS),diwan)
bench-program:
	$(if $(DIWAN_URI),,$(if $(findstring diwan,$(BENCH_TARGETS)),cargo build --release --bin diwan))

# The bench's own tests.
test-bench: $(BENCH_READY)
	$(BENCH_PYTHON) -m pytest -q bench/tests

$(BENCH_READY): bench/requirements.txt
	test -x $(BENCH_PYTHON) || $(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	touch $@
