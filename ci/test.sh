#!/bin/sh
# Everything that `make test` runs, in the order of what fails fastest.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go}
echo "== gofmt, go vet"
unformatted=$(gofmt -l cmd forwarder lab specs topologies traffic)
test -z "$unformatted" || { echo "not gofmt'ed: $unformatted" >&2; exit 1; }
$go vet ./...
echo "== go test"
# One package after the other: they share the processors with what they test.
$go test -count=1 -p 1 ./...
echo "== every case on the default kernels"
ci/matrix.sh default
