"""python -m qkv: the command `qkv`."""

from ._cli import main

main()
