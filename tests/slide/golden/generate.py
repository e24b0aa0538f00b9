"""Makes the goldens of qkv/slide/tissue by others' libraries: numpy, shapely, OpenCV and Pillow.

    python tests/slide/golden/generate.py        writes tests/slide/golden/tissue/*.json and packs them

The grid is TRIDENT's arithmetic, written anew: which level, which size, which tiles, row by row. Areas are shapely's, of
the mask as it is; TRIDENT simplifies it first, within a quarter of a tile.
"""
import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from shapely import MultiPolygon, Polygon, box, prepare, union_all
from shapely.affinity import scale, translate

ROOT = Path(__file__).resolve().parents[3]
OUT = Path(__file__).resolve().parent / "tissue"
NOMINAL = ((0.16, 80), (0.2, 60), (0.3, 40), (0.6, 20), (1.2, 10), (2.4, 5))  # mpp below: magnification


def magnification(mpp):
    return next(mag for below, mag in NOMINAL if mpp < below)


def best_level(downsamples, wanted, tolerance=0.1):
    for level, downsample in enumerate(downsamples):
        if abs(downsample - wanted) <= tolerance:
            return level
    return max(level for level, downsample in enumerate(downsamples) if downsample <= wanted)


def starts(length, size, overlap):
    found, index = [], 0
    while (at := index * size - overlap * max(index - 1, 0)) < length:
        found.append(at)
        index += 1
    return found


def plan(slide, polygons, options):
    mpp, tile = slide.get("mpp"), options["tile"]
    mag = magnification(mpp) if mpp else slide["magnification"]
    if "mpp" in options:
        downsample = options["mpp"] / (mpp or 10 / mag)
    else:
        downsample = (10 / options.get("magnification", 20)) / (10 / mag)
    size, overlap = round(tile * downsample), round(options["overlap"] * downsample)
    downsamples = [level[2] for level in slide["levels"]]
    level = best_level(downsamples, downsample)
    width, height = slide["levels"][0][:2]
    mask = union_all(polygons)
    prepare(mask)
    coords = []
    for y in starts(height, size, overlap):
        for x in starts(width, size, overlap):
            square = box(x, y, x + size, y + size)
            if options["min_tissue"] == 0:
                keep = mask.intersects(square)
            else:
                share = mask.intersection(square).area / square.area
                keep = share >= options["min_tissue"]
            if keep:
                coords.append([x, y])
    return {"level": level, "size_at_level0": size, "overlap_at_level0": overlap,
            "size_at_level": round(size / downsamples[level]), "level0_magnification": mag, "coords": np.ravel(coords).tolist()}


def star(rng, centre, radius, points):
    angles = np.sort(rng.uniform(0, 2 * np.pi, points))
    lengths = radius * rng.uniform(0.5, 1, points)
    return np.stack([centre[0] + lengths * np.cos(angles), centre[1] + lengths * np.sin(angles)], 1)


def areas(rng, width, height, whole_numbers):
    found = []
    for _ in range(rng.integers(1, 4)):
        centre = rng.uniform(0.2, 0.8, 2) * (width, height)
        radius = rng.uniform(0.2, 0.7) * min(width, height)
        outer = np.round(star(rng, centre, radius, int(rng.integers(5, 25))), 2)
        holes = [translate(scale(Polygon(outer), 0.3, 0.3), *(rng.uniform(-0.1, 0.1, 2) * radius)).exterior.coords[:-1]]
        outer, holes = (np.round(outer), [np.round(holes[0])]) if whole_numbers else (outer, holes)
        polygon = Polygon(outer, holes)
        if not polygon.is_valid:
            polygon = Polygon(outer)
        if polygon.is_valid:
            found.append(polygon)
    if rng.uniform() < 0.3:  # areas that end with tiles, so that shares are exact
        found.append(box(0, 0, 512, 384))
    return found


def rings(polygon):
    return [[list(point) for point in ring.coords[:-1]] for ring in (polygon.exterior, *polygon.interiors)]


def grids():
    rng = np.random.default_rng(47)
    cases = []
    for index in range(40):
        downsamples = [(1, 4, 16), (1, 2, 4, 8), (1, 3.99975, 15.9981), (1,), (1, 4.0003, 32.005)][index % 5]
        slide = {}
        if index % 4 == 3:
            slide["magnification"] = [20, 40, 60][index % 3]
        else:
            slide["mpp"] = float(rng.choice([0.11, 0.17, 0.2202, 0.2527, 0.25, 0.4991, 0.5021]))
        native = slide.get("mpp") or 10 / slide["magnification"]
        options = {"tile": int(rng.choice([224, 256, 300, 512])), "overlap": int(rng.choice([0, 0, 17, 64])),
                   "min_tissue": float(rng.choice([0, 0.1, 0.5, 0.75, 1]))}
        if index % 2:
            options["mpp"] = float(rng.choice([m for m in (0.5, 0.88, 1, 2.0, 3.7) if m >= 0.95 * native]))
        elif index % 3:
            options["magnification"] = float(rng.choice([5, 10, 20]))
        wanted = options.get("mpp") or 10 / options.get("magnification", 20)
        width, height = (int(side) for side in rng.uniform(5, 14, 2) * options["tile"] * wanted / native)
        slide["levels"] = [[int(width / d), int(height / d), d] for d in downsamples]
        polygons = areas(rng, width, height, index % 3 == 0)
        cases.append({"slide": slide, "options": options, "polygons": [rings(p) for p in polygons],
                      "expected": plan(slide, polygons, options)})
    return cases


def masks():
    """Grey pictures, and what OpenCV makes of them."""
    rng = np.random.default_rng(48)
    cases = []
    for width, height in ((41, 37), (24, 44), (9, 30)):
        grey = cv2.GaussianBlur(rng.integers(0, 256, (height, width)).astype(np.uint8), (0, 0), 2.5)
        grey = cv2.normalize(grey, None, 0, 255, cv2.NORM_MINMAX)
        threshold, binary = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
        closed = cv2.morphologyEx(binary, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
        count, labels, stats, _ = cv2.connectedComponentsWithStats(binary, connectivity=4)
        large = np.isin(labels, [i for i in range(1, count) if stats[i, cv2.CC_STAT_AREA] >= 20])
        cases.append({"width": width, "height": height, "grey": grey.tobytes().hex(), "otsu": int(threshold),
                      "median": cv2.medianBlur(grey, 7).tobytes().hex(), "binary": binary.tobytes().hex(),
                      "closed": closed.tobytes().hex(), "large": large.tobytes().hex()})
    return cases


def tiles():
    """Tiles of a picture, resized by Pillow."""
    y, x, c = np.mgrid[0:90, 0:120, 0:3]
    picture = ((x * x + 7 * y + 31 * c * x) % 256).astype(np.uint8)
    cases = []
    for left, top, size, tile in ((0, 0, 24, 16), (60, 30, 37, 16), (100, 70, 16, 16), (96, 72, 40, 16)):
        square = np.full((size, size, 3), 255, np.uint8)  # white beyond the border
        part = picture[top:top + size, left:left + size]
        square[:part.shape[0], :part.shape[1]] = part
        image = Image.fromarray(square)
        if size != tile:
            image = image.resize((tile, tile))
        cases.append({"left": left, "top": top, "size": size, "tile": tile, 
                      "pixels": image.tobytes().hex()})
    return cases


def main():
    OUT.mkdir(exist_ok=True)
    for name, cases in (("grid", grids()), ("mask", masks()), ("tile", tiles())):
        (OUT / f"{name}.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
    subprocess.run([sys.executable, ROOT / "tests/golden/pack.py", "pack"], check=True)


if __name__ == "__main__":
    main()
