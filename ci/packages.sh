#!/bin/sh
# Installs the Debian packages given as arguments that are not there yet, and
# says so.
set -eu

missing=
for package in "$@"; do
	case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || :) in
	"install ok installed") ;;
	*) missing="$missing $package" ;;
	esac
done
test -n "$missing" || exit 0

if ! command -v apt-get >/dev/null; then
	echo "install what Debian calls$missing: this machine has no apt-get" >&2
	exit 3
fi
echo "installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be too old, or absent on a new machine.
# shellcheck disable=SC2086
if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "apt-get install$missing failed" >&2
	exit 3
fi
