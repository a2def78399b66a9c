# Two commands: `make demo` shows the main job end to end, `make test` checks everything. Both set up what they need.
# Native parts, models and demo documents go under .ragbus/ and are downloaded once.

SHELL := /bin/bash
PYTHON ?= python3
CARGO ?= cargo
FEATURES := --all-features

.PHONY: help setup demo test build fmt fmt-check lint doc check bench

help:
	@echo "make demo   set up, build, start everything, ingest real documents, ask five questions"
	@echo "make test   set up, then formatting, clippy, docs and all tests"
	@echo "make setup  native parts and models under .ragbus/"
	@echo "make build  target/release/ragbus"
	@echo "make bench  the benchmarks of docs/benchmarks.md"
	@echo "make fmt    format; make lint: clippy with warnings as errors"

setup:
	@command -v $(PYTHON) >/dev/null || { echo "make setup: needs Python 3.9 or newer: apt-get install python3 python3-venv, or set PYTHON"; exit 1; }
	@$(PYTHON) scripts/setup.py

build:
	@command -v $(CARGO) >/dev/null || { echo "make build: needs Rust 1.95 or newer (cargo on PATH)"; exit 1; }
	$(CARGO) build --release --locked

demo: setup build
	@bash scripts/demo.sh

# The tests need no demo documents.
test-setup:
	@command -v $(PYTHON) >/dev/null || { echo "make test: needs Python 3.9 or newer: apt-get install python3 python3-venv, or set PYTHON"; exit 1; }
	@command -v $(CARGO) >/dev/null || { echo "make test: needs Rust 1.95 or newer (cargo on PATH)"; exit 1; }
	@for part in nats onnx models postgres; do $(PYTHON) scripts/setup.py --only $$part || exit 1; done
.PHONY: test-setup

fmt:
	$(CARGO) fmt --all

fmt-check:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --locked --all-targets $(FEATURES) -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps $(FEATURES)

# cargo nextest gives every test a process of its own; without it cargo test runs the same tests.
check:
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  set -x; $(CARGO) nextest run --locked --no-fail-fast $(FEATURES); \
	else \
	  echo "cargo nextest is not installed: running cargo test"; \
	  set -x; $(CARGO) test --locked $(FEATURES) --tests; \
	fi

test: test-setup fmt-check lint doc check

bench: setup build
	@bash scripts/bench.sh
