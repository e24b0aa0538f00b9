"""Refuses a man page or completions that do not name what the program takes, or name what it does not.

    python3 tools/check_commands.py PROGRAM
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = [ROOT / name for name in ("docs/qkv.1.scd", "cli/completions/qkv.bash", "cli/completions/qkv.fish",
                                  "cli/completions/_qkv")]


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


def options_in(text):
    # fish says -l NAME for --NAME.
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) | {
        "--" + x for x in re.findall(r"^complete .* -l ([a-z-]+)", text, re.MULTILINE)}


def commands_of(program, *above):
    """All commands, those of groups too: ("classify",), ("qk", "merge"), …"""
    _, _, listed = help_of(program, *above).partition("Subcommands:")
    for name in re.findall(r"^  ([a-z]+) {4,}", listed, re.MULTILINE):
        yield (*above, name)
        yield from commands_of(program, *above, name)


def main(program):
    every = list(commands_of(program))
    wanted = options_in(help_of(program)).union(*(options_in(help_of(program, *command)) for command in every))
    commands = [command[-1] for command in every]
    errors = []
    for path in FILES:
        found, name = path.read_text(), path.relative_to(ROOT)
        errors += [f"{name}: no {x}" for x in sorted(wanted - options_in(found))]
        errors += [f"{name}: {x} is no option" for x in sorted(options_in(found) - wanted)]
        errors += [f"{name}: no subcommand {x}" for x in commands if not re.search(rf"\b{x}\b", found)]
    print("\n".join(errors) or f"{len(wanted)} options of {len(commands)} subcommands are everywhere")
    return 1 if errors else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
