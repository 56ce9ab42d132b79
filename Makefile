# SPDX-License-Identifier: MIT
# Plain make, non-recursive; everything that is built lands in $(O). `make help` lists the targets.

VERSION := $(shell sed -n 's/.*CKPTFS_VERSION[[:space:]]*"\(.*\)".*/\1/p' client/ckptfs_abi.h)

O ?= build
prefix ?= /usr/local
bindir ?= $(prefix)/bin
libdir ?= $(prefix)/lib
libexecdir ?= $(prefix)/libexec
includedir ?= $(prefix)/include
mandir ?= $(prefix)/share/man
docdir ?= $(prefix)/share/doc/ckptfs
sbindir_mount ?= /sbin
unitdir ?= $(prefix)/lib/systemd/system
DESTDIR ?=
CC ?= cc
CFLAGS ?= -O2 -g
WERROR ?= 1
J ?= $(shell nproc)

# Debian packages: what the build needs, then what the tests need. The README says why each.
PACKAGES_BUILD := gcc make libc6-dev pkg-config libfuse3-dev fuse3 libjansson-dev liburing-dev libxxhash-dev \
	libcurl4-openssl-dev
PACKAGES_TEST := python3 python3-venv python3-yaml libcmocka-dev util-linux mount e2fsprogs xfsprogs attr acl fio procps mergerfs bindfs rsync etcd-server openssl zsh
PACKAGES_HEAVY := clang libclang-rt-14-dev clang-format shellcheck mandoc
PACKAGES_BENCH := rclone
PACKAGES_KERNEL := qemu-system-x86
PACKAGES_DIST := mmdebstrap
PACKAGES_CLUSTER := glusterfs-server glusterfs-client iproute2
PACKAGES_DOCS := mandoc

ifneq ($(V),1)
Q := @
say = @printf '  %-7s %s\n' $(1) '$(2)'
endif

# A sanitizer's own checks make gcc believe in null pointers and in numbers that cannot be, hence the two -Wno.
SANITIZE := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -Wno-nonnull -Wno-format-truncation)
# DEBUG=1, as any sanitizer, has the order of locks checked (engine/base/lock.h).
override CPPFLAGS += -I. -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 $(if $(filter-out 0,$(DEBUG))$(SAN),-DCKPTFS_LOCK_CHECK)
override CFLAGS += -std=gnu11 -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes \
	-fstack-protector-strong -pthread $(if $(filter 1,$(WERROR)),-Werror) $(SANITIZE)
override LDFLAGS += -pthread $(SANITIZE)

# Asked for only when something is compiled, so that `make deps` works without them.
# Of libcurl only the headers are needed: it is opened at run time (engine/coord/curl.h).
PKGS := fuse3 jansson liburing libxxhash
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) libcurl))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $(shell pkg-config --libs $(PKGS)))$(PKG_LIBS)

ENGINE_SRC := $(wildcard engine/*.c engine/*/*.c)
FS_SRC := $(wildcard fs/*.c fs/cmd/*.c)
CLIENT_SRC := $(wildcard client/*.c)
UNIT_NAMES := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/*.c))
# These put a function of their own in the place of libc's, a sanitizer's or the engine's; each of the others is in one program.
UNIT_ALONE := cache_faulting client_cuda_failures flush_workers format job_hangs receive unread
UNIT_TOGETHER := $(filter-out $(UNIT_ALONE),$(UNIT_NAMES))
# Each main() gets a name of its own, which the compiler does not know to be special.
UNIT_FLAGS = -Dmain=unit_$(basename $(@F))
# A directory with main.c is one program; in tests/bench each file is one.
TOOL_DIRS := $(patsubst %/main.c,%,$(wildcard tests/*/main.c))
BENCH_SRC := $(wildcard tests/bench/*.c)
HELPER_SRC := $(wildcard tests/helpers/*.c)
# Each manual page lies beside what it describes; NAME.SECTION says where it is installed.
MAN_PAGES := $(foreach dir,client engine engine/* fs mount-scripts,$(wildcard $(dir)/*.[13578]))
# Backings that record, fail or wait: linked into the unit tests.
TEST_BACKING_SRC := $(wildcard tests/backing/*.c)

obj = $(patsubst %.c,$(O)/obj/%.o,$(1))
ENGINE_LIB := $(O)/lib/libengine.a
CLIENT_LIB := $(O)/lib/libckptfs.a
CLIENT_SO := $(O)/lib/libckptfs.so
# A CUDA driver for tests; the programs in tests/gpu find it by LD_LIBRARY_PATH, or a real one.
FAKE_CUDA := $(O)/tests/fakecuda/libcuda.so.1
GPU_PROGRAMS := $(O)/tests/gpu/conformance $(O)/tests/gpu/exercise $(O)/tests/gpu/capture
# tests/fuzz: each file but replay.c is a target; `make fuzz` links it with libFuzzer instead.
FUZZ_TARGETS := $(filter-out replay,$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))
FS_LIB := $(O)/lib/libfs.a
TEST_PROGRAMS := $(FUZZ_TARGETS:%=$(O)/tests/fuzz/%) $(UNIT_NAMES:%=$(O)/tests/unit/%.t) \
	$(patsubst tests/%.c,$(O)/tests/%,$(BENCH_SRC) $(HELPER_SRC)) \
	$(O)/tests/random/randops $(O)/tests/posix/posixcmp $(O)/tests/model/model $(O)/tests/sim/sim $(FAKE_CUDA) $(GPU_PROGRAMS) \
	$(O)/tests/trainer/trainer $(O)/tests/client/shards $(O)/tests/crowd/crowd $(O)/gpu-kit/complete

.PHONY: all deps deps-test deps-heavy demo demo-cluster check check-long check-sim check-model check-asan check-tsan check-fallbacks check-kernel bench lint \
	check-crash check-cluster check-demo check-trainer check-gpu check-frameworks check-tensors check-python docs install uninstall clean help tests fuzz fuzzers

all: $(O)/bin/ckptfs $(CLIENT_LIB) $(CLIENT_SO)

$(O)/bin/ckptfs: $(call obj,$(FS_SRC)) $(ENGINE_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)

$(ENGINE_LIB): $(call obj,$(ENGINE_SRC))
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# libckptfs: what a public header declares with default visibility is all that a program can see of it.
$(O)/obj/client/%.o: override CFLAGS += -fPIC -fvisibility=hidden

$(CLIENT_LIB): $(call obj,$(CLIENT_SRC))
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(CLIENT_SO).1: $(call obj,$(CLIENT_SRC))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libckptfs.so.1 -o $@ $^

$(CLIENT_SO): $(CLIENT_SO).1
	$(Q)ln -sf $(<F) $@

# Flags that change what is compiled change this file, and with it every object.
$(O)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(UNIT_FLAGS)' | cmp -s - $@ || \
		echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(UNIT_FLAGS)' > $@
.PHONY: FORCE
.SECONDARY: # keep objects that only test programs use

# Looked for once: otherwise each file fails by a header of its own.
$(O)/found:
	@mkdir -p $(@D)
	@for tool in $(firstword $(CC)) pkg-config; do \
		command -v $$tool >/dev/null || missing="$$missing $$tool"; \
	done; \
	[ -n "$$missing" ] || for package in $(PKGS) libcurl; do \
		pkg-config --exists $$package || missing="$$missing $$package"; \
	done; \
	[ -z "$$missing" ] || { echo "ckptfs cannot be built: this host lacks$$missing. Nothing was built; on Debian and" \
		"Ubuntu \`make deps\` installs what the build needs, elsewhere install the equivalents of: $(PACKAGES_BUILD)" >&2; \
		exit 1; }
	@touch $@

$(O)/obj/%.o: %.c $(O)/flags | $(O)/found
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

ifeq ($(shell uname -m),x86_64)
$(O)/obj/engine/content/hash_avx2.o: override CFLAGS += -mavx2
endif
$(O)/obj/engine/views/builtin.o: $(wildcard engine/views/builtin/*.json)

# --- test programs ---

tests: all $(TEST_PROGRAMS)

# Tests of logic, which nobody measures: they compile in half the time so.
$(O)/obj/tests/unit/%.o: override CFLAGS := $(patsubst -O2,-O1,$(CFLAGS)) -Wno-missing-prototypes
$(UNIT_TOGETHER:%=$(O)/obj/tests/unit/%.o): override CPPFLAGS += $(UNIT_FLAGS)

$(O)/obj/unit_names.h: Makefile $(wildcard tests/unit)
	@mkdir -p $(@D)
	@printf 'UNIT(%s)\n' $(UNIT_TOGETHER) | cmp -s - $@ || printf 'UNIT(%s)\n' $(UNIT_TOGETHER) >$@
$(O)/obj/tests/unit/all/main.o: override CPPFLAGS += -I$(O)/obj
$(O)/obj/tests/unit/all/main.o: $(O)/obj/unit_names.h

UNIT_LINKED := $(O)/tests/unit/unit $(UNIT_ALONE:%=$(O)/tests/unit/%.t)
$(O)/tests/unit/unit: $(UNIT_TOGETHER:%=$(O)/obj/tests/unit/%.o) $(O)/obj/tests/unit/all/main.o
$(UNIT_ALONE:%=$(O)/tests/unit/%.t): $(O)/tests/unit/%.t: $(O)/obj/tests/unit/%.o
$(UNIT_LINKED): $(call obj,$(TEST_BACKING_SRC)) $(FS_LIB) $(ENGINE_LIB) $(CLIENT_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter-out %.a,$^) $(FS_LIB) $(ENGINE_LIB) $(CLIENT_LIB) -lcmocka $(PKG_LIBS)

$(UNIT_TOGETHER:%=$(O)/tests/unit/%.t): $(O)/tests/unit/unit
	$(Q)ln -f $< $@

$(O)/tests/bench/lazy: $(CLIENT_LIB)
$(O)/tests/bench/%: $(O)/obj/tests/bench/%.o
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^

$(O)/tests/helpers/tensors: $(CLIENT_LIB)
$(O)/tests/helpers/fs_remembers: LIBS = $(shell pkg-config --libs fuse3)
$(O)/tests/helpers/%: $(O)/obj/tests/helpers/%.o
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

# Sanitizers see of a copy only what memcpy is called for.
$(O)/obj/tests/fakecuda/%.o: override CFLAGS += -fPIC -fvisibility=hidden -fno-builtin-memcpy

$(FAKE_CUDA): $(call obj,$(wildcard tests/fakecuda/*.c))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libcuda.so.1 -o $@ $^

$(O)/tests/gpu/conformance: $(call obj,$(wildcard tests/gpu/conformance*.c))
$(O)/tests/gpu/exercise: $(O)/obj/tests/gpu/exercise.o
$(O)/tests/gpu/capture: $(O)/obj/tests/gpu/capture.o
$(GPU_PROGRAMS): $(O)/obj/engine/base/clock.o $(CLIENT_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter-out $(CLIENT_LIB),$^) $(CLIENT_LIB)

# For a machine that has a GPU and perhaps nothing else: tests/gpu/kit/check.py runs what is in there.
GPU_KIT := $(O)/gpu-kit
$(O)/obj/tests/gpu/standin.o: override CFLAGS += -fPIC -fvisibility=hidden

$(GPU_KIT)/libstandin.so: $(O)/obj/tests/gpu/standin.o $(call obj,$(CLIENT_SRC))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ $^

$(GPU_KIT)/complete: $(GPU_KIT)/libstandin.so $(GPU_PROGRAMS) $(O)/tests/trainer/trainer $(O)/bin/ckptfs $(CLIENT_SO).1
	$(call say,KIT,$(@D))
	$(Q)cp $(GPU_PROGRAMS) $(O)/tests/trainer/trainer $(O)/bin/ckptfs $(CLIENT_SO).1 $(@D)
	$(Q)ldd $(O)/bin/ckptfs | sed -n '/lib\(c\|m\|dl\|rt\|pthread\|resolv\)\.so/d; s/.*=> \([^ ]*\) .*/\1/p' | xargs -r cp -t $(@D)
	$(Q)touch $@

# An archive, since some targets include the .c file whose inside they test.
$(FS_LIB): $(filter-out $(O)/obj/fs/main.o $(O)/obj/fs/cmd/%,$(call obj,$(FS_SRC)))
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(O)/tests/fuzz/%: $(O)/obj/tests/fuzz/%.o $(O)/obj/tests/fuzz/replay.o $(FS_LIB) $(ENGINE_LIB) $(CLIENT_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)

fuzzers: $(FUZZ_TARGETS:%=$(O)/fuzzers/%)
$(O)/fuzzers/%: $(O)/obj/tests/fuzz/%.o $(FS_LIB) $(ENGINE_LIB) $(CLIENT_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(PKG_LIBS)

$(O)/tests/random/randops: $(call obj,$(wildcard tests/random/*.c))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^

$(O)/tests/posix/posixcmp: $(call obj,$(wildcard tests/posix/*.c))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^

$(O)/tests/trainer/trainer: $(call obj,$(wildcard tests/trainer/*.c)) $(CLIENT_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -ldl -lm

$(O)/tests/client/shards: $(O)/obj/tests/client/shards.o $(CLIENT_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^

# Its people.c stands in for engine/liveness: what is in an archive gives way to that.
$(O)/tests/model/model: $(call obj,$(wildcard tests/model/*.c) $(TEST_BACKING_SRC)) $(FS_LIB) $(ENGINE_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(PKG_LIBS)

# N engines in one process: threads, locks, time and chance are the simulator's.
SIM_WRAPS := pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock \
	pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait \
	pthread_cond_signal pthread_cond_broadcast pthread_create pthread_join pthread_timedjoin_np pthread_detach \
	pthread_self pthread_setname_np pthread_sigmask clock_gettime nanosleep clock_nanosleep eventfd write poll ppoll \
	getrandom log_write flock \
	open64 openat64 close fstat64 fstatat64 faccessat statx scandirat64 fdopendir readdir64 closedir pread64 fgetxattr \
	mountinfo_resolve mountinfo_find_ckptfs control_ask
$(O)/tests/sim/sim: $(call obj,$(wildcard tests/sim/*.c) $(TEST_BACKING_SRC)) $(FS_LIB) $(ENGINE_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(SIM_WRAPS:%=-Wl,--wrap=%) -o $@ $^ -lcmocka $(PKG_LIBS)

$(O)/tests/crowd/crowd: $(call obj,$(wildcard tests/crowd/*.c)) $(ENGINE_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)

# --- targets for people ---

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# Installs what is missing of the packages $(1); does nothing, and needs no root, if nothing is.
define install_packages
	@command -v apt-get >/dev/null || { echo "this host has no apt-get. Install, by the names that they have here:" $(1) >&2; \
		exit 1; }; \
	missing=$$(for p in $(1); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | \
		grep -q 'ok installed' || echo $$p; done); \
	[ -z "$$missing" ] || [ -z "$(SUDO)" ] || command -v sudo >/dev/null || { \
		echo "you are not root, and there is no sudo. As root: apt-get install" $$missing >&2; exit 1; }; \
	[ -z "$$missing" ] || { echo "installing:" $$missing; $(SUDO) apt-get update -qq && \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends $$missing >/dev/null; }
endef

deps:
	$(call install_packages,$(PACKAGES_BUILD))
deps-test: deps
	$(call install_packages,$(PACKAGES_BUILD) $(PACKAGES_TEST) $(PACKAGES_DOCS))
deps-heavy: deps-test
	$(call install_packages,$(PACKAGES_HEAVY))

demo: deps-test
	$(Q)$(MAKE) --no-print-directory O=$(O) all $(O)/tests/trainer/trainer
	$(Q)BUILD=$(abspath $(O)) SRC=$(CURDIR) CKPTFS=$(abspath $(O))/bin/ckptfs bash tests/demo/demo.sh

# Four nodes, one of which is killed.
demo-cluster: deps-test
	$(Q)$(MAKE) --no-print-directory O=$(O) all
	$(Q)CKPTFS=$(abspath $(O))/bin/ckptfs python3 tests/demo/cluster.py

check: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)tests/run --build $(O) $(ARGS)

# The whole of what `make check` runs a part of: explorations, long random runs, heavy loads, the bench.
check-long: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)tests/run --build $(O) --heavy check-long $(ARGS)

# The same suite where kernel and host offer nothing beyond the minimum.
check-fallbacks: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)CKPTFS_TEST_FEATURES_OFF=passthrough,direct_mmap,openat2,btime,xattr,odirect,rename_flags,io_uring CKPTFS_TEST_PIN_BUDGET=8 CKPTFS_TEST_CPU_FACTOR=4 tests/run --build $(O) --heavy check-long tests/fs tests/posix tests/random $(ARGS)

# The same on the kernel of Debian 12, in a virtual machine; without qemu the script says so and that is all.
check-kernel: deps-test
	-$(call install_packages,$(PACKAGES_KERNEL))
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)tests/kernel/run $(O) $(ARGS)

# Daemons and programs are killed, and filesystems cut off, in the middle of saves.
check-crash: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)tests/run --build $(O) --heavy check-crash $(ARGS)

# Several nodes: real services and filesystems, of which parts are killed, hang or are cut off; on loopback alone.
check-cluster: deps-test
	-$(call install_packages,$(PACKAGES_CLUSTER))
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)tests/run --build $(O) --heavy check-cluster $(ARGS)

# The demo itself: without this and that, with what differs, interrupted anywhere.
check-demo: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)tests/run --build $(O) --heavy check-demo $(ARGS)

# The example trainer and its daemon, killed at random instants and resumed.
check-trainer: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)CKPTFS_TEST_KILLS=50 CKPTFS_TEST_CPU_FACTOR=0 tests/run --build $(O) --timeout 3000 --heavy check-long tests/trainer $(ARGS)

# On a GPU; without one it says so. Elsewhere: python3 tests/gpu/kit/check.py --kit DIR, with build/gpu-kit and the tree alone.
check-gpu: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)python3 tests/gpu/kit/check.py --kit $(GPU_KIT) --out $(O)/gpu.json $(ARGS) || [ $$? = 77 ]

# Real frameworks, whose jobs are watched, killed and resumed; KILLS of each kind. A table of what ran is printed.
KILLS ?= 20
check-frameworks: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)CKPTFS_TEST_KILLS=$(KILLS) tests/run --build $(O) --heavy check-frameworks $(ARGS)
	$(Q)BUILD=$(abspath $(O)) python3 tests/frameworks/table.py

# Checkpoints that packages from the index write, with several versions of PyTorch: what ckptfs finds in them.
check-tensors: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)tests/run --build $(O) --heavy check-frameworks tests/tensors $(ARGS)

# The Python package, with PyTorch, from the package index.
check-python: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)tests/run --build $(O) --heavy check-frameworks tests/python $(ARGS)

# Random sequences against the reference model; COUNT of each kind.
COUNT ?= 10000
check-model: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)CKPTFS_TEST_COUNT=$(COUNT) CKPTFS_TEST_CPU_FACTOR=0 tests/run --build $(O) --heavy check-model tests/model $(ARGS)

# Random schedules of a cluster in one process: ARGS="--seed S" tells one that fails as a story; --help tells the rest.
check-sim: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) $(O)/tests/sim/sim
	$(Q)$(O)/tests/sim/sim $(or $(ARGS),--count 1000)

# A sanitizer's findings in a daemon go to files, and any file there is a failure.
define run_sanitized
	$(Q)rm -rf $(O)/$(1)/reports && mkdir -p -m 1777 $(O)/$(1)/reports && chmod 1777 $(O)/$(1)/reports
	$(Q)CKPTFS_TEST_SANITIZED=1 ASAN_OPTIONS=log_path=$(abspath $(O))/$(1)/reports/asan UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:log_path=$(abspath $(O))/$(1)/reports/ubsan \
		TSAN_OPTIONS=halt_on_error=0:die_after_fork=0:second_deadlock_stack=1:suppressions=$(CURDIR)/tests/tsan.suppressions:log_path=$(abspath $(O))/$(1)/reports/tsan \
		tests/run --build $(O)/$(1) --slow 5 --heavy check-long $(2) $(ARGS)
	$(Q)set -- $(O)/$(1)/reports/*; [ ! -e "$$1" ] || { cat "$$@"; echo "the sanitizer found something, see above"; exit 1; }
endef

check-asan: deps-heavy
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O)/asan SAN=address,undefined tests
	$(call run_sanitized,asan,tests/unit tests/views tests/fs tests/cli tests/posix tests/random tests/units tests/checkpoints tests/nodes tests/cluster tests/capture tests/gpu)

check-tsan: deps-heavy
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O)/tsan SAN=thread tests
	$(call run_sanitized,tsan,tests/unit tests/views tests/fs tests/cli tests/random tests/units tests/checkpoints tests/nodes tests/cluster tests/capture tests/gpu)

bench: deps-test
	$(call install_packages,$(PACKAGES_BENCH))
	-$(call install_packages,$(PACKAGES_CLUSTER))
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)BUILD=$(abspath $(O)) SRC=$(CURDIR) CKPTFS=$(abspath $(O))/bin/ckptfs python3 tests/bench/bench.py $(ARGS)

# Runs each fuzzer for FUZZ_SECONDS; FUZZ=options runs one.
FUZZ_SECONDS ?= 20
FUZZ ?= $(FUZZ_TARGETS)
fuzz: deps-heavy
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O)/fuzz CC=clang WERROR=0 \
		SAN=fuzzer-no-link,address,undefined fuzzers
	$(Q)tests/fuzz/fuzz $(O)/fuzz $(FUZZ_SECONDS) $(FUZZ)

# All manual pages and Markdown files as one directory of HTML.
docs:
	$(call install_packages,$(PACKAGES_DOCS))
	$(Q)python3 tests/docs/render.py --out $(O)/docs

lint: deps-heavy
	$(Q)BUILD=$(abspath $(O)) SRC=$(CURDIR) tests/lint/lint.sh

# Where the manual page $(1) is installed: .../man5/ckptfs-conf.5
man_path = $(mandir)/man$(subst .,,$(suffix $(1)))/$(notdir $(1))

install: all
	@mount-scripts/packaging/install-check before "$(DESTDIR)$(prefix)" "$(DESTDIR)$(sbindir_mount)"
	install -D -m 755 $(O)/bin/ckptfs $(DESTDIR)$(bindir)/ckptfs
	install -D -m 755 mount-scripts/mount.ckptfs $(DESTDIR)$(sbindir_mount)/mount.ckptfs
	ln -sf mount.ckptfs $(DESTDIR)$(sbindir_mount)/mount.fuse.ckptfs
	install -D -m 755 mount-scripts/umount.ckptfs $(DESTDIR)$(sbindir_mount)/umount.fuse.ckptfs
	install -D -m 755 mount-scripts/ckptfs-srun $(DESTDIR)$(bindir)/ckptfs-srun
	install -D -m 755 mount-scripts/slurm-prolog $(DESTDIR)$(libexecdir)/ckptfs/slurm-prolog
	install -D -m 755 mount-scripts/slurm-epilog $(DESTDIR)$(libexecdir)/ckptfs/slurm-epilog
	$(foreach page,$(MAN_PAGES),install -D -m 644 $(page) $(DESTDIR)$(call man_path,$(page)) && ) true
	install -D -m 644 $(CLIENT_LIB) $(DESTDIR)$(libdir)/libckptfs.a
	install -D -m 755 $(CLIENT_SO).1 $(DESTDIR)$(libdir)/libckptfs.so.1
	ln -sf libckptfs.so.1 $(DESTDIR)$(libdir)/libckptfs.so
	install -D -m 644 client/ckptfs_abi.h $(DESTDIR)$(includedir)/ckptfs_abi.h
	sed 's|"client/ckptfs_abi.h"|"ckptfs_abi.h"|' client/ckptfs.h >$(DESTDIR)$(includedir)/ckptfs.h
	chmod 644 $(DESTDIR)$(includedir)/ckptfs.h
	for shell in bash zsh; do $(O)/bin/ckptfs completion $$shell >$(O)/completion.$$shell || exit; done
	install -D -m 644 $(O)/completion.bash $(DESTDIR)$(prefix)/share/bash-completion/completions/ckptfs
	install -D -m 644 $(O)/completion.zsh $(DESTDIR)$(prefix)/share/zsh/site-functions/_ckptfs
	install -D -m 644 mount-scripts/ckptfs@.service $(DESTDIR)$(unitdir)/ckptfs@.service
	install -D -m 644 mount-scripts/ckptfs.json $(DESTDIR)$(docdir)/ckptfs.json
	install -D -m 644 mount-scripts/kubernetes.yaml $(DESTDIR)$(docdir)/kubernetes.yaml
	install -d -m 755 $(DESTDIR)$(libdir)/pkgconfig
	sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' -e 's|@includedir@|$(includedir)|' -e 's|@version@|$(VERSION)|' \
		client/ckptfs.pc.in >$(DESTDIR)$(libdir)/pkgconfig/ckptfs.pc
	@mount-scripts/packaging/install-check after "$(libdir)" "$(DESTDIR)"

uninstall:
	rm -f $(DESTDIR)$(bindir)/ckptfs $(DESTDIR)$(bindir)/ckptfs-srun $(DESTDIR)$(sbindir_mount)/mount.ckptfs \
		$(DESTDIR)$(sbindir_mount)/mount.fuse.ckptfs $(DESTDIR)$(sbindir_mount)/umount.fuse.ckptfs \
		$(DESTDIR)$(libexecdir)/ckptfs/slurm-prolog $(DESTDIR)$(libexecdir)/ckptfs/slurm-epilog \
		$(DESTDIR)$(libdir)/libckptfs.a $(DESTDIR)$(libdir)/libckptfs.so.1 $(DESTDIR)$(libdir)/libckptfs.so \
		$(DESTDIR)$(includedir)/ckptfs_abi.h $(DESTDIR)$(includedir)/ckptfs.h $(DESTDIR)$(unitdir)/ckptfs@.service \
		$(foreach page,$(MAN_PAGES),$(DESTDIR)$(call man_path,$(page))) $(DESTDIR)$(docdir)/ckptfs.json \
		$(DESTDIR)$(docdir)/kubernetes.yaml $(DESTDIR)$(prefix)/share/bash-completion/completions/ckptfs \
		$(DESTDIR)$(prefix)/share/zsh/site-functions/_ckptfs
	rmdir $(DESTDIR)$(libexecdir)/ckptfs $(DESTDIR)$(docdir) 2>/dev/null || true
	rm -f $(DESTDIR)$(libdir)/pkgconfig/ckptfs.pc
	@mount-scripts/packaging/install-check gone "$(DESTDIR)"

# A tarball that runs from anywhere, a Python wheel with libckptfs and the command in it, and a Debian package.
DIST := $(O)/dist
.PHONY: dist check-dist
$(DIST)/ckptfs: $(call obj,$(FS_SRC)) $(ENGINE_LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/../lib/ckptfs' -o $@ $^ $(PKG_LIBS)

dist: all $(DIST)/ckptfs
	@command -v python3 >/dev/null || { echo "make dist needs python3" >&2; exit 1; }
	$(Q)rm -rf $(DIST)/tree
	$(Q)$(MAKE) --no-print-directory -s O=$(O) DESTDIR=$(abspath $(DIST))/tree prefix=/usr sbindir_mount=/usr/sbin install >/dev/null
	$(Q)python3 mount-scripts/packaging/dist.py --program $(DIST)/ckptfs --tree $(DIST)/tree --out $(DIST)

# What `make dist` makes, and the README's own commands, used in roots that have nothing but the minimum of Debian.
check-dist: deps-test
	-$(call install_packages,$(PACKAGES_DIST))
	$(Q)$(MAKE) --no-print-directory -j$(J) O=$(O) tests
	$(Q)$(MAKE) --no-print-directory O=$(O) dist
	$(Q)tests/run --build $(O) --heavy check-dist tests/dist $(ARGS)

clean:
	rm -rf $(O)

help:
	@echo 'ckptfs $(VERSION). The two that set up everything they need: make demo, make check.'
	@echo
	@echo '  make              build/bin/ckptfs, build/lib/libckptfs.{a,so}'
	@echo '  make demo         unmodified programs on a plain directory and on a mount, compared'
	@echo '  make demo-cluster four nodes save together, one is killed, and the job goes on with three'
	@echo '  make check        the test suite (ARGS="-k rename" runs a part; see tests/README.md)'
	@echo '  make check-fallbacks  the filesystem tests on a host that lacks every optional feature'
	@echo '  make check-kernel the suite on Debian'\''s own kernel, in a virtual machine'
	@echo '  make check-crash  the daemon, programs and the backing are cut off in the middle of saves'
	@echo '  make check-cluster  several nodes, and what they agree by, of which parts fail'
	@echo '  make check-demo   the demo where things are missing, differ, or interrupt it'
	@echo '  make check-trainer  the example trainer of libckptfs, killed and resumed 50 times'
	@echo '  make check-gpu    capture on a GPU: what it finds and its numbers, in build/gpu.json'
	@echo '  make check-frameworks  real frameworks, from the package index, killed and resumed (KILLS=$(KILLS))'
	@echo '  make check-tensors  the tensors of checkpoints that packages from the index have written'
	@echo '  make check-python the Python package with PyTorch, its examples killed and resumed'
	@echo '  make check-model  random sequences of saves, kills and removals against a model (COUNT=$(COUNT))'
	@echo '  make check-sim    random schedules of several nodes in one process; ARGS="--seed S": one of them, as a story'
	@echo '  make check-asan   the suite under AddressSanitizer and UBSan'
	@echo '  make check-tsan   the suite under ThreadSanitizer'
	@echo '  make bench        measure against plain directories, fio and other FUSE filesystems'
	@echo '                    (ARGS="--only save --rounds 9 --size 512"; --help tells more)'
	@echo '  make fuzz         each fuzzer for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo '  make lint         formatting, layering, shell, Python, man pages'
	@echo '  make docs         the documents as HTML, in build/docs'
	@echo '  make install      to prefix=$(prefix), below DESTDIR; make uninstall takes it away'
	@echo '  make dist         a relocatable tarball, a Python wheel and a .deb, in build/dist'
	@echo '  make check-dist   these, and the README'\''s commands, in bare roots of Debian 12 and 13'
	@echo '  make clean        removes what was built'
	@echo '  make deps         only install the Debian packages that the build needs'
	@echo
	@echo '  V=1 shows the commands, O=DIR builds elsewhere, SAN=address|thread|undefined, DEBUG=1,'
	@echo '  WERROR=0, CC=clang, J=N jobs'

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
