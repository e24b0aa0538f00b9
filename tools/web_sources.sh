#!/bin/sh
# Fetches the sources of the libraries that the engine of the web page needs, from Debian's archive, into a folder of the
# build; their signatures and checksums are apt's business. Done once, silent then.
#
#   tools/web_sources.sh FOLDER       one folder in it for each package: zlib, libpng1.6, …
#
# Highway is Debian 13's: the version of Debian 12 has no vectors of double in WebAssembly.
set -eu

[ $# = 1 ] || { echo "usage: tools/web_sources.sh FOLDER" >&2; exit 2; }
bookworm='fmtlib libdeflate libpng1.6 pcre2 utf8proc zlib'
trixie=highway
mkdir -p "$1"
folder=$(cd "$1" && pwd)
mirror=${QKV_DEBIAN_MIRROR:-http://deb.debian.org/debian}

# fetch SUITE PACKAGE…: with lists of its own, so that neither the machine's list of sources nor its rights matter.
fetch() {
  suite=$1
  shift
  work=$(mktemp -d)
  # What was fetched is checked by apt, which as root hands it to a user without rights.
  chmod 755 "$work"
  mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/sources"
  chmod 777 "$work/sources"
  echo "deb-src $mirror $suite main" > "$work/sources.list"
  apt="apt-get -qq -o Dir::Etc::SourceList=$work/sources.list -o Dir::Etc::SourceParts=/dev/null
       -o Dir::State::Lists=$work/lists -o Dir::Cache::Archives=$work/archives
       -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Debug::NoLocking=1"
  # Options are words, to be split.
  # shellcheck disable=SC2086
  if ! (cd "$work/sources" && $apt update && $apt source "$@") > "$work/log" 2>&1; then
    cat "$work/log" >&2
    echo "web_sources: cannot fetch the sources of $* from $mirror; QKV_DEBIAN_MIRROR names another mirror" >&2
    rm -rf "$work"
    exit 1
  fi
  for package in "$@"; do
    rm -rf "${folder:?}/$package"
    mv "$work/sources/$package"-*/ "$folder/$package"
  done
  rm -rf "$work"
}

missing=
for package in $bookworm; do
  [ -d "$folder/$package" ] || missing="$missing $package"
done
# Names are words, to be split.
# shellcheck disable=SC2086
[ -z "$missing" ] || fetch bookworm $missing
[ -d "$folder/$trixie" ] || fetch trixie $trixie
