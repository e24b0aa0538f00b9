"""Draws the twenty digits of examples/digits: strokes of varying slant, width and place, as by hand.

    python3 tools/draw_digits.py FOLDER

Each of the ten digits twice, 0-white.png (white strokes on black, as the model was trained) and
0-black.png (black on white). Standard library only; the same files on every machine, from seeds.
"""
import math
import random
import struct
import sys
import zlib
from pathlib import Path

# The strokes of each digit, as people write them: points in a box of width 0…1 and height 0…1,
# y downwards, joined by a smooth curve. A point given twice in a row makes a corner.
STROKES = {
    0: [[(0.55, 0.02), (0.22, 0.12), (0.08, 0.48), (0.2, 0.87), (0.5, 0.98), (0.82, 0.82), (0.92, 0.45), (0.76, 0.1),
         (0.5, 0.03)]],
    1: [[(0.3, 0.2), (0.55, 0.02), (0.55, 0.02), (0.53, 0.5), (0.5, 0.98)]],
    2: [[(0.12, 0.25), (0.3, 0.05), (0.62, 0.03), (0.82, 0.22), (0.7, 0.5), (0.38, 0.78), (0.1, 0.96), (0.1, 0.96),
         (0.5, 0.95), (0.92, 0.93)]],
    3: [[(0.15, 0.12), (0.42, 0.02), (0.75, 0.1), (0.76, 0.33), (0.42, 0.47), (0.42, 0.47), (0.78, 0.55), (0.88, 0.77),
         (0.62, 0.97), (0.3, 0.97), (0.08, 0.86)]],
    4: [[(0.3, 0.04), (0.2, 0.3), (0.1, 0.56), (0.1, 0.56), (0.5, 0.57), (0.92, 0.53)],
        [(0.72, 0.08), (0.7, 0.5), (0.66, 0.98)]],
    5: [[(0.85, 0.05), (0.5, 0.05), (0.25, 0.07), (0.25, 0.07), (0.21, 0.27), (0.18, 0.46), (0.18, 0.46), (0.5, 0.38),
         (0.82, 0.52), (0.84, 0.78), (0.55, 0.97), (0.15, 0.9)]],
    6: [[(0.72, 0.03), (0.4, 0.22), (0.17, 0.55), (0.2, 0.85), (0.48, 0.98), (0.78, 0.84), (0.76, 0.6), (0.5, 0.5),
         (0.25, 0.66)]],
    7: [[(0.1, 0.08), (0.5, 0.06), (0.88, 0.05), (0.88, 0.05), (0.68, 0.38), (0.5, 0.7), (0.4, 0.98)]],
    8: [[(0.74, 0.16), (0.5, 0.03), (0.25, 0.15), (0.34, 0.38), (0.62, 0.54), (0.8, 0.76), (0.58, 0.97), (0.3, 0.94),
         (0.2, 0.74), (0.4, 0.53), (0.66, 0.36), (0.76, 0.17)]],
    9: [[(0.8, 0.24), (0.6, 0.04), (0.32, 0.08), (0.2, 0.32), (0.4, 0.5), (0.68, 0.42), (0.8, 0.2), (0.8, 0.2),
         (0.77, 0.55), (0.68, 0.98)]],
}


def curve(points, steps=14):
    """A Catmull-Rom spline through the points, cut at corners."""
    pieces, piece = [], [points[0]]
    for point in points[1:]:
        if point == piece[-1]:
            pieces.append(piece)
            piece = []
        piece.append(point)
    pieces.append(piece)
    line = []
    for piece in pieces:
        ends = [piece[0]] + piece + [piece[-1]]
        for a, b, c, d in zip(ends, ends[1:], ends[2:], ends[3:]):
            for step in range(steps):
                t = step / steps
                line.append(tuple(
                    b[i] + t * ((c[i] - a[i]) / 2 + t * (a[i] - 2.5 * b[i] + 2 * c[i] - d[i] / 2
                                                         + t * (1.5 * (b[i] - c[i]) + (d[i] - a[i]) / 2)))
                    for i in (0, 1)))
        line.append(piece[-1])
    return line


def draw_segment(ink, a, b, radius_a, radius_b):
    """Raises `ink` (rows of coverage, 0…1) to a thick segment with round ends; its edges are smooth."""
    size = len(ink)
    reach = max(radius_a, radius_b) + 1
    dx, dy = b[0] - a[0], b[1] - a[1]
    length2 = dx * dx + dy * dy or 1e-9
    for y in range(max(0, int(min(a[1], b[1]) - reach)), min(size, int(max(a[1], b[1]) + reach) + 2)):
        for x in range(max(0, int(min(a[0], b[0]) - reach)), min(size, int(max(a[0], b[0]) + reach) + 2)):
            px, py = x + 0.5 - a[0], y + 0.5 - a[1]
            t = min(1, max(0, (px * dx + py * dy) / length2))
            distance = math.hypot(px - t * dx, py - t * dy)
            coverage = radius_a + t * (radius_b - radius_a) - distance + 0.5
            if coverage > ink[y][x]:
                ink[y][x] = min(1.0, coverage)


def draw(digit, rng):
    """A square of ink coverage with one digit."""
    size = rng.choice((64, 72, 84, 96, 112, 120))
    height = size * rng.uniform(0.56, 0.72)
    width = height * rng.uniform(0.58, 0.9) * (0.8 if digit == 1 else 1)
    slant, turn = rng.uniform(-0.15, 0.42), rng.uniform(-0.14, 0.14)
    centre = [size * (0.5 + rng.uniform(-0.07, 0.07)) for _ in range(2)]
    radius = size * rng.uniform(0.028, 0.062)

    def place(point):
        x, y = (point[0] - 0.5) * width, (point[1] - 0.5) * height
        x -= slant * y
        return (centre[0] + x * math.cos(turn) - y * math.sin(turn), centre[1] + x * math.sin(turn) + y * math.cos(turn))

    ink = [[0.0] * size for _ in range(size)]
    for stroke in STROKES[digit]:
        moved = {}  # a corner's two points stay one
        hand = [moved.setdefault(p, (p[0] + rng.gauss(0, 0.026), p[1] + rng.gauss(0, 0.02))) for p in stroke]
        line = [place(point) for point in curve(hand)]
        # The pen presses harder here and there, and leaves the paper at the end.
        phase, wobble = rng.uniform(0, 6.28), rng.uniform(0.08, 0.2)
        radii = [radius * (1 + wobble * math.sin(phase + 5 * i / len(line))) * min(1, 0.7 + 0.1 * (len(line) - i))
                 for i in range(len(line))]
        for a, b, radius_a, radius_b in zip(line, line[1:], radii, radii[1:]):
            draw_segment(ink, a, b, radius_a, radius_b)
    return ink


def write_png(path, rows):
    """An eight-bit greyscale PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = b"".join(b"\0" + bytes(row) for row in rows)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 9))
                     + chunk(b"IEND", b""))


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for digit in range(10):
        for number, (name, paper, pen) in enumerate((("white", 0, 255), ("black", 255, 0))):
            rng = random.Random(100 * number + digit)
            ink = draw(digit, rng)
            rows = [[round(paper + (pen - paper) * x) for x in row] for row in ink]
            write_png(folder / f"{digit}-{name}.png", rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
