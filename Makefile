# Targets of this repository. `make` alone lists them; `make demo` and `make test` set up all they need.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO := $(CURDIR)/tools/cargo
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
PREFIX ?= /usr/local
DESTDIR ?=
# Seconds that `make fuzz` gives each target.
FUZZ_SECONDS ?= 60
# Seconds that each flood of `make flood` lasts.
FLOOD_SECONDS ?= 30
# Rounds of `make kill-rounds`.
KILL_ROUNDS ?= 1000
# Seeds of `make torture`.
TORTURE_SEEDS ?= 1000
# States of disks that `make power` looks at.
CRASHES ?= 2000
# Seeds of `make simulate`, or one of them.
SEEDS ?= 100000
SEED ?=
# Rounds of `make test-mount`.
MOUNT_ROUNDS ?= 100
# Numbers of processes of `make test-mpi4py`.
MPI4PY_RANKS ?= 1 2 3 4 8
# Modules of `make mpi4py-smoke`: those that reach most of the library in a few seconds.
MPI4PY_SMOKE := test_attributes test_cco_buf test_cco_nb_buf test_cco_obj_inter test_comm test_comm_inter test_comm_topo \
	test_exceptions test_file test_group test_info test_op test_p2p_buf_part test_p2p_obj test_request \
	test_dynproc test_session test_spawn test_status test_threads test_util_pkl5 test_win
# Tests that run at a time. Most of them wait for other processes: on two processors, four at a time take three quarters of
# the time, and meet each other's ports and locks more often.
TEST_THREADS ?= $(shell nproc)
# The older revision of `make older`.
REV ?= HEAD~60
# Targets that `make test` runs beside the tests: they compile more than they test.
BESIDE ?= loom same check
# Further arguments, such as `make demo ARGS="--tree /usr/share/doc"`.
ARGS ?=

##@ The two to begin with
.PHONY: demo test
demo: build ## Store a real tree in a parallel file system on this machine, kill a server, verify, report
	@# By way of cargo, so that the demonstration finds the toolchain whose files it stores.
	$(CARGO) run --release --locked --quiet -p causeway-cli -- demo $(ARGS)

# Most tests wait for other processes most of the time. The targets in BESIDE, which mostly compile, use the processors meanwhile, with the
# lowest priority. Their output comes at the end, behind that of the tests.
test: format ## Everything: style, unit, conformance, kill and fault tests, decoders, loom
	@mkdir -p $(TARGET)
	@nice -n 19 $(MAKE) $(BESIDE) >$(TARGET)/beside.log 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null || true' EXIT; \
	$(MAKE) unit waits-smoke mpi4py-smoke python-smoke; \
	trap - EXIT; \
	echo "make test: waiting for the targets beside the tests: $(BESIDE)"; \
	if wait $$beside; then cat $(TARGET)/beside.log; else \
		cat $(TARGET)/beside.log; echo "make test: one of these has failed: $(BESIDE)"; exit 1; fi
	@awk '/^test result:/ { passed += $$4; failed += $$6 } \
		END { printf "test result: %s. %d passed; %d failed (all suites)\n", \
		failed ? "FAILED" : "ok", passed, failed }' $(TARGET)/test.log $(TARGET)/loom.log

##@ Parts of the test
.PHONY: format check unit waits-smoke mpi4py-smoke python-smoke same loom
format: ## Formatting
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || \
		rustup component add rustfmt clippy || \
		{ echo "make check needs rustfmt and clippy (rustup component add rustfmt clippy)"; exit 1; }
	$(CARGO) fmt --all --check

check: format ## Formatting, clippy and documentation, warnings denied
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

unit: ## Tests of every room, conformance of every method, real processes killed
	@mkdir -p $(TARGET)
	tools/mount-needs
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --locked 2>&1 | tee $(TARGET)/test.log

# `unit` has built these tests, of the whole workspace: with one package named its dependencies would have other
# features and be built again. See crates/sys/src/waits.rs.
waits-smoke: ## A part of `make waits`, some seconds long
	CAUSEWAY_WAITS=events $(CARGO) test --workspace --locked --quiet --test messages -- \
		shm_with_attach tcp_without_key mem
	CAUSEWAY_WAITS=events $(CARGO) test --workspace --locked --quiet --test whole -- integrity

# The debug build of the whole workspace without tests. With examples, dependencies have the same features as
# in `unit`; without examples most of them would be built again.
DEBUG_BUILD := build --workspace --lib --bins --examples --locked --quiet

# With the debug build of the command, which `unit` has made, and of the library, which its tests have: that checks overflows
# and assertions.
mpi4py-smoke: ## A part of `make test-mpi4py`, with 2 and 3 ranks
	@$(CARGO) $(DEBUG_BUILD)
	@$(MAKE) mpi-install MPI_PROFILE=dev PREFIX=$(TARGET)/mpi4py/debug DESTDIR= MPI_PLAIN_NAMES=no
	MPI4PY_LIMIT=60 tools/mpi4py $(TARGET)/mpi4py $(TARGET)/mpi4py/debug $(TARGET)/debug/causeway "2 3" $(MPI4PY_SMOKE)

# With the debug builds, too: no wheel is made. Programs such as pandas are not installed, and their tests left out.
python-smoke: ## The Python package's own tests, without a wheel
	@$(CARGO) $(DEBUG_BUILD)
	tools/python $(TARGET)/python smoke $(TARGET)/debug/lib_causeway.so $(TARGET)/debug/causeway

# All figures and tables in their short form, and the examples with their timelines. `unit` has built the debug
# program; the release build takes half a minute of one processor, and so do both runs. The debug program checks
# overflows and assertions, and its simulator is hardly optimized and not linked as a whole.
same: ## The simulator's outputs from a debug and a release build: the same bytes
	@mkdir -p $(TARGET)
	$(CARGO) build --workspace --locked --quiet --example outputs
	$(CARGO) build --locked --quiet -p causeway-sim --example outputs --release
	@for build in debug release; do \
		$(TARGET)/$$build/examples/outputs examples/*.toml >$(TARGET)/outputs-$$build.txt; done
	@cmp $(TARGET)/outputs-debug.txt $(TARGET)/outputs-release.txt || \
		{ echo "make same: the simulator's outputs depend on how it was compiled:"; \
		diff $(TARGET)/outputs-debug.txt $(TARGET)/outputs-release.txt | head -n 20; exit 1; }

# These tests spend their time in loom. Optimizing the rest, too, takes 102 instead of 67 s of a processor and makes them no faster.
LOOM_LEVELS := --config profile.release.opt-level=0 --config 'profile.release.package."*".opt-level=0' \
	--config profile.release.package.loom.opt-level=3 --config profile.release.package.generator.opt-level=3

# Linking as a whole takes longer here than it saves.
loom: ## The shared queues and locks under every interleaving
	@mkdir -p $(TARGET)
	CARGO_TARGET_DIR=$(TARGET)/loom RUSTFLAGS="--cfg loom" \
		CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 $(CARGO) test --release --locked \
		$(LOOM_LEVELS) -p causeway-transport -p causeway-sys --lib loom 2>&1 | tee $(TARGET)/loom.log

##@ Longer tests
.PHONY: waits fuzz fuzz-smoke simulate torture power kill-rounds many all-bits flood paper older test-mpi4py test-python test-mount asan valgrind
waits: ## The suites of methods, messages, MPI and file system where only events end waits: a lost wake-up hangs
	CAUSEWAY_WAITS=events $(CARGO) test --locked --no-fail-fast -p causeway-testkit \
		--test conformance --test messages --test scale
	CAUSEWAY_WAITS=events $(CARGO) test --locked --no-fail-fast -p causeway-engine -p causeway-fs \
		-p causeway-bmi-c -p causeway-fs-c -p causeway-mpi -p causeway-mpi-c
	CAUSEWAY_WAITS=events $(CARGO) test --locked --no-fail-fast -p causeway-cli --test mpi

fuzz: ## Fuzz every decoder, FUZZ_SECONDS each (default 60), as many at a time as there are processors
	@command -v c++ >/dev/null || \
		{ echo "make fuzz needs a C++ compiler for libFuzzer (apt-get install g++)"; exit 1; }
	$(CARGO) build --workspace --quiet --locked --example corpus
	@mkdir -p $(TARGET)/fuzz
	$(TARGET)/debug/examples/corpus fuzz/corpus >$(TARGET)/fuzz/decoders
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="$(FUZZ_FLAGS)" CARGO_TARGET_DIR=$(TARGET)/fuzz \
		$(CARGO) build --release --locked --bins --manifest-path fuzz/Cargo.toml --target $(HOST)
	@xargs -P "$$(nproc)" -I {} <$(TARGET)/fuzz/decoders \
		tools/fuzz-one $(TARGET)/fuzz/$(HOST)/release/decoder {} $(FUZZ_SECONDS) $(TARGET)/fuzz/{}.log || \
		{ echo "make fuzz: a decoder failed. Inputs that break decoders are kept, and tried first next time:"; \
		find $(CURDIR)/fuzz/artifacts -type f; exit 1; }

fuzz-smoke: ## The same for five seconds each
	$(MAKE) fuzz FUZZ_SECONDS=5

# The flags of `cargo fuzz`, so that nothing has to be installed: libFuzzer needs the branches taken and the
# values compared, and the address sanitizer reports stray accesses.
# Stable Rust hides these switches behind RUSTC_BOOTSTRAP.
FUZZ_FLAGS := --cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
	-Cllvm-args=-simplifycfg-branch-fold-threshold=0
# Sanitizers need a target named, even if it is this machine's own.
HOST = $(shell $(CARGO) -vV | sed -n 's/^host: //p')

simulate: ## Simulated networks that lose, double, reorder, alter, cut off: SEEDS of them (default 100000), or just one: SEED=…
	CAUSEWAY_SEEDS=$(SEEDS) CAUSEWAY_SEED=$(SEED) $(CARGO) test --release --locked \
		-p causeway-testkit --test simulator promises -- --nocapture

torture: ## Real servers and clients against a model while everything goes wrong: TORTURE_SEEDS times (default 1000), or one SEED=…
	CAUSEWAY_SEEDS=$(TORTURE_SEEDS) $(if $(SEED),CAUSEWAY_SEED=$(SEED)) $(CARGO) test --release --locked \
		-p causeway-cli --test torture reads_return -- --nocapture

power: ## Loss of power at random syncs, CRASHES states for each durability (default 2000), verify each
	CAUSEWAY_CRASHES=$(CRASHES) $(if $(SEED),CAUSEWAY_SEED=$(SEED)) $(CARGO) test --release --locked \
		-p causeway-testkit --test power survive -- --nocapture --test-threads=1

kill-rounds: ## SIGKILL servers at random moments under load, KILL_ROUNDS times (default 1000), verify each time
	CAUSEWAY_KILL_ROUNDS=$(KILL_ROUNDS) $(CARGO) test --release --locked -p causeway-fs \
		--test whole kills -- --nocapture

many: build ## Every verb of the file system on 100,000 files in one directory, and on 1,000 levels of them; a full metadata disk ten times; 1,000 programs that cache one file
	CAUSEWAY_FULL_DISK_ROUNDS=10 $(CARGO) test --release --locked -p causeway-fs --test meta_full
	CAUSEWAY_MANY=100000 $(CARGO) test --release --locked -p causeway-cli --test cli many -- \
		--nocapture --test-threads=1
	CAUSEWAY_HOLDERS=1000 $(CARGO) test --release --locked -p causeway-fs --test whole leases::one_stopped

all-bits: ## Every bit of a small metadata store's journal, tables and lists flipped, one at a time
	CAUSEWAY_ALL_BITS=1 $(CARGO) test --release --locked -p causeway-fs --test meta_damage -- --nocapture

flood: ## 64 processes flood one with messages for FLOOD_SECONDS (default 30), over shm and over tcp
	CAUSEWAY_FLOOD_SECONDS=$(FLOOD_SECONDS) $(CARGO) test --release --locked -p causeway-testkit \
		--test scale floods -- --nocapture --test-threads=1

# `unit` runs few points and rounds of each, with which a claim that is listed as open may seem to hold; this runs all.
paper: build ## Every figure and table of the thesis in full: each claim holds, or is known to be open
	$(TARGET)/release/causeway sim paper --check $(ARGS)

older: ## An older revision of this repository, REV (default HEAD~60): its servers, clients and ranks with those of this build
	tools/older $(TARGET)/older $(TARGET) $(CARGO) $(REV)

test-mpi4py: build ## mpi4py, built from source against MPI's standard ABI: its own tests with 1, 2, 3, 4, 8 ranks (MPI4PY_RANKS)
	@$(MAKE) mpi-install PREFIX=$(TARGET)/mpi4py/prefix DESTDIR= MPI_PLAIN_NAMES=no
	tools/mpi4py $(TARGET)/mpi4py $(TARGET)/mpi4py/prefix $(TARGET)/release/causeway "$(MPI4PY_RANKS)" $(ARGS)

test-python: build python ## The Python package as a wheel, with pandas, pyarrow and zarr
	tools/python $(TARGET)/python test $(TARGET)/release/causeway $(ARGS)

test-mount: ## The mount: programs and test suites on it, 100,000 files, servers killed under a program that verifies, MOUNT_ROUNDS times (default 100)
	tools/mount-needs databases
	tools/mount-suites $(TARGET)/mount-suites $(CARGO)
	CAUSEWAY_MANY=100000 CAUSEWAY_MOUNT_ROUNDS=$(MOUNT_ROUNDS) CAUSEWAY_MOUNT_SUITES=$(TARGET)/mount-suites/bin $(CARGO) test --release --locked -p causeway-cli \
		--test cli mount:: -- --nocapture --test-threads=1

# There is no target for the thread sanitizer. Tried: -Zsanitizer=thread with
# -Cunsafe-allow-abi-mismatch=sanitizer, on the shm tests. None of its reports was a race: the
# test harness's channel and a OnceLock's value (the standard library is not built for it; -Zbuild-std
# needs the component rust-src), and a ring where another test's ring had been (it does not see unmapping
# by a bare system call). And it would miss real ones: the two ends have two mappings of a ring, which it
# does not recognise as the same memory. loom and the conformance suite look for races instead.
asan: ## The rooms with unsafe code, and conformance of methods and messages, under the address sanitizer
	ASAN_OPTIONS=allocator_may_return_null=1 \
		LSAN_OPTIONS=suppressions=$(CURDIR)/tools/asan-leaks:print_suppressions=0 \
		RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=$(TARGET)/asan \
		$(CARGO) test --locked --no-fail-fast --target $(HOST) --lib --test conformance --test messages \
		-p causeway-sys -p causeway-transport -p causeway-engine -p causeway-watch -p causeway-testkit

valgrind: ## C programs, servers and clients over shm and tcp, under valgrind's memcheck, library included
	@command -v valgrind >/dev/null || \
		{ echo "make valgrind needs valgrind (apt-get install valgrind)"; exit 1; }
	CAUSEWAY_VALGRIND=1 $(CARGO) test --locked -p causeway-bmi-c -p causeway-fs-c --test installed programs

##@ Building and measuring
.PHONY: build bench peers compare bmi fs-c mpi python install install-bmi install-fs mpi-install uninstall clean help
build: ## The command, optimised: target/release/causeway
	$(CARGO) build --release --locked -p causeway-cli

bench: build ## Messages and file system, beside this machine's limits
	$(TARGET)/release/causeway bench messages $(ARGS)
	$(TARGET)/release/causeway bench fs $(ARGS)

peers: ## Install UCX, libfabric, Open MPI and MPICH to compare with (Debian's as root, PyPI's here)
	tools/peers $(TARGET)/peers

compare: build ## Messages beside those libraries, with a report: compare.html
	$(TARGET)/release/causeway bench compare --html compare.html $(ARGS)

# An archive of a crate for C, with its dependencies; $(1) is `bmi`, `fs` or `mpi`, $(2) the profile. The debug build uses
# the tests' build of the whole workspace: of one package alone its dependencies would have other features, and be built
# again.
archived = $(CARGO) $(if $(filter dev,$(2)),build --workspace --example $(1)_archive,rustc --profile $(2) -p causeway-$(1)-c \
	--lib --crate-type staticlib) --locked --quiet
archive = $(if $(filter dev,$(2)),$(TARGET)/debug/examples/lib$(1)_archive.a,$(TARGET)/$(2)/libcauseway_$(1)_c.a)

# The C library. rustc gives a cdylib a version script of its own, which knows no versions; so this links
# an archive, all of it, and lets the linker drop the parts that the exported calls do not need.
bmi: ## The message layer for C: libcauseway_bmi.so
	$(call archived,bmi,$(BMI_PROFILE))
	$(CC) -shared -o $(BMI_OUT)/$(BMI_REAL) $(LDFLAGS) -Wl,-soname,$(BMI_SONAME) \
		-Wl,--version-script=crates/bmi-c/libcauseway_bmi.map \
		-Wl,--whole-archive $(call archive,bmi,$(BMI_PROFILE)) -Wl,--no-whole-archive \
		-Wl,--gc-sections -Wl,-z,defs,-z,relro,-z,now -lgcc_s -lpthread -ldl -lm -lc

# The same for the file system, and an archive that exports only the calls of the header: other symbols of a Rust
# archive would collide with those of another one.
fs-c: ## The file system for C: libcauseway_fs.so, libcauseway_fs.a
	$(call archived,fs,$(BMI_PROFILE))
	$(CC) -shared -o $(BMI_OUT)/$(FS_REAL) $(LDFLAGS) -Wl,-soname,$(FS_SONAME) \
		-Wl,--version-script=crates/fs-c/libcauseway_fs.map \
		-Wl,--whole-archive $(call archive,fs,$(BMI_PROFILE)) -Wl,--no-whole-archive \
		-Wl,--gc-sections -Wl,-z,defs,-z,relro,-z,now -lgcc_s -lpthread -ldl -lm -lc
	sed -n 's/^ *\(cwfs_[a-z_]*\);$$/\1/p' crates/fs-c/libcauseway_fs.map >$(BMI_OUT)/libcauseway_fs.names
	$(LD) -r --gc-sections $$(sed 's/^/-u /' $(BMI_OUT)/libcauseway_fs.names) \
		-o $(BMI_OUT)/libcauseway_fs.o $(call archive,fs,$(BMI_PROFILE))
	objcopy --strip-debug -R .llvmbc -R .llvmcmd --keep-global-symbols=$(BMI_OUT)/libcauseway_fs.names $(BMI_OUT)/libcauseway_fs.o
	rm -f $(BMI_OUT)/libcauseway_fs.a
	$(AR) rcs $(BMI_OUT)/libcauseway_fs.a $(BMI_OUT)/libcauseway_fs.o

python: ## The Python package: a wheel in target/python/wheels
	tools/python $(TARGET)/python wheel

# The same for MPI. Its version script is made with the exported functions, by the crate's build script.
mpi: ## MPI's standard ABI: libmpi_abi.so
	$(call archived,mpi,$(MPI_PROFILE))
	$(CC) -shared -o $(MPI_OUT)/libmpi_abi.so.1.new $(LDFLAGS) -Wl,-soname,libmpi_abi.so.1 \
		-Wl,--version-script=$$(ls -t $(MPI_OUT)/build/causeway-mpi-c-*/out/mpi_abi.map | head -n 1) \
		-Wl,--whole-archive $(call archive,mpi,$(MPI_PROFILE)) -Wl,--no-whole-archive \
		-Wl,--gc-sections -Wl,-z,defs,-z,relro,-z,now -lgcc_s -lpthread -ldl -lm -lc
	@# At once: programs that use it may be starting.
	mv -f $(MPI_OUT)/libmpi_abi.so.1.new $(MPI_OUT)/libmpi_abi.so.1
	ln -sfn libmpi_abi.so.1 $(MPI_OUT)/libmpi_abi.so

MPI_PROFILE ?= release
MPI_OUT = $(TARGET)/$(patsubst dev,debug,$(MPI_PROFILE))
# Directories of their own, so that another MPI of the same prefix keeps its header and library.
MPI_INCLUDE := include/causeway-mpi
MPI_LIB := lib/causeway-mpi
MPI_PC = $(DESTDIR)$(PREFIX)/lib/pkgconfig/causeway-mpi.pc
MPI_BIN = $(addprefix $(DESTDIR)$(PREFIX)/bin/,causeway-mpicc causeway-mpicxx)
# `yes` installs the wrappers under the names that every MPI has, too: mpicc, mpicxx.
MPI_PLAIN_NAMES ?= no

BMI_PROFILE ?= release
# Cargo puts the profile `dev` into a folder of another name.
BMI_OUT = $(TARGET)/$(patsubst dev,debug,$(BMI_PROFILE))
BMI_VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
BMI_SONAME := libcauseway_bmi.so.$(firstword $(subst ., ,$(BMI_VERSION)))
BMI_REAL := libcauseway_bmi.so.$(BMI_VERSION)
BMI_HEADER := $(DESTDIR)$(PREFIX)/include/causeway/bmi.h
FS_SONAME := libcauseway_fs.so.$(firstword $(subst ., ,$(BMI_VERSION)))
FS_REAL := libcauseway_fs.so.$(BMI_VERSION)
FS_HEADER := $(DESTDIR)$(PREFIX)/include/causeway/fs.h
FS_PC := $(DESTDIR)$(PREFIX)/lib/pkgconfig/causeway-fs.pc
BMI_PC := $(DESTDIR)$(PREFIX)/lib/pkgconfig/causeway-bmi.pc

install: build install-bmi install-fs mpi-install ## Command, C libraries and headers into PREFIX (default /usr/local)
	install -D -m 755 $(TARGET)/release/causeway $(DESTDIR)$(PREFIX)/bin/causeway
	install -D -m 755 tools/mount.causeway $(DESTDIR)$(PREFIX)/sbin/mount.causeway
	@# mount(8) looks for its helpers there alone.
	@case $(PREFIX) in /usr|/usr/local) install -d $(DESTDIR)/sbin && \
		ln -sf $(PREFIX)/sbin/mount.causeway $(DESTDIR)/sbin/mount.causeway; esac

install-bmi: bmi ## The C library and header alone
	install -D -m 644 crates/bmi-c/include/causeway/bmi.h $(BMI_HEADER)
	install -D -m 755 $(BMI_OUT)/$(BMI_REAL) $(DESTDIR)$(PREFIX)/lib/$(BMI_REAL)
	ln -sf $(BMI_REAL) $(DESTDIR)$(PREFIX)/lib/$(BMI_SONAME)
	ln -sf $(BMI_SONAME) $(DESTDIR)$(PREFIX)/lib/libcauseway_bmi.so
	install -d $(dir $(BMI_PC))
	sed 's|@PREFIX@|$(abspath $(PREFIX))|; s|@VERSION@|$(BMI_VERSION)|' \
		crates/bmi-c/causeway-bmi.pc.in > $(BMI_PC)
	@# The dynamic linker's cache; not when packing, nor without the right to.
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

install-fs: fs-c ## The file system for C alone
	install -D -m 644 crates/fs-c/include/causeway/fs.h $(FS_HEADER)
	install -D -m 755 $(BMI_OUT)/$(FS_REAL) $(DESTDIR)$(PREFIX)/lib/$(FS_REAL)
	install -D -m 644 $(BMI_OUT)/libcauseway_fs.a $(DESTDIR)$(PREFIX)/lib/libcauseway_fs.a
	ln -sf $(FS_REAL) $(DESTDIR)$(PREFIX)/lib/$(FS_SONAME)
	ln -sf $(FS_SONAME) $(DESTDIR)$(PREFIX)/lib/libcauseway_fs.so
	install -d $(dir $(FS_PC))
	sed 's|@PREFIX@|$(abspath $(PREFIX))|; s|@VERSION@|$(BMI_VERSION)|' \
		crates/fs-c/causeway-fs.pc.in > $(FS_PC)
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

mpi-install: mpi ## MPI alone: header, library, causeway-mpicc, causeway-mpicxx; with MPI_PLAIN_NAMES=yes also mpicc, mpicxx
	install -D -m 644 crates/mpi-c/include/mpi.h $(DESTDIR)$(PREFIX)/$(MPI_INCLUDE)/mpi.h
	install -D -m 755 $(MPI_OUT)/libmpi_abi.so.1 $(DESTDIR)$(PREFIX)/$(MPI_LIB)/libmpi_abi.so.1
	ln -sf libmpi_abi.so.1 $(DESTDIR)$(PREFIX)/$(MPI_LIB)/libmpi_abi.so
	install -d $(DESTDIR)$(PREFIX)/bin $(dir $(MPI_PC))
	sed 's|@INCLUDE@|$(MPI_INCLUDE)|; s|@LIB@|$(MPI_LIB)|' crates/mpi-c/install/mpicc > $(firstword $(MPI_BIN))
	chmod 755 $(firstword $(MPI_BIN))
	ln -sf causeway-mpicc $(lastword $(MPI_BIN))
	sed 's|@PREFIX@|$(abspath $(PREFIX))|; s|@VERSION@|$(BMI_VERSION)|; s|@INCLUDE@|$(MPI_INCLUDE)|; s|@LIB@|$(MPI_LIB)|' \
		crates/mpi-c/install/causeway-mpi.pc.in > $(MPI_PC)
	@if [ "$(MPI_PLAIN_NAMES)" = yes ]; then for name in mpicc mpicxx; do \
		ln -sf causeway-$$name $(DESTDIR)$(PREFIX)/bin/$$name; done; fi

uninstall: ## Remove the files that install has put into PREFIX
	@link=$(DESTDIR)/sbin/mount.causeway; \
		[ "$$(readlink $$link)" != $(PREFIX)/sbin/mount.causeway ] || rm $$link
	rm -f $(DESTDIR)$(PREFIX)/bin/causeway $(DESTDIR)$(PREFIX)/sbin/mount.causeway $(BMI_HEADER) $(BMI_PC) \
		$(FS_HEADER) $(FS_PC) $(addprefix $(DESTDIR)$(PREFIX)/lib/,$(BMI_REAL) $(BMI_SONAME) libcauseway_bmi.so \
		$(FS_REAL) $(FS_SONAME) libcauseway_fs.so libcauseway_fs.a) $(MPI_BIN) $(MPI_PC)
	rm -rf $(addprefix $(DESTDIR)$(PREFIX)/,$(MPI_INCLUDE) $(MPI_LIB))
	@for name in mpicc mpicxx; do link=$(DESTDIR)$(PREFIX)/bin/$$name; \
		[ "$$(readlink $$link)" != causeway-$$name ] || rm $$link; done
	-rmdir $(dir $(BMI_HEADER)) 2>/dev/null

# Removes all builds, those for fuzzing as well. Inputs that have broken a decoder stay in
# fuzz/artifacts.
clean: ## Remove everything that was built, and the inputs that fuzzing has collected
	$(CARGO) clean
	rm -rf fuzz/corpus

help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
