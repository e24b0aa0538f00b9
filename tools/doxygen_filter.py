"""What Doxygen reads of a source: comments in the form that Doxygen takes for documentation.

    python3 tools/doxygen_filter.py FILE

In a header the first lines become the file's documentation, a comment behind a member or in front of it the member's.
Specialisations of fmt::formatter are left out. The numbers of lines stay. In a page links to other files of the
repository become plain text.
"""
import re
import sys
from pathlib import Path

TRAILING = re.compile(r"^( {0,4}\S.*[;,{}]|\s*k\w+(?: = [^,]+)?,?)(\s+)// (?!NOLINT)")
# Several members with one comment, which Doxygen would give to the last alone.
SEVERAL = re.compile(r"^(\s+)((?:const )?[\w:]+(?:<[^;=]*>)?) (\w+(?: = [^,;{]+|\{[^}]*\})?"
                     r"(?:, \w+(?: = [^,;{]+|\{[^}]*\})?)+);\s+// (.*)$")
# The beginning of a body, whose comment is the function's.
BODY = re.compile(r"^( {0,2})(\S.*\{)  // (.*)$")
OWN_LINE = re.compile(r"^( {0,4})// ?(?!namespace)")
FORMATTER = re.compile(r"^template <>\nstruct fmt::formatter.*?^};$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")


def split(match):
    """Each member with the comment, on one line."""
    indent, kind, members, comment = match.groups()
    names = re.split(r", (?=\w+(?: =|\{|,|$))", members)
    return indent + " ".join(f"{kind} {name}; /**< {comment} */" for name in names)


def convert_line(line):
    if line.startswith("}") or "///" in line:  # }  // namespace qkv
        return line
    if SEVERAL.match(line):
        return SEVERAL.sub(split, line)
    if BODY.match(line):
        return BODY.sub(r"\1/** \3 */ \2", line)
    if TRAILING.match(line):
        return TRAILING.sub(r"\1\2///< ", line)
    return OWN_LINE.sub(r"\1/// ", line)


def convert_header(text):
    text = FORMATTER.sub(lambda match: "\n" * match[0].count("\n"), text)
    head, pragma, rest = text.partition("#pragma once\n")
    # Code is indented by three; Markdown wants four.
    head = re.sub("^//", "///", re.sub("^//   ", "//     ", head, flags=re.MULTILINE), flags=re.MULTILINE)
    return "/** @file */ " + head + pragma + "\n".join(convert_line(line) for line in rest.split("\n"))


if __name__ == "__main__":
    path = Path(sys.argv[1])
    text = path.read_text()
    sys.stdout.write(convert_header(text) if path.suffix == ".h" else LINK.sub(r"\1", text))
