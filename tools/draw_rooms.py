"""Draws docs/pictures/rooms.svg: the folders of docs/architecture.md's table, each above those that it may use.

    python3 tools/draw_rooms.py [--check]

A line is left out if others lead to the same folder. Rows of sub-folders count as their folder. --check writes nothing,
and its exit status is 1 if the picture is not up to date.
"""
import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/pictures/rooms.svg"
ROW = re.compile(r"^\| `(?:qkv/)?(\w+)/[\w/]*` \|.*\| ([^|]+) \|$", re.MULTILINE)
# Column and words of each folder.
ROOMS = {
    "cli": (2.85, "the program"), "server": (2.85, "HTTP"), "explore": (2.85, "the explorer's calls"),
    "app": (3.3, "opens models, runs files"), "lab": (2.3, "rewrites and ablates models"),
    "mpi": (1, "several processes"), "train": (2, "training"), "inspect": (1, "maps, statistics of heads"),
    "builtin": (4, "data in the program"), "model": (2, "checkpoints, forward passes"), "nn": (1, "layers"),
    "report": (4, "tables, charts, pages"), "attention": (1, "the fused call"), "image": (2, "decoding, resizing"),
    "text": (3.2, "tokenizers, metrics"), "simd": (1, "kernels"), "algebra": (0, "matrices of heads"),
    "io": (2.9, "safetensors, PyTorch, JSON"), "core": (2, "tensors, threads, errors"),
}  # fmt: skip
WIDTH, HEIGHT, COLUMN, FLOOR, MARGIN = 186, 42, 204, 66, 10


def read_uses(text):
    """Folder to the folders that its row names."""
    uses = {}
    for folder, names in ROW.findall(text):
        uses.setdefault(folder, set()).update(name.split("/")[0] for name in re.findall(r"[\w/]+", names))
    for folder, names in uses.items():
        if "all" in names:  # the program loads mpi as a module
            uses[folder] = set(uses) - {folder, "mpi"}
    return {folder: {name for name in names if name in uses and name != folder} for folder, names in uses.items()}


def reached(folder, uses):
    return uses[folder].union(*(reached(name, uses) for name in uses[folder]))


def floors(uses):
    known = {}

    def floor(folder):
        if folder not in known:
            known[folder] = 1 + max((floor(name) for name in uses[folder]), default=-1)
        return known[folder]

    return {folder: floor(folder) for folder in uses}


def draw(uses):
    missing = set(uses) ^ set(ROOMS)
    if missing:
        sys.exit(f"tools/draw_rooms.py: ROOMS and the table differ in {', '.join(sorted(missing))}")
    level = floors(uses)
    top = max(level.values())
    width, height = 4 * COLUMN + WIDTH + 2 * MARGIN, top * FLOOR + HEIGHT + 2 * MARGIN
    corner = {room: (MARGIN + ROOMS[room][0] * COLUMN, MARGIN + (top - level[room]) * FLOOR) for room in uses}
    lines, boxes = [], []
    for room, (x, y) in corner.items():
        through = set().union(*(reached(name, uses) for name in uses[room]))
        for below in sorted(uses[room] - through):
            to_x, to_y = corner[below]
            lines.append(f'<line x1="{x + WIDTH / 2:g}" y1="{y + HEIGHT}" x2="{to_x + WIDTH / 2:g}" y2="{to_y}"/>')
        boxes.append(f'<rect x="{x:g}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
                     f'<text x="{x + WIDTH / 2:g}" y="{y + 17}" font-weight="bold">{room}</text>'
                     f'<text x="{x + WIDTH / 2:g}" y="{y + 33}" font-size="11">{html.escape(ROOMS[room][1])}</text>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="14">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        '<g stroke="#8a94a3" stroke-width="1.3">', *lines, "</g>",
        '<g stroke="#3b6ea8" fill="#eef4fb">', *(re.sub("<text.*", "", box) for box in boxes), "</g>",
        '<g fill="#1d2733" text-anchor="middle">', *(re.sub("<rect.*?/>", "", box) for box in boxes), "</g>",
        "</svg>", ""])


def main(check):
    drawn = draw(read_uses((ROOT / "docs/architecture.md").read_text()))
    if not check:
        PICTURE.write_text(drawn)
    elif PICTURE.read_text() != drawn:
        print(f"{PICTURE.name} is not up to date; run tools/draw_rooms.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
