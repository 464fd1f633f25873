# cowbox: one GNU Makefile. Files are found by folder; adding one needs no edit here.
#
#   make                      the library, release variant, in build/release
#   make VARIANT=debug all    everything of a variant: debug release asan tsan clang fuzz walls
#   make test [T=substring]   build and run the tests; T picks programs by name
#   make check                all that CI runs; the last line is "N passed, N failed"
#   make help                 every target

VERSION := 0.1.0
SONAME := libcowbox.so.0

VARIANT ?= release
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
BINDIR ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/cowbox
DATADIR ?= $(PREFIX)/share
OBJCOPY ?= objcopy
JOBS ?= 2
FUZZ_SECONDS ?= 60
SEEDS ?= 500
SEEDS_ASAN ?= 100
SEEDS_COUNT ?= $(SEEDS)
WERROR ?= -Werror
T ?=

LAYERS := base store tree box host transfer search sandbox work exec
TEST_KINDS := unit contract model crash regress sandbox
BUILD := build/$(VARIANT)

# ---- compilers and flags ----

ifneq ($(filter clang fuzz,$(VARIANT)),)
CC := clang
else ifeq ($(origin CC),default)
CC := gcc
endif
MACHINE := $(shell uname -m)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wwrite-strings \
	-Wcast-qual -Wpointer-arith -Wimplicit-fallthrough -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
ifneq ($(findstring clang,$(CC)),)
WARNINGS += -Wno-gnu-statement-expression
endif

HARDENING := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection \
	$(if $(filter x86_64,$(MACHINE)),-fcf-protection)

CFLAGS_release := -O2 -g $(HARDENING)
CFLAGS_clang := $(CFLAGS_release)
# Only for tests: walls of the sandbox can be taken away one by one, to show what each holds.
CFLAGS_walls := $(CFLAGS_release) -DCOWBOX_TEST_WALLS
CFLAGS_debug := -O0 -g3
CFLAGS_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
CFLAGS_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread
LDFLAGS_fuzz := -fsanitize=address,undefined
ifeq ($(origin CFLAGS_$(VARIANT)),undefined)
$(error VARIANT=$(VARIANT) is not one of: debug release asan tsan clang fuzz walls)
endif

# Objects are position independent, so that the archive, the shared library and the programs share them.
CB_CFLAGS = -std=gnu17 -D_GNU_SOURCE $(CFLAGS_$(VARIANT)) $(WARNINGS) $(WERROR) -fno-common -fvisibility=hidden -fPIC \
	-fno-semantic-interposition -pthread -Isrc -Iinclude -Itests
CB_LDFLAGS = $(LDFLAGS_$(VARIANT)) -pthread -Wl,-z,relro,-z,now
LIBS := -lsqlite3 -lpcre2-8 -lzstd

# ---- files ----

LIB_C := $(foreach layer,$(LAYERS),$(wildcard src/$(layer)/*.c))
CLI_C := $(wildcard src/cli/*.c)
HOLDER_C := $(wildcard src/holder/*.c)
# The helper stands on these layers and nothing else.
BOX_C := $(HOLDER_C) $(foreach layer,sandbox host base,$(wildcard src/$(layer)/*.c))
HELPER_C := $(filter-out tests/harness/harness.c tests/harness/replay.c,$(wildcard tests/harness/*.c))
# What the tests of the sandbox run inside a box: one program without libraries, so that it runs in any root.
ATTACK_C := $(wildcard tests/sandbox/attack*.c)
TEST_C := $(filter-out $(ATTACK_C),$(foreach kind,$(TEST_KINDS),$(wildcard tests/$(kind)/*.c)))
THREAD_TEST_C := $(foreach c,$(TEST_C),$(if $(findstring concurrent,$(notdir $c))$(findstring thread,$(notdir $c)),$c))
# walls.t is about the build in which walls can be taken away. The sanitized command line is tried by tests/cli/exec.t; attacks and real tools are about
# the helper, which is the same in every variant.
CLI_T := $(filter-out $(if $(filter walls,$(VARIANT)),,tests/sandbox/walls.t) $(if $(filter asan,$(VARIANT)),tests/sandbox/%.t), \
	$(wildcard tests/cli/*.t tests/sandbox/*.t))
FUZZ_C := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_C := $(wildcard bench/*.c)
EXAMPLE_C := $(wildcard examples/*.c)
# Fuzz targets of the command line's parsers are linked with all of it but main().
CLI_FUZZ_C := $(shell grep -l '"cli/' $(FUZZ_C) /dev/null)

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$1)
programs = $(patsubst %.c,$(BUILD)/%,$1)

LIB_A := $(BUILD)/libcowbox.a
INSTALL_A := $(BUILD)/installed/libcowbox.a
LIB_SO := $(BUILD)/libcowbox.so.$(VERSION)
HELPERS_A := $(BUILD)/libhelpers.a
CLI := $(if $(CLI_C),$(BUILD)/cowbox)
BOX := $(if $(wildcard src/holder/main.c),$(BUILD)/cowbox-box)
HOLDER_A := $(BUILD)/libholder.a
ATTACK := $(if $(ATTACK_C),$(BUILD)/tests/sandbox/attack)
TESTS := $(call programs,$(TEST_C))
FUZZERS := $(call programs,$(FUZZ_C))
BENCHES := $(call programs,$(BENCH_C))
EXAMPLES := $(call programs,$(EXAMPLE_C))

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-4s %s\n' $1 $(2:$(CURDIR)/%=%))
chosen = $(if $(T),$(foreach p,$1,$(if $(findstring $(T),$(notdir $p)),$p)),$1)

# ---- goals ----

.DEFAULT_GOAL := lib
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules
.PHONY: all lib help test test-asan test-tsan test-walls test-clang lint format fuzz fuzz-replay soak seeds crash bench install docs man check clean FORCE

lib: $(LIB_A) $(if $(filter debug release clang,$(VARIANT)),$(LIB_SO)) ## libcowbox.a and libcowbox.so

ifeq ($(VARIANT),fuzz)
all: $(FUZZERS)
else
all: lib $(CLI) $(BOX) $(ATTACK) $(TESTS) $(FUZZERS) $(BENCHES) $(EXAMPLES) ## everything of one VARIANT
endif

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- compiling ----

# Rewritten only when the flags change, and then everything is compiled again.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CB_CFLAGS) $(CFLAGS) $(CB_LDFLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(CB_CFLAGS) $(CFLAGS) $(CB_LDFLAGS) $(LDFLAGS)' >$@

# The same for the list of sources: a removed file must leave the archive.
$(BUILD)/sources: FORCE
	@mkdir -p $(@D)
	@echo '$(LIB_C) $(HELPER_C) $(HOLDER_C) $(ATTACK_C)' | cmp -s - $@ || echo '$(LIB_C) $(HELPER_C) $(HOLDER_C) $(ATTACK_C)' >$@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CB_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(LIB_A): $(call objects,$(LIB_C)) $(BUILD)/sources
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

# What is installed: one object in which hidden symbols are local, so that json_parse or buf_append of a program that links it are its own. The tests
# link the archive above, in which they see everything.
$(INSTALL_A): $(call objects,$(LIB_C)) $(BUILD)/sources
	$(call say,LD,$@)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(LD) -r -o $(@D)/cowbox.o $(filter %.o,$^)
	$(Q)$(OBJCOPY) --localize-hidden $(@D)/cowbox.o
	$(Q)ar rcs $@ $(@D)/cowbox.o

$(HELPERS_A): $(call objects,$(HELPER_C)) $(BUILD)/sources
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

# The helper's files but main(), for tests.
$(HOLDER_A): $(call objects,$(filter-out src/holder/main.c,$(HOLDER_C))) $(BUILD)/sources
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

# Only what is marked CB_API is visible in the shared library.
$(LIB_SO): $(call objects,$(LIB_C)) $(BUILD)/sources
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,-z,defs $(CB_LDFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS)
	$(Q)ln -sf $(@F) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $(BUILD)/libcowbox.so

link = $(Q)mkdir -p $(@D) && $(CC) $(if $(filter fuzz,$(VARIANT)),,-pie) $(CB_LDFLAGS) $(LDFLAGS) $1 -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

# The command starts for every line an agent types: without a dynamic loader it starts in half the time (STATIC= turns that off). The
# linker's warning is about SQLite's loading of extensions, which is never used; `make lint` looks for others of its kind.
STATIC ?= $(if $(filter release,$(VARIANT)),1)
STATIC_LIBS := -l:libsqlite3.a -l:libpcre2-8.a -l:libzstd.a -lm

$(CLI): $(call objects,$(CLI_C)) $(LIB_A)
	$(call say,LD,$@)
ifneq ($(STATIC),)
	$(Q)$(CC) -static-pie $(CB_LDFLAGS) $(LDFLAGS) -Wl,--no-warnings -o $@ $(filter %.o %.a,$^) $(STATIC_LIBS)
else
	$(call link)
endif

# The helper runs where a sanitizer cannot (new namespaces, another root, no libraries): it is always built plain and static.
BOX_CFLAGS = -std=gnu17 -D_GNU_SOURCE -Os -g $(HARDENING) -ffunction-sections -fdata-sections $(if $(filter walls,$(VARIANT)),-DCOWBOX_TEST_WALLS) $(WARNINGS) \
	$(WERROR) -fno-common -fvisibility=hidden -fPIE -Isrc -Iinclude

$(BUILD)/box/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(BOX_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BOX): $(patsubst %.c,$(BUILD)/box/%.o,$(BOX_C)) $(BUILD)/sources
	$(call say,LD,$@)
	$(Q)$(CC) -static-pie -Wl,-z,relro,-z,now,--gc-sections $(LDFLAGS) -o $@ $(filter %.o,$^)

$(ATTACK): $(patsubst %.c,$(BUILD)/box/%.o,$(ATTACK_C)) $(BUILD)/sources
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) -static -pthread $(LDFLAGS) -o $@ $(filter %.o,$^)

$(patsubst %.c,$(BUILD)/box/%.o,$(ATTACK_C)): private BOX_CFLAGS += -Itests -fno-PIE -pthread
$(ATTACK): private LDFLAGS += -no-pie

$(TESTS): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/obj/tests/harness/harness.o $(HELPERS_A) $(HOLDER_A) $(LIB_A)
	$(call say,LD,$@)
	$(call link)

# A public call that its table does not have fails the build.
$(BUILD)/tests/contract/test_gate_calls: $(BUILD)/gate-calls
$(BUILD)/gate-calls: tools/lint-gate tests/contract/test_gate_calls.c $(wildcard include/cowbox/*.h)
	@mkdir -p $(@D)
	$(Q)awk -f tools/lint-gate $(filter %.h,$^) tests/contract/test_gate_calls.c && touch $@

$(call programs,$(CLI_FUZZ_C)): $(call objects,$(filter-out src/cli/main.c,$(CLI_C)))

ifeq ($(VARIANT),fuzz)
$(FUZZERS): $(BUILD)/%: $(BUILD)/obj/%.o $(HELPERS_A) $(HOLDER_A) $(LIB_A)
	$(call say,LD,$@)
	$(call link,-fsanitize=fuzzer)
else
$(FUZZERS): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/obj/tests/harness/replay.o $(HELPERS_A) $(HOLDER_A) $(LIB_A)
	$(call say,LD,$@)
	$(call link)
endif

$(BENCHES): $(BUILD)/%: $(BUILD)/obj/%.o $(HELPERS_A) $(LIB_A)
	$(call say,LD,$@)
	$(call link)

$(EXAMPLES): $(BUILD)/%: $(BUILD)/obj/%.o $(LIB_A)
	$(call say,LD,$@)
	$(call link)

# Examples show the public interface, so they see nothing else.
$(call objects,$(EXAMPLE_C)): private CB_CFLAGS := $(filter-out -Isrc -Itests,$(CB_CFLAGS))

-include $(patsubst %.o,%.d,$(patsubst %.c,$(BUILD)/box/%.o,$(BOX_C) $(ATTACK_C)) $(call objects,$(LIB_C) $(CLI_C) $(HOLDER_C) $(HELPER_C) $(TEST_C) $(FUZZ_C) $(BENCH_C) $(EXAMPLE_C) \
	tests/harness/harness.c tests/harness/replay.c))

# ---- running ----

export ASAN_OPTIONS ?= detect_leaks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS ?= print_stacktrace=1
export TSAN_OPTIONS ?= second_deadlock_stack=1

TAP := tools/tap-total --jobs $(JOBS) --label $(VARIANT)
# gcc's thread sanitizer cannot place its shadow under the address randomisation of newer kernels.
STILL := $(if $(filter tsan,$(VARIANT)),$(shell setarch -R true 2>/dev/null && echo setarch -R))

test: $(call chosen,$(TESTS)) $(CLI) $(BOX) $(ATTACK) ## build and run the tests (VARIANT=, T=substring of a program's name)
	$(Q)COWBOX_BUILD=$(BUILD) COWBOX_BOX_HELPER=$(CURDIR)/$(BUILD)/cowbox-box $(STILL) $(TAP) $(call chosen,$(TESTS) $(CLI_T))

test-asan: ## the tests under the address and undefined-behaviour sanitizers
	$(Q)$(MAKE) --no-print-directory VARIANT=asan test

test-tsan: ## tests named *concurrent* or *thread* under the thread sanitizer
	$(Q)$(MAKE) --no-print-directory VARIANT=tsan test TEST_C='$(THREAD_TEST_C)' CLI_T=

test-walls: ## that attacks succeed when a wall of the sandbox is taken away
	$(Q)$(MAKE) --no-print-directory VARIANT=walls test TEST_C= CLI_T=tests/sandbox/walls.t

test-clang: ## everything built by clang, and the unit tests run
	$(Q)$(MAKE) --no-print-directory VARIANT=clang all
	$(Q)$(MAKE) --no-print-directory VARIANT=clang test TEST_C='$(wildcard tests/unit/*.c)' CLI_T=

fuzz-replay: ## the fuzz corpora replayed under the sanitizers
	$(Q)$(MAKE) --no-print-directory VARIANT=asan run-fuzz-replay

.PHONY: run-fuzz-replay
run-fuzz-replay: $(call chosen,$(FUZZERS))
	$(Q)$(TAP) --label replay $(call chosen,$(FUZZERS))

fuzz: ## each fuzz target for FUZZ_SECONDS (60); T=substring picks
	$(Q)$(MAKE) --no-print-directory VARIANT=fuzz all
	$(Q)tools/fuzz $(FUZZ_SECONDS) $(patsubst %.c,build/fuzz/%,$(call chosen,$(FUZZ_C)))

# Programs and scripts that draw from the seed. Many seeds are for the logic: they run in memory, three times as fast; every other run is on a disk.
RANDOM_C := $(if $(TEST_C),$(shell grep -l 'test_seed()' $(TEST_C)))
RANDOM_T := $(if $(CLI_T),$(shell grep -l 'seed_random()' $(CLI_T)))

seeds: ## each random test with SEEDS (500) seeds, SEEDS_ASAN (100) of them under ASan; stopped, it goes on where it was (build/seeds)
	$(Q)status=0; $(MAKE) --no-print-directory run-seeds VARIANT=release SEEDS_COUNT=$$(($(SEEDS) - $(SEEDS_ASAN))) || status=1; \
	$(MAKE) --no-print-directory run-seeds VARIANT=asan SEEDS_COUNT=$(SEEDS_ASAN) || status=1; exit $$status

.PHONY: run-seeds
run-seeds: $(call chosen,$(call programs,$(RANDOM_C))) $(CLI) $(BOX) $(ATTACK)
	$(Q)TMPDIR="$${TMPDIR:-$(if $(wildcard /dev/shm/.),/dev/shm,/tmp)}" COWBOX_BUILD=$(BUILD) COWBOX_BOX_HELPER=$(CURDIR)/$(BUILD)/cowbox-box tools/seeds --count $(SEEDS_COUNT) --label $(VARIANT) --jobs $(JOBS) \
		$(call chosen,$(call programs,$(RANDOM_C)) $(RANDOM_T))

soak: ## the model tests, 50 times CI's dose
	$(Q)COWBOX_SOAK=$${COWBOX_SOAK:-50} $(MAKE) --no-print-directory test TEST_C='$(wildcard tests/model/*.c)' CLI_T=

crash: ## the crash tests, 5000 rounds
	$(Q)COWBOX_CRASH_ROUNDS=$${COWBOX_CRASH_ROUNDS:-5000} $(MAKE) --no-print-directory test TEST_C='$(wildcard tests/crash/*.c)' CLI_T=

bench: ## the measurements (bench/run)
	$(Q)$(MAKE) --no-print-directory VARIANT=release lib build/release/cowbox build/release/cowbox-box $(patsubst %.c,build/release/%,$(BENCH_C))
	$(Q)if [ -x bench/run ]; then bench/run; else echo 'bench/run is not there: programs are in build/release/bench'; fi

check: ## all that CI runs; the last line is "N passed, N failed"
	$(Q)MAKE='$(MAKE)' JOBS=$(JOBS) tools/check

lint: ## formatting, layers, public headers, sizes, stray words
	$(Q)$(MAKE) --no-print-directory VARIANT=release STATIC=1 lib build/release/cowbox build/release/cowbox-box
	$(Q)tools/lint

format: ## rewrite the sources with clang-format
	$(Q)tools/lint --fix

# ---- documents made of the command table ----

docs: $(CLI) ## docs/commands.md, docs/exit-codes.md and the reference of docs/api.md
	$(call say,DOC,docs/commands.md)
	$(Q)$(CLI) help --markdown >docs/commands.md
	$(call say,DOC,docs/exit-codes.md)
	$(Q)$(CLI) help --markdown exit-codes >docs/exit-codes.md
	$(call say,DOC,docs/api.md)
	$(Q)tools/api-docs --write

man: $(CLI) ## build/man/cowbox.1 and a page per command
	$(call say,MAN,build/man)
	$(Q)rm -rf build/man && mkdir -p build/man
	$(Q)$(CLI) help --man >build/man/cowbox.1
	$(Q)for command in $$($(CLI) __complete -- help '' | cut -f 1); do $(CLI) help --man $$command >build/man/cowbox-$$command.1 || exit 1; done

# ---- installing ----

install: lib $(INSTALL_A) $(CLI) $(BOX) man ## PREFIX, LIBDIR, LIBEXECDIR, INCLUDEDIR, BINDIR, DATADIR, DESTDIR
	install -d $(DESTDIR)$(INCLUDEDIR)/cowbox $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(BINDIR) $(DESTDIR)$(DATADIR)/man/man1
	install -d $(DESTDIR)$(DATADIR)/bash-completion/completions $(DESTDIR)$(DATADIR)/zsh/site-functions \
		$(DESTDIR)$(DATADIR)/fish/vendor_completions.d
	install -m 644 include/cowbox/*.h $(DESTDIR)$(INCLUDEDIR)/cowbox/
	install -m 644 $(INSTALL_A) $(DESTDIR)$(LIBDIR)/
	install -m 755 $(LIB_SO) $(DESTDIR)$(LIBDIR)/
	ln -sf $(notdir $(LIB_SO)) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libcowbox.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
		cowbox.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/cowbox.pc
	install -m 755 $(CLI) $(DESTDIR)$(BINDIR)/
	install -d $(DESTDIR)$(LIBEXECDIR)
	install -m 755 $(BOX) $(DESTDIR)$(LIBEXECDIR)/
	install -m 644 build/man/*.1 $(DESTDIR)$(DATADIR)/man/man1/
	$(CLI) completion bash >$(DESTDIR)$(DATADIR)/bash-completion/completions/cowbox
	$(CLI) completion zsh >$(DESTDIR)$(DATADIR)/zsh/site-functions/_cowbox
	$(CLI) completion fish >$(DESTDIR)$(DATADIR)/fish/vendor_completions.d/cowbox.fish

clean: ## remove build/
	rm -rf build
