# What can be done here. `make` alone lists it; `make demo` and `make test` set up all they need.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO := $(CURDIR)/tools/cargo
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
PREFIX ?= /usr/local
DESTDIR ?=
FUZZER := $(TARGET)/tools/bin/cargo-fuzz
# Seconds that `make fuzz` gives each target.
FUZZ_SECONDS ?= 60
# Seconds that each flood of `make flood` lasts.
FLOOD_SECONDS ?= 30
# Rounds of `make kill-rounds`.
KILL_ROUNDS ?= 100
# Further arguments, such as `make demo ARGS="--tree /usr/share/doc"`.
ARGS ?=

##@ The two to begin with
.PHONY: demo test
demo: build ## Store a real tree in a parallel file system on this machine, kill a server, verify, report
	@# By way of cargo, so that the demonstration finds the toolchain whose files it stores.
	$(CARGO) run --release --locked --quiet -p causeway-cli -- demo $(ARGS)

test: check unit loom ## Everything: style, unit, conformance, kill and fault tests, decoders, loom
	@awk '/^test result:/ { passed += $$4; failed += $$6 } \
		END { printf "test result: %s. %d passed; %d failed (all suites)\n", \
		failed ? "FAILED" : "ok", passed, failed }' $(TARGET)/test.log $(TARGET)/loom.log

##@ Parts of the test
.PHONY: check unit loom
check: ## Formatting, clippy and documentation, warnings denied
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || \
		rustup component add rustfmt clippy || \
		{ echo "make check needs rustfmt and clippy (rustup component add rustfmt clippy)"; exit 1; }
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

unit: ## Tests of every room, conformance of every method, real processes killed
	@mkdir -p $(TARGET)
	$(CARGO) test --workspace --locked 2>&1 | tee $(TARGET)/test.log

loom: ## The shared queues under every interleaving
	@mkdir -p $(TARGET)
	CARGO_TARGET_DIR=$(TARGET)/loom RUSTFLAGS="--cfg loom" $(CARGO) test --release --locked \
		-p causeway-transport --lib loom 2>&1 | tee $(TARGET)/loom.log

##@ Longer tests
.PHONY: fuzz fuzz-smoke kill-rounds flood asan
fuzz: $(FUZZER) ## Fuzz every decoder, FUZZ_SECONDS each (default 60)
	$(CARGO) run --quiet --locked -p causeway-testkit --example corpus fuzz/corpus
	@for target in $$($(FUZZ) list); do \
		echo "== $$target"; \
		$(FUZZ) run $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 \
			-malloc_limit_mb=64 -verbosity=0 -print_final_stats=1; \
	done

fuzz-smoke: ## The same for five seconds each
	$(MAKE) fuzz FUZZ_SECONDS=5

# cargo-fuzz wants switches of rustc that stable Rust hides.
FUZZ := RUSTC_BOOTSTRAP=1 $(FUZZER) fuzz
$(FUZZER):
	$(CARGO) install cargo-fuzz --locked --root $(TARGET)/tools

kill-rounds: ## SIGKILL servers at random moments under load, KILL_ROUNDS times (default 100), verify each time
	CAUSEWAY_KILL_ROUNDS=$(KILL_ROUNDS) $(CARGO) test --release --locked -p causeway-fs \
		--test whole kills -- --nocapture

flood: ## 64 processes flood one with messages for FLOOD_SECONDS (default 30), over shm and over tcp
	CAUSEWAY_FLOOD_SECONDS=$(FLOOD_SECONDS) $(CARGO) test --release --locked -p causeway-testkit \
		--test scale floods -- --nocapture --test-threads=1

# The thread sanitizer is left out: it needs a standard library built for it, and does not know the
# memory that processes share; loom and the conformance suite look for races instead.
asan: ## The rooms with unsafe code, and the one above them, under the address sanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=$(TARGET)/asan \
		$(CARGO) test --locked --target $$($(CARGO) -vV | sed -n 's/^host: //p') --lib \
		-p causeway-sys -p causeway-transport -p causeway-bmi

##@ Building and measuring
.PHONY: build bench install clean help
build: ## The command, optimised: target/release/causeway
	$(CARGO) build --release --locked -p causeway-cli

bench: build ## Messages and file system, beside this machine's limits
	$(TARGET)/release/causeway bench messages $(ARGS)
	$(TARGET)/release/causeway bench fs $(ARGS)

install: build ## The command into PREFIX/bin (default /usr/local)
	install -D -m 755 $(TARGET)/release/causeway $(DESTDIR)$(PREFIX)/bin/causeway

clean: ## Everything that was built
	$(CARGO) clean
	rm -rf fuzz/target fuzz/corpus fuzz/artifacts

help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
