#!/bin/sh
# Runs every case on each kernel of a set of ci/kernels. A requirement that none
# of them meets fails.
#   ci/matrix.sh SET [REPORT-DIRECTORY]
set -eu
cd "$(dirname "$0")/.."

kernels=$(awk -v set="$1" '!/^#/ { for (i = 2; i <= NF; i++) if ($i == set) { printf "%s%s", sep, $1; sep = "," } }' ci/kernels)
test -n "$kernels" || { echo "ci/kernels: there is no set $1" >&2; exit 2; }
exec bin/seg6lab run --all --kernel "$kernels" --report "${2:-bin/report}"
