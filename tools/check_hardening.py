#!/usr/bin/env python3
"""Checks that built programs and modules have what cmake/Hardening.cmake asks the compiler and the linker for.

Usage: check_hardening.py FILE…   (ELF files; needs readelf)
"""
import re
import subprocess
import sys


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True).stdout


def check(headers, segments, dynamic, symbols, program):
    """What is missing, a sentence each, from what readelf -h, -l, -d and --dyn-syms print."""
    errors = []

    def require(ok, message):
        if not ok:
            errors.append(message)

    require(re.search(r"Type:\s+DYN", headers), "expected position-independent code (type DYN)")
    if program:
        require(re.search(r"FLAGS_1.*\bPIE\b", dynamic), "expected a position-independent executable (-pie)")
    require(re.search(r"\((FLAGS|FLAGS_1)\).*\b(BIND_NOW|NOW)\b", dynamic), "expected BIND_NOW (-z now)")
    require("GNU_RELRO" in segments, "expected GNU_RELRO (-z relro)")
    require(re.search(r"GNU_STACK.*\bRW\s", segments), "expected a stack that is not executable (-z noexecstack)")
    require(not re.search(r"LOAD.*\bRWE\b", segments), "expected no segment that is both writable and executable")
    require("TEXTREL" not in dynamic, "expected no relocations in code (TEXTREL)")
    for folders in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        # An empty one is the working directory.
        require(all(folder.startswith("/") for folder in folders.split(":")),
                f"expected libraries to be sought in absolute folders, got RUNPATH {folders}")
    require("__stack_chk_fail" in symbols, "expected a stack protector (-fstack-protector-strong)")
    if program:
        fortified = set(re.findall(r"\b__(\w+)_chk\b", symbols)) - {"stack"}
        require(fortified, "expected checked functions of the C library (_FORTIFY_SOURCE)")
    return errors


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    failed = False
    for path in sys.argv[1:]:
        parts = [readelf(option, path) for option in ("-h", "-l", "-d", "--dyn-syms")]
        for error in check(*parts, program=not path.endswith(".so")):
            failed = True
            print(f"{path}: {error}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
