#!/bin/sh
# Tests Python's wheel in a clean environment, without a compiler and without this folder's package: what
# `make test-python` runs. Builds the wheel if a source is newer.
#
#   tools/python_tests.sh [--originals | --adapters] [PYTEST'S ARGUMENTS]
#
# PYTHON names another CPython from 3.11 on. --originals: beside torch, timm, transformers and sentence-transformers
# (tools/reference_env.sh), without which the tests that compare with them are skipped. --adapters: the modules
# for LangChain, LlamaIndex, Chroma and Ray beside these, and the example of UMAP.
set -eu
cd "$(dirname "$0")/.."

originals=
if [ "${1:-}" = --originals ]; then
  shift
  originals=$(tools/reference_env.sh | tail -n 1)
fi
adapters=
if [ "${1:-}" = --adapters ]; then
  shift
  adapters="langchain-core==1.8.1 langchain-tests==1.1.9 langchain-chroma==1.1.0 llama-index-core==0.14.25
    chromadb==1.5.9 ray[data]==2.60.0 pandas==3.1.1 umap-learn==0.5.12 matplotlib==3.11.2"
  export RAY_USAGE_STATS_ENABLED=0
  set -- -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function "$@"
fi
wheel=$PWD/$(tools/wheel.sh --if-changed | tail -n 1)
venv=build/python-tests
rm -rf "$venv"
"${originals:-${PYTHON:-python3}}" -m venv "$venv"
if [ -n "$originals" ]; then
  site=$("$originals" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "$site" > "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/originals.pth"
  "$venv/bin/python" -m pip --disable-pip-version-check --quiet install expecttest==0.3.0 >&2
fi
"$venv/bin/python" -m pip --disable-pip-version-check --quiet install "$wheel" pytest==9.2.0 hypothesis==6.170.17 \
  pillow==13.0.0 tqdm scikit-learn==1.9.1 $adapters >&2
"$venv/bin/python" -c 'import sys; print("Python", sys.version.split()[0])'
set -- tests/python${adapters:+/test_adapters_*.py} "$@"
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@"
