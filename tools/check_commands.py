"""Refuses a man page that does not name what the program takes, or names what it does not.

    python3 tools/check_commands.py PROGRAM

The page is docs/qkv.1.scd, to which the program adds the options that have no text of their own there.
"""
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/qkv.1.scd"


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


def options_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def commands_of(program, *above):
    """All commands, those of groups too: ("classify",), ("qk", "merge"), …"""
    _, _, listed = help_of(program, *above).partition("Subcommands:")
    for name in re.findall(r"^  ([a-z]+) {4,}", listed, re.MULTILINE):
        yield (*above, name)
        yield from commands_of(program, *above, name)


def main(program):
    every = list(commands_of(program))
    wanted = options_in(help_of(program)).union(*(options_in(help_of(program, *command)) for command in every))
    own = PAGE.read_text()
    page = subprocess.run([program, "__man_page"], input=own, capture_output=True, text=True, check=True).stdout
    errors = [f"no {x}" for x in sorted(wanted - options_in(page))]
    errors += [f"{x} is no option" for x in sorted(options_in(page) - wanted)]
    errors += [f"no subcommand {x}" for x in (" ".join(command) for command in every) if f"*qkv {x}*" not in own]
    print("\n".join(f"{PAGE.name}: {error}" for error in errors) or
          f"{len(wanted)} options of {len(every)} subcommands are in the man page")
    return 1 if errors else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
