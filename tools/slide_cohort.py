#!/usr/bin/env python3
"""Makes a synthetic cohort of slides: tissue of one texture on white, and in half of the slides a lesion of another.

    python3 tools/slide_cohort.py OUT [--slides 40] [--size 4096] [--seed 0]

Writes OUT/slides/NAME.tiff (pyramids of JPEG tiles, 0.5 microns a pixel), OUT/lesions/NAME.geojson (where the lesion is, in
pixels of level 0, as QuPath reads it) and OUT/labels.csv (slide, label, patient; two slides a patient). Equal seeds give
equal pixels. Needs numpy, tifffile and imagecodecs.

Both textures have the same colours on average, so a classifier of colours does not see the difference: tissue is grain of
some 24 pixels, lesions of some 6, darker in as many places as lighter.
"""
import argparse
import csv
import json
import math
import sys
from pathlib import Path

import numpy
import tifffile

WHITE = numpy.array([243, 242, 245], numpy.float32)
PINK = numpy.array([205, 150, 190], numpy.float32)
STAIN = numpy.array([60, 70, 45], numpy.float32)  # how much a dark grain takes away
LEVELS = 4
MICRONS = 0.5


def smooth_noise(random, height, width, step):
    """Noise of unit variance that changes over `step` pixels: bilinear between a coarse grid's values."""
    rows, columns = height // step + 2, width // step + 2
    grid = random.standard_normal((rows, columns)).astype(numpy.float32)
    y, x = numpy.arange(height, dtype=numpy.float32) / step, numpy.arange(width, dtype=numpy.float32) / step
    top, left = y.astype(int), x.astype(int)
    y, x = (y - top)[:, None], (x - left)[None]
    upper = grid[top][:, left] * (1 - x) + grid[top][:, left + 1] * x
    lower = grid[top + 1][:, left] * (1 - x) + grid[top + 1][:, left + 1] * x
    return 1.5 * (upper * (1 - y) + lower * y)  # bilinear mixing takes a third of the deviation


def outline(random, centre, radius, points=64):
    """A star-shaped polygon around a centre, [points, 2] as x and y."""
    angles = numpy.arange(points) * 2 * math.pi / points
    waves = sum(random.uniform(0.03, 0.12) * numpy.sin(n * angles + random.uniform(0, 2 * math.pi)) for n in (2, 3, 5))
    distance = radius * (1 + waves)
    return numpy.stack([centre[0] + distance * numpy.cos(angles), centre[1] + distance * numpy.sin(angles)], 1)


def fill(polygon, size):
    """Mask of a star-shaped polygon's inside, by the distance of its outline at each pixel's angle."""
    centre = polygon.mean(0)
    y, x = numpy.mgrid[0:size, 0:size].astype(numpy.float32)
    x, y = x - centre[0], y - centre[1]
    offsets = polygon - centre
    angles = numpy.arctan2(offsets[:, 1], offsets[:, 0])
    order = numpy.argsort(angles)
    reach = numpy.interp(numpy.arctan2(y, x), angles[order], numpy.hypot(*offsets[order].T), period=2 * math.pi)
    return numpy.hypot(x, y) < reach


def paint(random, size, lesion):
    """Pixels [size, size, 3] and the lesion's outline, or None."""
    tissue = outline(random, (size * random.uniform(0.45, 0.55), size * random.uniform(0.45, 0.55)), 0.36 * size)
    mask = fill(tissue, size)
    grain = smooth_noise(random, size, size, 24)
    planted = None
    if lesion:
        angle, away = random.uniform(0, 2 * math.pi), random.uniform(0.05, 0.16) * size
        centre = tissue.mean(0) + away * numpy.array([math.cos(angle), math.sin(angle)])
        planted = outline(random, centre, random.uniform(0.07, 0.11) * size)
        inside = fill(planted, size) & mask
        grain[inside] = smooth_noise(random, size, size, 6)[inside]
    pixels = numpy.where(mask[..., None], PINK - STAIN * numpy.clip(grain, -1.5, 1.5)[..., None], WHITE)
    pixels += random.standard_normal((size, size, 1)).astype(numpy.float32) * 2
    return numpy.clip(pixels, 0, 255).astype(numpy.uint8), planted


def halve(pixels):
    height, width = pixels.shape[0] // 2 * 2, pixels.shape[1] // 2 * 2
    quarters = pixels[:height, :width].reshape(height // 2, 2, width // 2, 2, 3).astype(numpy.uint16)
    return ((quarters.sum((1, 3)) + 2) // 4).astype(numpy.uint8)


def write_slide(path, pixels):
    options = dict(tile=(256, 256), photometric="rgb", compression="jpeg", compressionargs={"level": 90},
                   resolutionunit="CENTIMETER")
    with tifffile.TiffWriter(path, bigtiff=True) as tiff:
        for level in range(LEVELS):
            per_centimetre = 1e4 / (MICRONS * 2**level)
            tiff.write(pixels, subfiletype=1 if level else 0, resolution=(per_centimetre, per_centimetre), **options)
            pixels = halve(pixels)


def geojson(outline_of_lesion):
    features = []
    if outline_of_lesion is not None:
        ring = [[round(float(x), 1), round(float(y), 1)] for x, y in outline_of_lesion]
        features.append({"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring + ring[:1]]},
                         "properties": {"objectType": "annotation", "classification": {"name": "Lesion"}}})
    return {"type": "FeatureCollection", "features": features}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--slides", type=int, default=40)
    parser.add_argument("--size", type=int, default=4096, help="pixels, of both sides")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.slides < 4 or not 512 <= options.size <= 32768:
        sys.exit("expected 4 slides at least, of 512 to 32768 pixels")
    for folder in "slides", "lesions":
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    with open(options.out / "labels.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["slide", "label", "patient"])
        for i in range(options.slides):
            patient = i // 2
            lesion = patient % 2 == 1
            name = f"s{i:03d}"
            # A stream for each slide: the first ones of a larger cohort are those of a smaller one.
            random = numpy.random.default_rng([options.seed, i])
            pixels, planted = paint(random, options.size, lesion)
            write_slide(options.out / "slides" / f"{name}.tiff", pixels)
            (options.out / "lesions" / f"{name}.geojson").write_text(json.dumps(geojson(planted)) + "\n")
            table.writerow([name, "lesion" if lesion else "normal", f"p{patient:03d}"])
            print(f"{name}: {'lesion' if lesion else 'normal'}", flush=True)


if __name__ == "__main__":
    main()
