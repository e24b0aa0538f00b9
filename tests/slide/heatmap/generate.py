"""Writes heat_values.json: what numpy makes of scores of tiles (qkv/slide/heatmap/heat_grid.h).

    python3 tests/slide/heatmap/generate.py

Tiles are painted pixel by pixel, and cells are means over their pixels, as CLAM paints heatmaps.
"""
import json
from pathlib import Path

import numpy as np


def ranks(scores):
    """scipy.stats.rankdata(scores, "average") / n, which CLAM shows as percentiles."""
    less = (scores[:, None] > scores[None, :]).sum(1)
    equal = (scores[:, None] == scores[None, :]).sum(1)
    return (less + (equal + 1) / 2) / len(scores)


def grid(coords, side, cell, values):
    corner = coords.min(0)
    width, height = coords.max(0) + side - corner
    columns, rows = -(-width // cell), -(-height // cell)
    sums, counts = np.zeros((rows * cell, columns * cell)), np.zeros((rows * cell, columns * cell))
    for (x, y), value in zip(coords - corner, values):
        sums[y : y + side, x : x + side] += value
        counts[y : y + side, x : x + side] += 1
    pooled = [each.reshape(rows, cell, columns, cell).sum((1, 3)) for each in (sums, counts)]
    with np.errstate(invalid="ignore"):
        return np.where(pooled[1] < cell * cell / 2, np.nan, pooled[0] / pooled[1])


def blur(values, deviation):
    radius, there = int(np.ceil(3 * deviation)), ~np.isnan(values)
    out = np.full(values.shape, np.nan)
    for y, x in np.argwhere(there):
        rows, columns = np.meshgrid(*(np.arange(n) for n in values.shape), indexing="ij")
        near = there & (abs(rows - y) <= radius) & (abs(columns - x) <= radius)
        weights = np.exp(-0.5 * ((rows - y) ** 2 + (columns - x) ** 2) / deviation**2)[near]
        out[y, x] = (weights * values[near]).sum() / weights.sum()
    return out


def case(rng, coords, side, cell):
    scores = np.round(rng.normal(size=len(coords)), 1).astype(np.float32)  # with ties
    raw = (scores - scores.min()) / (scores.max() - scores.min())
    rank = ranks(scores)
    smooth = blur(grid(coords, side, cell, rank), side / cell)
    lists = lambda array: [None if np.isnan(x) else float(f"{x:.9g}") for x in np.ravel(array)]
    return {
        "coords": coords.tolist(), "side": side, "cell": cell, "scores": lists(scores), "raw": lists(raw),
        "ranked": lists(rank), "rows": smooth.shape[0], "columns": smooth.shape[1],
        "raw_grid": lists(grid(coords, side, cell, raw)), "ranked_grid": lists(grid(coords, side, cell, rank)),
        "blurred_grid": lists(smooth),
    }  # fmt: skip


def main():
    rng = np.random.default_rng(47)
    steps = np.argwhere(rng.random((9, 11)) < 0.7)[:, ::-1]
    cases = {
        "side by side": case(rng, steps * 16 + [160, 32], 16, 16),
        "overlapping": case(rng, steps * 8 + [5, -3], 16, 8),
        "on no common grid": case(rng, steps * 14 + rng.integers(0, 4, steps.shape), 16, 4),
        "one place": case(rng, np.array([[7, 9]] * 3), 16, 16),
    }
    Path(__file__).with_name("heat_values.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


main()
