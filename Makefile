# `make demo` shows Cenote at work, `make test` runs every test. The rest are parts of them.
# All build artefacts go to one folder outside the checkout, so that a fresh clone reuses compiled dependencies.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/cenote/target
export CENOTE_BIN ?= $(CARGO_TARGET_DIR)/release/cenote
PYTHON = $$($(CURDIR)/tests/setup)
ARGS ?=
SECONDS ?= 10
ROUNDS ?= 250
TARGETS ?= json wal key

.PHONY: demo build test unit e2e oracle cases crash fuzz bench bench-peers fmt lint docs golden

demo: build        ## build it and show the main job on real input
	@"$(PYTHON)" tests/demo

build:             ## the binary
	@command -v cargo >/dev/null || { echo "missing: Rust (cargo), version 1.95 or later"; exit 1; }
	@tests/setup --build
	cargo build --release --workspace --bins

test: unit e2e cases oracle fuzz   ## every test that passes today

unit:              ## tests in Rust
	@tests/setup --build
	cargo test --release --workspace --no-fail-fast $(ARGS)

e2e: build         ## tests with real clients
	cd tests && "$(PYTHON)" -m pytest e2e $(ARGS)

# Without arguments the same 500 queries over 20 commits each time, so that a failure is the change's; `ARGS='--cases 500'` looks for
# new ones. A failure is made small and written as a case file.
ORACLE_ARGS = $(if $(ARGS),$(ARGS),--seed 1 --cases 50 --seconds 450)

oracle: build      ## random views judged by DuckDB, and the oracle's tests of itself; replay: make oracle ARGS='--seed N'
	$(if $(ARGS),,cd tests && "$(PYTHON)" -m pytest oracle)
	cd tests && "$(PYTHON)" -m oracle $(ORACLE_ARGS)

cases: build       ## SQL cases in three modes, at 1 and 4 workers
	"$(PYTHON)" tests/run_cases $(ARGS)

crash: build       ## 1,000 kills at random moments, judged by a model; ROUNDS for each of its four runs
	cd tests && CRASH_ROUNDS=$(ROUNDS) "$(PYTHON)" -m pytest e2e/test_crash.py -k sigkill -s

fuzz:              ## hostile bytes for each reader, SECONDS for each; replay: make fuzz TARGETS=json ARGS=crash-...
	@tests/setup c++=g++ >/dev/null
	tests/fuzz/run --seconds $(SECONDS) $(TARGETS) -- $(ARGS)

# `make bench ARGS=--write` measures the curves too and writes docs/benchmarks.md, with the table that bench-peers left.
bench: build       ## figures, as one table; ARGS=--write writes docs/benchmarks.md
	"$$(tests/setup wrk)" tests/bench/bench $(ARGS)

bench-peers: build ## Cenote beside other engines on the same files
	"$(PYTHON)" tests/bench/bench_peers $(ARGS)

fmt:               ## format
	cargo fmt --all

lint:              ## what CI checks before it tests
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings

docs: build        ## the API pages; and check that docs/reference is what the program says
	RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps
	"$(PYTHON)" tests/reference --check

golden: build      ## write all golden files and docs/reference anew, to be reviewed as a diff
	GOLDEN=write cargo test --release --workspace
	cd tests && ERRORS=write "$(PYTHON)" -m pytest -q e2e/test_errors.py
	"$(PYTHON)" tests/reference
