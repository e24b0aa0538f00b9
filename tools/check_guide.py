"""Compiles and runs the programs of a guide, and compares what its commands print with what the guide says.

    python3 tools/check_guide.py docs/cpp.md --folder WORK --compiler "c++" [--write]

A ```cpp block is a program, whose first line is "// NAME.cc: what it does". In a ```console block the lines after
"$ " are a command, and the lines below it what it prints (stdout and stderr); "…" there stands for any characters, also
none. Programs are compiled, with the flags of `pkg-config qkv`, in the folder in which the commands run. --write puts
what the commands print into the guide.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BLOCK = re.compile(r"^```(cpp|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"// (\w+)\.cc: \S")


def compile_program(compiler, folder, text):
    """What the compiler says against it, or nothing."""
    named = NAME.match(text)
    if not named:
        return f"a program begins with {text.splitlines()[0]!r}, expected // NAME.cc: what it does\n"
    source = folder / f"{named[1]}.cc"
    source.write_text(text)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "qkv"], check=True, capture_output=True, text=True)
    command = [*shlex.split(compiler), "-std=c++20", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source.name,
               "-o", named[1], *shlex.split(flags.stdout)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return f"{source.name} does not compile:\n{result.stderr}" if result.returncode else ""


def split_console(text):
    """(command, expected output) of each command."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [part.split("\n", 1) for part in parts]


def run(command, folder):
    result = subprocess.run(command, shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            timeout=300)
    return result.returncode, result.stdout.decode(errors="replace")


def matches(expected, printed):
    pattern = ".*".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("guide", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = arguments.guide.read_text()
    programs = [body for kind, body in BLOCK.findall(text) if kind == "cpp"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [e for e in pool.map(lambda p: compile_program(arguments.compiler, arguments.folder, p), programs) if e]
    commands = 0

    def check(block):
        nonlocal commands
        if block[1] != "console":
            return block[0]
        lines = ""
        for command, expected in split_console(block[2]):
            commands += 1
            status, printed = run(command, arguments.folder)
            lines += f"$ {command}\n{expected if '…' in expected else printed}"
            if status != 0:
                errors.append(f"$ {command}\nexits with {status}: {printed}")
            elif not arguments.write and not matches(expected, printed):
                errors.append(f"$ {command}\nprints:\n{printed}\nexpected:\n{expected}")
        return f"```console\n{lines}```"

    if not errors:
        written = BLOCK.sub(check, text)
        if arguments.write:
            arguments.guide.write_text(written)
    print("\n".join(errors) or f"{len(programs)} programs compile, {commands} commands print what {arguments.guide} says")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
