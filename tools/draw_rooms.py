"""Draws docs/pictures/rooms.svg: the folders of docs/architecture.md, each above those that it may use, with their rooms.

    python3 tools/draw_rooms.py [--check]

A line is left out if others lead to the same folder. --check writes nothing, and its exit status is 1 if the picture is
not up to date.
"""
import html
import sys
import textwrap
from pathlib import Path

from check_includes import ROOM_ROW, ROOMS, read_rows

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/pictures/rooms.svg"
# Column and words of each folder.
FOLDERS = {
    "python": (2.85, "Python's package"),
    "cli": (2.85, "the program"), "server": (2.85, "HTTP"), "explore": (2.85, "the explorer's calls"),
    "app": (3.3, "opens models, runs files"), "lab": (2.3, "rewrites and ablates models"),
    "mil": (2.9, "heads over bags of vectors"), "slide": (3.6, "slides, tissue, tiles"),
    "dicom": (3.1, "DCMTK as a module"), "openslide": (4.4, "OpenSlide's process"),
    "mpi": (1, "several processes"), "train": (2, "training"), "inspect": (1, "maps, statistics of heads"),
    "builtin": (4, "data in the program"), "model": (2, "checkpoints, forward passes"), "nn": (1, "layers"),
    "report": (4, "tables, charts, pages"), "attention": (1, "the fused call"), "image": (2, "decoding, resizing"),
    "text": (3.2, "tokenizers, metrics"), "simd": (1, "kernels"), "algebra": (0, "matrices of heads"),
    "io": (2.9, "safetensors, PyTorch, JSON"), "core": (2, "tensors, threads, errors"),
}  # fmt: skip
WIDTH, HEIGHT, LINE, COLUMN, GAP, MARGIN = 186, 42, 13, 204, 26, 10


def read_uses(text):
    """Folder to the folders that its row names."""
    uses = read_rows(text)
    for folder, names in uses.items():
        if "all" in names:  # the program loads mpi as a module; Python's stands on the program
            uses[folder] = set(uses) - {folder, "mpi", "python"}
    return {folder: names & set(uses) for folder, names in uses.items()}


def read_rooms(text):
    """Folder to lines with the names of its rooms."""
    rooms = {}
    for row, _ in ROOM_ROW.findall(text.partition(ROOMS)[2]):
        folder, _, room = row.strip("/").partition("/")
        if room:
            rooms.setdefault(folder, []).append(room)
    return {folder: textwrap.wrap(" · ".join(names), 34) for folder, names in rooms.items()}


def reached(folder, uses):
    return uses[folder].union(*(reached(name, uses) for name in uses[folder]))


def floors(uses):
    known = {}

    def floor(folder):
        if folder not in known:
            known[folder] = 1 + max((floor(name) for name in uses[folder]), default=-1)
        return known[folder]

    return {folder: floor(folder) for folder in uses}


def places(uses, rooms):
    """(left, top, height) of each folder's box, and the size of the picture."""
    level = floors(uses)
    found, y = {}, MARGIN
    for floor in range(max(level.values()), -1, -1):
        folders = [folder for folder in uses if level[folder] == floor]
        heights = {folder: HEIGHT + LINE * len(rooms.get(folder, [])) for folder in folders}
        found |= {folder: (MARGIN + FOLDERS[folder][0] * COLUMN, y, heights[folder]) for folder in folders}
        y += max(heights.values()) + GAP
    return found, (4 * COLUMN + WIDTH + 2 * MARGIN, y - GAP + MARGIN)


def draw(uses, rooms):
    missing = set(uses) ^ set(FOLDERS)
    if missing:
        sys.exit(f"tools/draw_rooms.py: FOLDERS and the table differ in {', '.join(sorted(missing))}")
    place, (width, height) = places(uses, rooms)
    lines, boxes, texts = [], [], []
    for folder, (x, y, tall) in place.items():
        middle = x + WIDTH / 2
        through = set().union(*(reached(name, uses) for name in uses[folder]))
        for below in sorted(uses[folder] - through):
            to_x, to_y, _ = place[below]
            lines.append(f'<line x1="{middle:g}" y1="{y + tall}" x2="{to_x + WIDTH / 2:g}" y2="{to_y}"/>')
        boxes.append(f'<rect x="{x:g}" y="{y}" width="{WIDTH}" height="{tall}" rx="6"/>')
        texts.append(f'<text x="{middle:g}" y="{y + 17}" font-weight="bold">{folder}</text>')
        for i, line in enumerate([FOLDERS[folder][1], *rooms.get(folder, [])]):
            fill = ' fill="#3b6ea8"' if i else ""
            texts.append(f'<text x="{middle:g}" y="{y + 33 + LINE * i}" font-size="11"{fill}>{html.escape(line)}</text>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="14">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        '<g stroke="#8a94a3" stroke-width="1.3">', *lines, "</g>",
        '<g stroke="#3b6ea8" fill="#eef4fb">', *boxes, "</g>",
        '<g fill="#1d2733" text-anchor="middle">', *texts, "</g>", "</svg>", ""])


def main(check):
    text = (ROOT / "docs/architecture.md").read_text()
    drawn = draw(read_uses(text), read_rooms(text))
    if not check:
        PICTURE.write_text(drawn)
    elif PICTURE.read_text() != drawn:
        print(f"{PICTURE.name} is not up to date; run tools/draw_rooms.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
