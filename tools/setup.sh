#!/bin/sh
# Installs what a fresh Debian 12 lacks, as root or by sudo; silent and quick when nothing is missing.
#
#   tools/setup.sh [GROUP…]           default: build test; others: page slide ci bench docs format neon verify
#                                     web browser (tools/packages.txt)
#   tools/setup.sh --list [GROUP…]    only prints the packages' names, one a line
# Lists of packages are words, to be split:
# shellcheck disable=SC2086
set -eu

here=$(cd "$(dirname "$0")" && pwd)
list=no
if [ "${1:-}" = --list ]; then
  list=yes
  shift
fi
[ $# -gt 0 ] || set -- build test

packages=
for group in "$@"; do
  found=$(awk -v group="$group" '$1 == group {print $2}' "$here/packages.txt")
  if [ -z "$found" ]; then
    echo "setup: no group of packages is called $group" >&2
    exit 2
  fi
  packages="$packages $found"
done

if [ $list = yes ]; then
  printf '%s\n' $packages
  exit
fi

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "setup: this is no Debian: nothing is installed (what qkv needs: tools/setup.sh --list)" >&2
  exit
fi

missing=
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2> /dev/null) || true
for package in $packages; do
  # Node.js may come from elsewhere, whose packages these would conflict with.
  case $package in
    nodejs) command -v node > /dev/null && continue ;;
    npm) command -v npm > /dev/null && continue ;;
  esac
  echo "$installed" | grep -qxF "installed $package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root="env DEBIAN_FRONTEND=noninteractive"
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "setup: missing, and neither root nor sudo to install it:$missing" >&2
    exit 1
  fi
  as_root="sudo $as_root"
fi
echo "setup: installing$missing" >&2
install="$as_root apt-get install -qq -y --no-install-recommends $missing"
if ! $install > /dev/null 2>&1; then
  # The list of packages is missing, or too old.
  $as_root apt-get update -qq
  $install > /dev/null
fi
