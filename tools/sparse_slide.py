#!/usr/bin/env python3
"""Writes a slide of 100,000 x 100,000 pixels that takes a few megabytes: a tiled BigTIFF pyramid whose tiles share bytes.

    python3 tools/sparse_slide.py slide.tiff [--side 100000] [--mpp 0.5] [--seed 0]

For tests of memory and speed: every tile is decoded like a real one, but the file holds a few dozen different JPEG tiles,
each used many times. They show glass, or tissue with nuclei and some noise; the tissue lies in a few large areas, so that
it is found. Coarser levels have tiles of the same kinds, and at the borders of the areas, where they are looked at as a
whole, some of their own; they are not reductions of the finer ones.
Plain Python: the JPEG encoder is below (baseline, 4:2:0 as scanners write, ISO/IEC 10918-1 annex K).
"""
import argparse
import math
import random
import struct

TILE, STEP = 256, 4
OWN_TILES = 8192  # side of levels that have tiles of their own
ZIGZAG = sorted(range(64), key=lambda i: (i // 8 + i % 8, (i // 8 if (i // 8 + i % 8) % 2 else i % 8)))
LUMA = [16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51,
        87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101,
        72, 92, 95, 98, 112, 100, 103, 99]
QUALITY = 0.4  # of the quantisation table: about quality 80
QUANTS = [max(1, round(q * QUALITY)) for q in LUMA]
DC_BITS, DC_VALUES = bytes([0, 1, 5, 1, 1, 1, 1, 1, 1] + [0] * 7), bytes(range(12))
# One code of 8 bits for each symbol but the last ones: not the shortest, but simple, and the same for all.
AC_VALUES = bytes([0, 0xF0] + [run << 4 | size for size in range(1, 11) for run in range(16)])
AC_BITS = bytes([0] * 7 + [len(AC_VALUES)] + [0] * 8)
COSINES = [[(math.sqrt(0.125) if u == 0 else 0.5) * math.cos((2 * x + 1) * u * math.pi / 16) for x in range(8)]
           for u in range(8)]


def codes(bits, values):
    """Symbol to (code, length)."""
    table, code, i = {}, 0, 0
    for length, count in enumerate(bits, 1):
        for _ in range(count):
            table[values[i]] = (code, length)
            code, i = code + 1, i + 1
        code <<= 1
    return table


DC_CODES, AC_CODES = codes(DC_BITS, DC_VALUES), codes(AC_BITS, AC_VALUES)


class BitWriter:
    def __init__(self):
        self.bytes, self.word, self.count = bytearray(), 0, 0

    def put(self, value, length):
        self.word, self.count = self.word << length | value, self.count + length
        while self.count >= 8:
            self.count -= 8
            byte = self.word >> self.count & 255
            self.bytes.append(byte)
            if byte == 255:
                self.bytes.append(0)
        self.word &= (1 << self.count) - 1

    def number(self, value, table, run=None):
        size = abs(value).bit_length()
        self.put(*table[size if run is None else run << 4 | size])
        if size:
            self.put(value if value > 0 else value + (1 << size) - 1, size)


def write_block(block, before, out):
    """block: 8 rows of 8 samples around 0. Returns its DC."""
    rows = [[sum(c[x] * row[x] for x in range(8)) for c in COSINES] for row in block]
    flat = [sum(c[y] * rows[y][u] for y in range(8)) for c in COSINES for u in range(8)]
    levels = [round(flat[i] / QUANTS[i]) for i in ZIGZAG]
    out.number(levels[0] - before, DC_CODES)
    run = 0
    for value in levels[1:]:
        if value == 0:
            run += 1
            continue
        while run > 15:
            out.put(*AC_CODES[0xF0])
            run -= 16
        out.number(value, AC_CODES, run)
        run = 0
    if run:
        out.put(*AC_CODES[0])
    return levels[0]


def marker(code, payload):
    return struct.pack(">BBH", 255, code, len(payload) + 2) + payload


def encode_jpeg(pixels):
    """A tile of TILE rows of (r, g, b)."""
    planes = [[], [], []]
    for row in pixels:
        planes[0].append([0.299 * r + 0.587 * g + 0.114 * b - 128 for r, g, b in row])
        planes[1].append([-0.1687 * r - 0.3313 * g + 0.5 * b for r, g, b in row])
        planes[2].append([0.5 * r - 0.4187 * g - 0.0813 * b for r, g, b in row])
    for p in (1, 2):  # halved
        planes[p] = [[(a[x] + a[x + 1] + b[x] + b[x + 1]) / 4 for x in range(0, TILE, 2)]
                     for a, b in zip(planes[p][::2], planes[p][1::2])]
    out, last = BitWriter(), [0, 0, 0]
    for y in range(0, TILE, 16):
        for x in range(0, TILE, 16):
            places = [(0, y, x), (0, y, x + 8), (0, y + 8, x), (0, y + 8, x + 8), (1, y // 2, x // 2), (2, y // 2, x // 2)]
            for p, top, left in places:
                last[p] = write_block([row[left:left + 8] for row in planes[p][top:top + 8]], last[p], out)
    out.put(127, 7)  # fills the last byte
    frame = struct.pack(">BHHB", 8, TILE, TILE, 3) + bytes([1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0])
    return (b"\xff\xd8" + marker(0xDB, bytes([0] + [QUANTS[i] for i in ZIGZAG])) + marker(0xC0, frame) +
            marker(0xC4, b"\x00" + DC_BITS + DC_VALUES) + marker(0xC4, b"\x10" + AC_BITS + AC_VALUES) +
            marker(0xDA, bytes([3, 1, 0, 2, 0, 3, 0, 0, 63, 0])) + bytes(out.bytes) + b"\xff\xd9")


def draw_tile(rng, is_tissue):
    """is_tissue(x, y): tissue, with some nuclei in the tile; else glass."""
    waves = [(rng.uniform(-0.2, 0.2), rng.uniform(-0.2, 0.2), rng.uniform(0, 6)) for _ in range(4)]
    nuclei = [(rng.uniform(0, TILE), rng.uniform(0, TILE), rng.uniform(3, 8)) for _ in range(60)]
    nuclei = [(x, y, radius) for x, y, radius in nuclei if is_tissue(x, y)]
    rows = []
    for y in range(TILE):
        row = []
        for x in range(TILE):
            tissue = is_tissue(x, y)
            shade = sum(math.sin(a * x + b * y + c) for a, b, c in waves) * (7 if tissue else 0.5)
            shade += rng.gauss(0, 3 if tissue else 1)
            row.append([min(255, max(0, v + shade)) for v in ((206, 140, 186) if tissue else (243, 242, 244))])
        rows.append(row)
    for cx, cy, radius in nuclei:
        for y in range(max(0, int(cy - radius)), min(TILE, int(cy + radius) + 1)):
            for x in range(max(0, int(cx - radius)), min(TILE, int(cx + radius) + 1)):
                if (x - cx) ** 2 + (y - cy) ** 2 <= radius * radius:
                    rows[y][x] = [v * 0.5 + w for v, w in zip(rows[y][x], (20, 5, 50))]
    return rows


def areas(rng):
    """Ellipses in parts of the side: centre and radii."""
    return [(rng.uniform(0.2, 0.8), rng.uniform(0.2, 0.8), rng.uniform(0.06, 0.16), rng.uniform(0.06, 0.16)) for _ in range(4)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--side", type=int, default=100000, help="pixels")
    parser.add_argument("--mpp", type=float, default=0.5, help="microns a pixel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", type=int, default=12, help="different tiles of tissue")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    tiles = [encode_jpeg(draw_tile(rng, lambda x, y, kind=kind: kind > 2)) for kind in range(3 + options.kinds)]
    where = areas(rng)
    with open(options.path, "wb") as file:
        file.write(struct.pack("<2sHHHQ", b"II", 43, 8, 0, 0))
        places = []
        for tile in tiles:
            places.append((file.tell(), len(tile)))
            file.write(tile)
        link, side, first = 8, options.side, True
        while first or side > 2 * TILE:
            link = write_level(file, link, side, first, places, where, rng, options)
            side, first = side // STEP, False


def write_level(file, link, side, first, places, where, rng, options):
    """Returns where the link to the next directory is."""
    across = -(-side // TILE)

    def put(data):
        file.seek(0, 2)
        file.write(bytes(-file.tell() % 8))
        at = file.tell()
        file.write(data)
        return at

    def is_tissue(x, y):
        return any(((x / side - cx) / rx) ** 2 + ((y / side - cy) / ry) ** 2 < 1 for cx, cy, rx, ry in where)

    chosen = []
    for top in range(0, across * TILE, TILE):
        for left in range(0, across * TILE, TILE):
            corners = {is_tissue(left + x, top + y) for x in (0, TILE // 2, TILE) for y in (0, TILE // 2, TILE)}
            if len(corners) == 2 and side <= OWN_TILES:
                tile = encode_jpeg(draw_tile(rng, lambda x, y: is_tissue(left + x, top + y)))
                chosen.append((put(tile), len(tile)))
            else:
                centre = is_tissue(left + TILE / 2, top + TILE / 2)
                chosen.append(places[rng.randrange(3, len(places)) if centre else rng.randrange(3)])

    offsets = put(struct.pack(f"<{len(chosen)}Q", *(place for place, _ in chosen)))
    counts = put(struct.pack(f"<{len(chosen)}I", *(length for _, length in chosen)))
    pixels_per_cm = struct.pack("<II", round(10000 / options.mpp * side / options.side * 100), 100)
    tags = [(254, 4, 1, 0 if first else 1), (256, 4, 1, side), (257, 4, 1, side),
            (258, 3, 3, struct.pack("<HHH", 8, 8, 8)), (259, 3, 1, 7), (262, 3, 1, 6), (277, 3, 1, 3),
            (282, 5, 1, pixels_per_cm), (283, 5, 1, pixels_per_cm), (284, 3, 1, 1), (296, 3, 1, 3), (322, 4, 1, TILE),
            (323, 4, 1, TILE), (324, 16, len(chosen), offsets), (325, 4, len(chosen), counts),
            (530, 3, 2, struct.pack("<HH", 2, 2))]
    entries = b""
    for tag, kind, count, value in tags:
        # A single count fits into its entry.
        if tag in (324, 325) and len(chosen) == 1:
            value = chosen[0][tag - 324]
        raw = value if isinstance(value, bytes) else struct.pack("<Q", value)
        entries += struct.pack("<HHQ", tag, kind, count) + raw.ljust(8, b"\0")
    at = put(struct.pack("<Q", len(tags)) + entries + bytes(8))
    file.seek(link)
    file.write(struct.pack("<Q", at))
    return at + 8 + len(entries)


if __name__ == "__main__":
    main()
