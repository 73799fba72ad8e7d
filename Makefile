# SPDX-License-Identifier: GPL-2.0-or-later
#
# ebb: build, test and install. Everything goes to build/ (O=dir changes it).
#
#   make                 all programs
#   make check           unit, model and platform tests (no guest)
#   make check-asan      the unit and model tests under ASan + UBSan
#   make check-tsan      the same under TSan
#   make check-guest     real QEMU guests: integration tests (minutes)
#   make fuzz            the fuzz targets, FUZZ_SECONDS=600 each
#   make bench-fault     fault latency beside the kernel's swap
#   make bench-lru       what the reclaim core costs, up to a guest of 1 TiB
#   make lint            cppcheck, clang-tidy, shellcheck, layering
#   make install PREFIX=/usr/local DESTDIR=
#   V=1 shows the commands

O       ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
BINDIR  ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
MANDIR  ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system

CC         ?= gcc
CLANG      ?= clang
PKG_CONFIG ?= pkg-config
CFLAGS     ?= -O2 -g
WERROR     ?=

# Sanitizer builds use their own object tree: make SAN=address,undefined
SAN ?=
comma := ,
ifneq ($(SAN),)
override O := $(O)/san-$(subst $(comma),-,$(firstword $(subst $(comma), ,$(SAN))))
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
endif

ARCH := $(shell uname -m)
BPF_ARCH_x86_64 := x86
BPF_ARCH_aarch64 := arm64
VERSION := $(shell cat include/ebb/VERSION)

PKGS      := liburing libbpf jansson libxxhash
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null || echo -luring -lbpf -ljansson -lxxhash)
SIM_CFLAGS := $(shell $(PKG_CONFIG) --cflags cairo 2>/dev/null)
SIM_LIBS   := $(shell $(PKG_CONFIG) --libs cairo 2>/dev/null || echo -lcairo) -lm

BASE_CPPFLAGS := -D_GNU_SOURCE -DEBB_VERSION='"$(VERSION)"' -Iinclude -Ivmm -I. $(PKG_CFLAGS)
BASE_CFLAGS := -std=gnu11 -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes \
	-Wmissing-prototypes -Wwrite-strings -Wformat=2 -Wno-unused-parameter \
	-fno-common -pthread $(if $(WERROR),-Werror) $(SANFLAGS)
BASE_LDFLAGS := -pthread -Wl,--as-needed $(SANFLAGS)

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2))

RECLAIM_SRC := $(sort $(wildcard reclaim/*.c))
SIM_SRC     := $(filter-out reclaim/sim/main.c,$(sort $(wildcard reclaim/sim/*.c)))
VMM_SRC     := $(filter-out vmm/main.c,$(sort $(wildcard vmm/*.c)))
RUN_SRC     := $(sort $(wildcard vmm/run/*.c))
CTL_SRC     := $(sort $(wildcard vmm/ctl/*.c))
BPF_SRC     := $(sort $(wildcard vmm/bpf/*.bpf.c))
UNIT_SRC    := $(sort $(wildcard tests/unit/test_*.c))
MODEL_SRC   := $(sort $(wildcard tests/model/test_*.c))
PLAT_SRC    := $(sort $(wildcard tests/platform/test_*.c))
INTEG_SRC   := $(sort $(wildcard tests/integration/*.c))
GUEST_SRC   := $(sort $(wildcard tests/guest/*.c))
BENCH_SRC   := $(sort $(wildcard tests/bench/*.c))

obj = $(patsubst %.c,$(O)/obj/%.o,$(1))
bin = $(patsubst %.c,$(O)/%,$(1))

BPF_OBJ   := $(patsubst vmm/bpf/%.bpf.c,$(O)/obj/bpf/%.o,$(BPF_SRC))
BPF_EMBED := $(patsubst vmm/bpf/%.bpf.c,$(O)/obj/bpf/%.embed.o,$(BPF_SRC))

LIBRECLAIM := $(O)/libreclaim.a
LIBVMM     := $(O)/libvmm.a
LIBSIM     := $(O)/libsim.a
LIBS       := $(LIBVMM) $(LIBRECLAIM)

# clean objects ebb-run shares with the daemon come out of libvmm.a: the linker takes what is used
PROGS := $(O)/ebbd $(if $(RUN_SRC),$(O)/ebb-run) $(if $(CTL_SRC),$(O)/ebbctl) $(O)/ebb-sim

.PHONY: all
all: $(PROGS)

$(O)/obj/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CPPFLAGS) $(CPPFLAGS) $(BASE_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# BPF programs: compiled by clang, then wrapped as a byte array named bpf_NAME_start/_end.
$(O)/obj/bpf/%.o: vmm/bpf/%.bpf.c $(wildcard vmm/bpf/*.h)
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -O2 -g -target bpf -D__TARGET_ARCH_$(BPF_ARCH_$(ARCH)) \
		-I/usr/include/$(ARCH)-linux-gnu -Ivmm/bpf -Wall -c -o $@ $<

$(O)/obj/bpf/%.embed.o: $(O)/obj/bpf/%.o
	$(call say,EMBED,$<)
	$(Q)printf '.section .rodata\n.balign 8\n.globl bpf_%s_start\nbpf_%s_start:\n.incbin "%s"\n.globl bpf_%s_end\nbpf_%s_end:\n.section .note.GNU-stack,"",@progbits\n' \
		$* $* $< $* $* | $(CC) -x assembler -c -o $@ -

$(LIBRECLAIM): $(call obj,$(RECLAIM_SRC))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(LIBVMM): $(call obj,$(VMM_SRC)) $(BPF_EMBED)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(LIBSIM): $(call obj,$(SIM_SRC))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(O)/obj/reclaim/sim/plot.o: BASE_CPPFLAGS += $(SIM_CFLAGS)

define link
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $(1) $(LIBS) $(PKG_LIBS) $(2)
endef

$(O)/ebbd: $(call obj,vmm/main.c) $(LIBS)
	$(call link,$(call obj,vmm/main.c))
$(O)/ebb-run: $(call obj,$(RUN_SRC)) $(LIBS)
	$(call link,$(call obj,$(RUN_SRC)))
$(O)/ebbctl: $(call obj,$(CTL_SRC)) $(LIBS)
	$(call link,$(call obj,$(CTL_SRC)))
# The simulator knows the core only: of libvmm.a it takes the error sentence.
$(O)/ebb-sim: $(call obj,reclaim/sim/main.c) $(LIBSIM) $(call obj,vmm/util.c) $(LIBRECLAIM)
	$(call say,LD,$@)
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ $(SIM_LIBS)

$(O)/tests/unit/% $(O)/tests/model/% $(O)/tests/platform/%: BASE_CPPFLAGS += -UNDEBUG
$(O)/tests/unit/%: $(O)/obj/tests/unit/%.o $(LIBS)
	$(call link,$<,-lcmocka)
$(O)/tests/unit/test_sim_%: $(O)/obj/tests/unit/test_sim_%.o $(LIBSIM) $(call obj,vmm/util.c) $(LIBRECLAIM)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ $(SIM_LIBS) -lcmocka
$(O)/tests/model/%: $(O)/obj/tests/model/%.o $(LIBS)
	$(call link,$<,-lcmocka)
$(O)/tests/platform/%: $(O)/obj/tests/platform/%.o $(LIBS)
	$(call link,$<)
$(O)/tests/integration/%: $(O)/obj/tests/integration/%.o $(LIBS)
	$(call link,$<)
$(O)/tests/bench/%: $(O)/obj/tests/bench/%.o $(LIBS)
	$(call link,$<)
# Guest programs run in an initramfs without a libc: static.
$(O)/tests/guest/%: tests/guest/%.c
	$(call say,CC-ST,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CPPFLAGS) -std=gnu11 -Wall -Wextra -O2 -static -pthread -o $@ $<

.PHONY: tests guest-programs
tests: all $(call bin,$(UNIT_SRC) $(MODEL_SRC) $(PLAT_SRC) $(INTEG_SRC))
guest-programs: $(call bin,$(GUEST_SRC))

.PHONY: check check-asan check-tsan check-guest
check: tests
	scripts/run-tests --label unit $(call bin,$(UNIT_SRC))
	scripts/run-tests --label model $(call bin,$(MODEL_SRC))
	scripts/run-tests --label platform $(call bin,$(PLAT_SRC))
	O=$(O) scripts/run-tests --label fuzz $(sort $(wildcard tests/fuzz/*.sh))
check-asan:
	$(MAKE) SAN=address,undefined CFLAGS="-O1 -g" check-san
check-tsan:
	$(MAKE) SAN=thread CFLAGS="-O1 -g" check-san
.PHONY: check-san
# The model tests have one thread: nothing in them for TSan.
SAN_TESTS = $(call bin,$(UNIT_SRC) $(if $(filter thread,$(SAN)),,$(MODEL_SRC)))
# The daemon itself runs under the sanitizer too, with its threads at work.
SAN_NAME = $(firstword $(subst $(comma), ,$(SAN)))
SAN_NATIVE = tests/integration/native-detach.sh tests/integration/native-discard.sh
check-san: all $(SAN_TESTS) $(O)/tests/integration/standin
	scripts/run-tests --label $(SAN_NAME) $(SAN_TESTS)
	O=$(O) scripts/run-tests --label $(SAN_NAME) $(SAN_NATIVE)
check-guest: tests guest-programs
	scripts/run-tests --label guest $(sort $(wildcard tests/integration/*.sh))

FUZZ_SECONDS ?= 600
.PHONY: fuzz
fuzz:
	O=$(O) scripts/fuzz reclaim $(FUZZ_SECONDS)
	O=$(O) scripts/fuzz trace $(FUZZ_SECONDS)

.PHONY: bench-lru
bench-lru: $(O)/tests/bench/lru
	$<

.PHONY: bench-fault
bench-fault: all $(call bin,$(BENCH_SRC))
	O=$(O) scripts/bench-fault

.PHONY: lint
lint: all
	O=$(O) scripts/lint

INSTALL ?= install
.PHONY: install uninstall clean
install: all
	$(INSTALL) -d $(DESTDIR)$(SBINDIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(UNITDIR) $(DESTDIR)$(MANDIR)/man8 $(DESTDIR)$(MANDIR)/man7 $(DESTDIR)$(MANDIR)/man1
	$(INSTALL) -m 755 $(O)/ebbd $(DESTDIR)$(SBINDIR)/
	$(INSTALL) -m 755 $(O)/ebb-run $(O)/ebbctl $(O)/ebb-sim $(DESTDIR)$(BINDIR)/
	sed 's|/usr/local/sbin|$(SBINDIR)|; s|/usr/local/bin|$(BINDIR)|' vmm/ebbd.service >$(DESTDIR)$(UNITDIR)/ebbd.service
	chmod 644 $(DESTDIR)$(UNITDIR)/ebbd.service
	$(INSTALL) -m 644 vmm/ebbd.8 $(DESTDIR)$(MANDIR)/man8/
	$(INSTALL) -m 644 reclaim/ebb-policy.7 $(DESTDIR)$(MANDIR)/man7/
	$(INSTALL) -m 644 vmm/run/ebb-run.1 vmm/ctl/ebbctl.1 reclaim/sim/ebb-sim.1 $(DESTDIR)$(MANDIR)/man1/
uninstall:
	rm -f $(DESTDIR)$(UNITDIR)/ebbd.service
	rm -f $(DESTDIR)$(SBINDIR)/ebbd $(DESTDIR)$(BINDIR)/ebb-run $(DESTDIR)$(BINDIR)/ebbctl $(DESTDIR)$(BINDIR)/ebb-sim
	rm -f $(DESTDIR)$(MANDIR)/man8/ebbd.8 $(DESTDIR)$(MANDIR)/man7/ebb-policy.7 $(DESTDIR)$(MANDIR)/man1/ebb-run.1 $(DESTDIR)$(MANDIR)/man1/ebbctl.1 $(DESTDIR)$(MANDIR)/man1/ebb-sim.1
clean:
	rm -rf $(O)

.SECONDARY:
-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
