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
$go test -count=1 ./...
echo "== every case on the default kernels"
ci/matrix.sh default
