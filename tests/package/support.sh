# For the scripts beside this: a temporary folder $tmp, and what is asked of an installed qkv. Arguments: SOURCE BUILD.
# shellcheck shell=sh
set -eu
# shellcheck disable=SC2034  # for the scripts
source=$1 build=$2
tmp=$(mktemp -d "${TMPDIR:-/tmp}/qkv-package-XXXXXX")
trap 'rm -rf "$tmp"' EXIT

fail() {
  echo "FAIL: $*" >&2
  exit 1
}

# expect WANTED COMMAND…: the command's output, whole.
expect() {
  wanted=$1
  shift
  got=$("$@") || fail "$* exits with $?"
  [ "$got" = "$wanted" ] || fail "$* prints '$got', expected '$wanted'"
}

# A consumer that was built against the installed tree reads digits right.
check_consumer() {
  expect 7 "$1" "$source/examples/digits/7-white.png"
  expect 3 "$1" "$source/examples/digits/3-white.png"
}
