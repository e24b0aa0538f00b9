"""Refuses includes that the architecture does not allow.

    python3 tools/check_includes.py [ROOT]

The table in docs/architecture.md says which folder may use which; "may use" is transitive, and "all" is all of
qkv/. A folder of qkv/ without a row is refused too. Includes of the project give the full name.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
ROW = re.compile(r"^\| `(?:qkv/)?(\w+)/` \|.*\| ([^|]+) \|$", re.MULTILINE)
SUFFIXES = {".h", ".cc", ".in", ".inc"}


def read_table(text):
    """Folder to the folders whose headers it may include, itself among them."""
    direct = {folder: set(re.findall(r"\w+", uses)) for folder, uses in ROW.findall(text)}
    folders = set(direct)
    for uses in direct.values():
        if "all" in uses:
            uses |= folders - {"cli"}
    allowed = {}
    for folder in folders:
        reached, open_ = set(), [folder]
        while open_:
            current = open_.pop()
            if current not in reached:
                reached.add(current)
                open_ += direct[current] & folders
        allowed[folder] = reached
    return allowed


def check(root):
    """What is wrong, a line for each include, and how many files were read."""
    allowed = read_table((root / "docs/architecture.md").read_text())
    errors, files = [], 0
    folders = sorted(path for path in (root / "qkv").iterdir() if path.is_dir()) + [root / "cli"]
    for folder in folders:
        if folder.name not in allowed:
            errors.append(f"{folder.relative_to(root)}: docs/architecture.md has no row for it")
            continue
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES):
            files += 1
            text = path.read_text()
            for match in INCLUDE.finditer(text):
                bracket, name = match.groups()
                where = f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start(2)) + 1}"
                if name.startswith("qkv/"):
                    target = name.split("/")[1]
                    if target not in allowed[folder.name]:
                        errors.append(f"{where}: {folder.name} may not use {target} ({name})")
                    if bracket == "<":
                        errors.append(f'{where}: write "{name}", not <{name}>')
                elif name.startswith(("tests/", "bench/", "fuzz/")) or (
                        name.startswith("cli/") and folder.name != "cli"):
                    errors.append(f"{where}: {folder.name} may not use {name}")
                elif bracket == '"' and "/" not in name:
                    errors.append(f"{where}: give the full name of {name}")
    return errors, files


def main(root):
    errors, files = check(root)
    print("\n".join(errors) or f"{files} files include what they may")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])))
