#!/bin/sh
# What needs kernels built from Debian's source, with and without patches.
set -eu
cd "$(dirname "$0")/.."

export SEG6LAB_BUILD=1
go=${GO:-go}
echo "== kernels: configuration, patches, bisection"
$go test -count=1 -timeout 2h -run 'Debian' ./lab/kernel
$go test -count=1 -timeout 2h -run 'Bisect' ./cmd/seg6lab
echo "== every case on a kernel with our configuration"
bin/seg6lab run --all --kernel debian:6.12:source --report bin/report-source
