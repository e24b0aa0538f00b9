#!/bin/sh
# Fetches source packages of a suite of Debian's archive into a folder of the build, for what is compiled here and not
# linked as the system has it; their signatures and checksums are apt's business. Done once, silent then.
#
#   tools/debian_sources.sh FOLDER SUITE PACKAGE…       one folder in it for each package: zlib, libpng1.6, …
set -eu

[ $# -ge 3 ] || { echo "usage: tools/debian_sources.sh FOLDER SUITE PACKAGE…" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
suite=$2
shift 2
missing=
for package in "$@"; do
  [ -d "$folder/$package" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

# With lists of its own, so that neither the machine's list of sources nor its rights matter.
mirror=${QKV_DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${QKV_DEBIAN_SECURITY:-http://deb.debian.org/debian-security}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What was fetched is checked by apt, which as root hands it to a user without rights.
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/sources"
chmod 777 "$work/sources"
apt="apt-get -qq -o Dir::Etc::SourceList=$work/sources.list -o Dir::Etc::SourceParts=/dev/null
     -o Dir::State::Lists=$work/lists -o Dir::Cache::Archives=$work/archives
     -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Debug::NoLocking=1"

# fetch SOURCE...: of the archives named by lines of sources.list. Options and names are words, to be split.
# shellcheck disable=SC2086
fetch() {
  printf 'deb-src %s main\n' "$@" > "$work/sources.list"
  (cd "$work/sources" && $apt update && $apt source $missing) > "$work/log" 2>&1
}

# A mirror's list of security updates may be older than its files: the release's own sources are there always.
if ! fetch "$mirror $suite" "$security $suite-security"; then
  rm -rf "$work/sources"/*
  if ! fetch "$mirror $suite"; then
    cat "$work/log" >&2
    echo "debian_sources: cannot fetch the sources of$missing from $mirror; QKV_DEBIAN_MIRROR names another mirror" >&2
    exit 1
  fi
  echo "debian_sources: $security lacks a file of its list:$missing are the release's, without later security updates" >&2
fi
for package in $missing; do
  mv "$work/sources/$package"-*/ "$folder/$package"
done
