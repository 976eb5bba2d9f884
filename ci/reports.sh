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
bin/seg6lab run --all --kernel host,debian:6.12:source --report bin/report-source

echo "== the reports, before and after their fix"
failed=
n=0
while read -r kernel arguments claims code cases; do
	case $kernel in '#'* | '') continue ;; esac
	n=$((n + 1))
	set -- --kernel "$kernel" --report "bin/report-build/$n"
	test "$arguments" = - || set -- "$@" --kernel-arg "$(echo "$arguments" | tr , ' ')"
	test "$claims" = - || set -- "$@" --claim "$claims"
	# shellcheck disable=SC2046
	set -- run $(echo "$cases" | tr , ' ') "$@"
	echo "-- seg6lab $* (exit code $code)"
	got=0
	bin/seg6lab "$@" </dev/null || got=$?
	test "$got" = "$code" || failed="$failed
$kernel $arguments $cases: exit code $got, expected $code"
done <ci/reports
echo "== cases as shell scripts"
$go test -count=1 -timeout 3h -run 'AllScriptsAgree' ./specs || failed="$failed
cases and their scripts"
echo "== what the L2 encapsulation costs, in the order of the report"
$go test -count=1 -timeout 3h -run 'L2EncapCosts' -v ./specs || failed="$failed
the order of costs"
test -z "$failed" || { echo "not as expected:$failed" >&2; exit 1; }
