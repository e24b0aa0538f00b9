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

# A consumer that was built against the installed tree reads digits right, and says what is wrong with a path.
check_consumer() {
  expect 7 "$1" "$source/examples/digits/7-white.png"
  expect 3 "$1" "$source/examples/digits/3-white.png"
  status=0
  "$1" "$tmp/no such.png" > "$tmp/out" 2> "$tmp/err" || status=$?
  [ $status -eq 1 ] || fail "with a wrong path the consumer exits with $status, expected 1"
  [ ! -s "$tmp/out" ] || fail "with a wrong path the consumer prints '$(cat "$tmp/out")'"
  case $(cat "$tmp/err") in
    "consumer: "*"$tmp/no such.png: No such file or directory") ;;
    *) fail "with a wrong path the consumer says '$(cat "$tmp/err")'" ;;
  esac
  status=0
  "$1" > /dev/null 2>&1 || status=$?
  [ $status -eq 2 ] || fail "without a path the consumer exits with $status, expected 2"
}
