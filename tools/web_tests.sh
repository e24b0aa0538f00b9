#!/usr/bin/env bash
# Tests the explorer without a server: builds it, if it is not up to date, and compares its answers with those of
# build/release/qkv, in node and in Chromium from a host, from disk and with a model of one's own: what `make test-web` runs.
#
#   tools/web_tests.sh [--threads]    --threads: also the engine with threads, on an isolated page
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh browser
tools/web.sh "$@"
QKV=build/release/qkv QKV_WEB=build/web node --test --test-concurrency=1 --test-reporter=spec tests/web/*.test.mjs
