"""Checks that a program which only classifies does not link training, the laboratory, analysis, pages or the font.

    python3 tests/app/check_tiny.py PROGRAM IMAGE CLASS
"""
import json
import re
import subprocess
import sys

NOT_LINKED = re.compile(r"\bqkv::(train|lab|inspect|report|algebra)::|Explorer|EmbeddingTable|FontFile|qkv_ablation")


def main(program, image, expected):
    result = json.loads(subprocess.check_output([program, image]))
    assert result["top"][0]["index"] == int(expected), result
    symbols = subprocess.check_output(["nm", "--demangle", "--defined-only", program], text=True).splitlines()
    assert len(symbols) > 1000, "the program has no symbols"
    found = [line for line in symbols if NOT_LINKED.search(line)]
    assert not found, "\n".join(found[:20])
    print(f"{len(symbols)} symbols, none of what is not used")


if __name__ == "__main__":
    main(*sys.argv[1:])
