"""The command `qkv`."""

import signal
import sys

from . import _core


def main() -> None:
    # The program's own: Python's handlers would wait for its interpreter.
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    sys.exit(_core.run_command(["qkv", *sys.argv[1:]]))
