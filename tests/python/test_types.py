"""The package's types as mypy sees them in a user's file."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import environment

pytest.importorskip("mypy", reason="types are checked where mypy is installed")


def test_a_users_file_has_no_errors(tmp_path):
    example = Path(__file__).with_name("typed_example.py")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(example)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
