#!/bin/sh
# Every script passes shellcheck. Argument: the repository.
set -eu
cd "$1"
shellcheck -S warning -x -P tests/package tools/*.sh tests/package/*.sh tests/house/*.sh .ci/run
shellcheck -s bash cli/completions/qkv.bash
