"""Refuses includes that the architecture does not allow.

    python3 tools/check_includes.py [ROOT]

The tables in docs/architecture.md say which folder may use which, and within a folder which room; "may use" is
transitive, and "all" is all of qkv/. A room is a sub-folder; the files of the folder itself are the room `FOLDER/`.
Refused are also a folder of qkv/ or a room without a row, and a circle of folders or rooms. Includes of the project
give the full name.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
ROW = re.compile(r"^\| `(?:qkv/)?(\w+)/` \|.*\| ([^|]+) \|$", re.MULTILINE)
ROOMS = "\n### Rooms"  # where the second table begins
ROOM_ROW = re.compile(r"^\| `(\w+/(?:\w+/)*)` \|[^|]*\| ([^|]+) \|$", re.MULTILINE)
FRONTS = ("cli", "python")  # beside qkv/
SUFFIXES = {".h", ".cc", ".in", ".inc"}


def close(direct):
    """Each name with all that it reaches, itself among them."""
    allowed = {}
    for name in direct:
        reached, open_ = set(), [name]
        while open_:
            current = open_.pop()
            if current not in reached:
                reached.add(current)
                open_ += direct[current] & set(direct)
        allowed[name] = reached
    return allowed


def read_rows(text):
    """Folder to the words of its row: folders, "all" or "std"."""
    return {folder: set(re.findall(r"\w+", uses)) for folder, uses in ROW.findall(text.partition(ROOMS)[0])}


def read_folders(text):
    """Folder to the folders whose headers it may include."""
    direct = read_rows(text)
    for uses in direct.values():
        if "all" in uses:
            uses |= set(direct) - set(FRONTS)
    return close(direct)


def read_rooms(text):
    """Room, such as "model/config/", to the rooms of its folder whose headers it may include."""
    rows = ROOM_ROW.findall(text.partition(ROOMS)[2])
    return close({room: set(re.findall(r"`([^`]+)`", uses)) for room, uses in rows})


def circles(allowed):
    return [f"docs/architecture.md: {a} and {b} may use each other"
            for a in sorted(allowed) for b in sorted(allowed[a]) if a < b and a in allowed[b]]


def room_of(path):
    """The room of a path within qkv/: "model/config/" of model/config/vit_config.h."""
    return path.rsplit("/", 1)[0] + "/"


def check_file(path, root, folders, rooms):
    text, errors = path.read_text(), []
    parts = path.relative_to(root).parts
    folder = parts[0] if parts[0] in FRONTS else parts[1]
    own = room_of(str(path.relative_to(root / "qkv"))) if folder not in FRONTS else folder + "/"
    for match in INCLUDE.finditer(text):
        bracket, name = match.groups()
        where = f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start(2)) + 1}"
        if name.startswith("qkv/"):
            target, room = name.split("/")[1], room_of(name.removeprefix("qkv/"))
            if target not in folders[folder]:
                errors.append(f"{where}: {folder} may not use {target} ({name})")
            elif target == folder and room != own and room not in rooms.get(own, ()):
                errors.append(f"{where}: {own} may not use {room} ({name})")
            if bracket == "<":
                errors.append(f'{where}: write "{name}", not <{name}>')
        elif name.startswith(("tests/", "bench/", "fuzz/")) or (
            name.split("/")[0] in FRONTS and name.split("/")[0] not in folders[folder]
        ):
            errors.append(f"{where}: {folder} may not use {name}")
        elif bracket == '"' and "/" not in name:
            errors.append(f"{where}: give the full name of {name}")
    return errors


def check(root):
    """What is wrong, a line for each include, and how many files were read."""
    text = (root / "docs/architecture.md").read_text()
    folders, rooms = read_folders(text), read_rooms(text)
    errors, files = circles(folders) + circles(rooms), 0
    for folder in sorted(path for path in (root / "qkv").iterdir() if path.is_dir()) + [
        root / front for front in FRONTS if (root / front).is_dir()
    ]:
        if folder.name not in folders:
            errors.append(f"{folder.relative_to(root)}: docs/architecture.md has no row for it")
            continue
        paths = sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES)
        files += len(paths)
        found = {room_of(str(p.relative_to(root / "qkv"))) for p in paths} if folder.name not in FRONTS else set()
        if any(room.count("/") > 1 for room in found):
            errors += [f"qkv/{room}: docs/architecture.md has no row for it" for room in sorted(found - set(rooms))]
        for path in paths:
            errors += check_file(path, root, folders, rooms)
    return errors, files


def main(root):
    errors, files = check(root)
    print("\n".join(errors) or f"{files} files include what they may")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])))
