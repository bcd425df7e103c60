# Two commands to begin with: `make demo` (the main job) and `make test` (everything that needs Rust alone).
CARGO ?= cargo

.PHONY: demo test lint fmt test-real matrix build

## the main job: a large answer saved by a gateway with a built-in upstream
demo:
	$(CARGO) run --bin mcpproxy -- demo

## everything that needs Rust alone
test:
	$(CARGO) test --workspace

## formatting and lints, warnings are errors
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt:
	$(CARGO) fmt --all

build:
	$(CARGO) build --release --bin mcpproxy

## real MCP servers and clients; `tests/real/install` installs them
## The profile of the tests, whose hot crates are optimised: nothing is built twice.
test-real:
	$(CARGO) build --bin mcpproxy
	tests/real/run

## each real client with each real server, and large calls saved whole: prints the tables
matrix:
	$(CARGO) build --bin mcpproxy
	tests/real/matrix

.PHONY: race fuzz laboratory test-windows check-macos
## a million saves on a memory disk, in several processes, while others swap, move and delete what is around them
race:
	tests/laboratory/race

## plans of file operations and saves against a model, drawn by coverage; FUZZ_SECONDS (600)
fuzz:
	crates/outputfile/fuzz/run

## the whole laboratory of the writer, as CI runs it; it writes docs/laboratory.md
laboratory:
	python3 tests/laboratory/run.py

## the writer's Windows layer, cross-built and run under Wine; tests/windows/install installs what that needs
test-windows:
	tests/windows/run lint
	tests/windows/run

## the writer's macOS layer, as far as a machine without macOS can: types and lints
check-macos:
	tests/macos/check

.PHONY: bench bench-peers build-bench
## what the gateway costs, beside the bare upstream and the floor of a save: one table, under five minutes
bench: build-bench
	python3 benches/bench.py

## the same small and large calls through the peers that are installed beneath $$PEERS (~/.cache/mcp-peers)
bench-peers: build-bench
	python3 benches/peers.py

build-bench:
	$(CARGO) build --release -p mcpproxy -p benchkit
