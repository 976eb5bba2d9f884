#!/bin/sh
# Runs the kernel's SRv6 selftests beside our cases in guests and compares the
# verdicts. The scripts come from Debian's linux-source-6.12, into the cache.
set -eu
cd "$(dirname "$0")/.."

SEG6LAB_SELFTESTS=debian:6.12 ${GO:-go} test -count=1 -timeout 60m ./specs/selftests -v
