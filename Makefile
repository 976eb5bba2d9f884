# make demo   the main job: cases on this machine's kernel, bytes asserted
# make test   every test
# make test-kernels  every case on every kernel of ci/kernels
# make test-selftests  the kernel's SRv6 selftests beside our cases
# make test-ports  labs on ports of emulated hardware, with every driver, killed and unplugged
# make test-reports  what needs kernels built from source: half an hour the first time
# make bench  up and down of labs beside ip -batch
# Each installs what it needs and says so; see README.md.

GO ?= go
BIN := bin/seg6lab

# Debian packages, by what needs them.
RUN_PACKAGES  := iproute2 procps
TEST_PACKAGES := $(RUN_PACKAGES) ethtool iptables iputils-ping python3-scapy qemu-system-x86 shellcheck tshark
BUILD_PACKAGES := bc binutils bison flex gcc gzip libc6-dev libelf-dev make pahole xz-utils
SELFTEST_PACKAGES := $(TEST_PACKAGES) clang kmod libbpf-dev linux-libc-dev netcat-openbsd xz-utils

.DEFAULT_GOAL := build
.PHONY: build demo test test-kernels test-selftests test-ports test-reports bench generate clean root packages-run packages-test packages-selftests packages-reports

build: $(BIN)

# The Go command knows best what is out of date. Static and stripped: a guest is
# given this file.
.PHONY: $(BIN)
$(BIN):
	@mkdir -p $(dir $@)
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o $@ ./cmd/seg6lab

demo: root packages-run $(BIN)
	@$(BIN) run --verbose demo

test: root packages-test $(BIN)
	@ci/test.sh

test-kernels: root packages-test $(BIN)
	@ci/matrix.sh all

test-selftests: root packages-selftests
	@ci/selftests.sh

test-ports: root packages-test
	@SEG6LAB_PORTS=1 $(GO) test -count=1 -timeout 60m -v ./specs/ports

test-reports: root packages-reports $(BIN)
	@ci/reports.sh

bench: root packages-run
	@$(GO) test -run '^$$' -bench . -benchtime 3x ./lab

generate:
	$(GO) generate ./...

clean:
	rm -rf bin

root:
	@test "$$(id -u)" = 0 || { echo "root is needed to create network namespaces: run it with sudo" >&2; exit 3; }

packages-run:
	@ci/packages.sh $(RUN_PACKAGES)

packages-test:
	@ci/packages.sh $(TEST_PACKAGES)

packages-selftests:
	@ci/packages.sh $(SELFTEST_PACKAGES)

packages-reports:
	@ci/packages.sh $(TEST_PACKAGES) $(BUILD_PACKAGES)
