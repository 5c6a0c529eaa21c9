# Fuzzing on the stable toolchain: libFuzzer with LLVM's coverage pass.
#
#   make fuzz FUZZ_SECONDS=90               all targets, with the time divided among them
#   make fuzz-key_encoding FUZZ_SECONDS=600 one target
#
# Targets for outside input: bson_reader and wire (MongoDB messages), json and multipart (HTTP bodies,
# including ids and revisions), sign_in (SCRAM messages, cookies, tokens). For parsed queries: filter and mango. For stored data: key_encoding, collation (keys of views),
# revision_tree (against a simple model). A target is a file fuzz/fuzz_targets/NAME.rs and its [[bin]] in fuzz/Cargo.toml. Its corpus is
# fuzz/corpus/NAME. An input that fails is saved in fuzz/artifacts/NAME; give it to the target's binary to run it again.

FUZZ_SECONDS ?= 90
FUZZ_DIR := $(dir $(lastword $(MAKEFILE_LIST)))
FUZZ_TARGETS := $(basename $(notdir $(wildcard $(FUZZ_DIR)fuzz_targets/*.rs)))
# Naming the host as the target keeps the instrumentation out of build scripts and procedural macros.
FUZZ_HOST := $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_FLAGS := -Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares \
	--cfg fuzzing

.PHONY: fuzz fuzz-build $(addprefix fuzz-,$(FUZZ_TARGETS))

# The share of one target.
FUZZ_SHARE := $(shell expr $(FUZZ_SECONDS) / $(words $(FUZZ_TARGETS)) + 1)

fuzz: fuzz-build
	@for target in $(FUZZ_TARGETS); do \
		$(MAKE) --no-print-directory fuzz-$$target FUZZ_SECONDS=$(FUZZ_SHARE) || exit 1; \
	done

fuzz-build:
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --quiet --target $(FUZZ_HOST) \
		--manifest-path $(FUZZ_DIR)Cargo.toml --target-dir $(FUZZ_DIR)target

$(addprefix fuzz-,$(FUZZ_TARGETS)): fuzz-%: fuzz-build
	mkdir -p $(FUZZ_DIR)corpus/$* $(FUZZ_DIR)artifacts/$*
	@log=$(FUZZ_DIR)artifacts/$*/log; \
	if $(FUZZ_DIR)target/$(FUZZ_HOST)/release/$* $(FUZZ_DIR)corpus/$* \
		-artifact_prefix=$(FUZZ_DIR)artifacts/$*/ -max_total_time=$(FUZZ_SECONDS) -max_len=4096 \
		-timeout=10 -rss_limit_mb=2048 -use_value_profile=1 -print_final_stats=1 > $$log 2>&1; \
	then echo "fuzz $*: $$(sed -n 's/^stat::number_of_executed_units: *//p' $$log) runs without a failure"; \
	else tail -n 60 $$log; echo "fuzz $*: FAILED, complete log in $$log"; exit 1; fi
