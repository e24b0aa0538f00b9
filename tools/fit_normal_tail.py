"""Fits the pieces of qkv/simd/rows/normal_tail.h, and prints that file.

    python3 tools/fit_normal_tail.py > qkv/simd/rows/normal_tail.h

Each piece is the polynomial of least greatest error (Lawson's iteration); its coefficients are rounded
to float one by one from the lowest, and the rest fitted again. Needs numpy.
"""
import math

import numpy as np

END = 5.45  # half of 2^-24 is left of Φ(−END): what a float near 1 is rounded by
TABLES = {8: 7, 32: 5}  # pieces, and coefficients of each
ROUNDS, POINTS = 300, 400

HEAD = """\
// Φ(−u), the normal distribution's tail, for u >= 0 in pieces: what qkv/simd/math-inl.h looks up.
// Written by tools/fit_normal_tail.py.
#pragma once

namespace qkv::simd::internal {

/// The piece around u = n / kPerUnit is a polynomial of u · kPerUnit − n: its coefficients, from the lowest, are in
/// column n. The last piece is 0, for Φ is below half of 2^-24 there; it ends beyond kEnd.
template <int kPieces>
struct NormalTail;
"""

TABLE = """
template <>
struct NormalTail<{pieces}> {{
  static constexpr float kPerUnit = {per_unit}f, kEnd = {last} / kPerUnit;
  static constexpr int kPieces = {pieces}, kCoefficients = {coefficients};
  // clang-format off
  alignas(64) static constexpr float kTable[kCoefficients][kPieces] = {{
{rows}
  }};
  // clang-format on
}};
"""


def fit(points, values, powers):
    """Coefficients of `powers` with the least greatest error."""
    matrix = np.stack([points**power for power in powers], axis=1)
    weights = np.full(len(points), 1 / len(points))
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(matrix * root[:, None], values * root, rcond=None)[0]
        error = np.abs(matrix @ found - values)
        weights *= error + 1e-9 * error.max()
        weights /= weights.sum()
    return found


def piece(index, per_unit, count):
    low = -0.5 if index > 0 else 0.0
    angles = np.pi * (np.arange(POINTS) + 0.5) / POINTS
    points = (low + 0.5) / 2 + (0.5 - low) / 2 * np.cos(angles)
    rest = np.array([math.erfc((index + r) / per_unit / math.sqrt(2)) / 2 for r in points])
    rounded = []
    for power in range(count):
        rounded.append(np.float32(fit(points, rest, range(power, count))[0]))
        rest = rest - float(rounded[-1]) * points**power
    return rounded


def number(value):
    text = f"{value:.9g}"
    return (text if "." in text or "e" in text else text + ".0") + "f"


def table(pieces, coefficients):
    per_unit = np.float32((pieces - 1.5) / END)
    columns = [piece(n, float(per_unit), coefficients) for n in range(pieces - 1)] + [[np.float32(0)] * coefficients]
    rows = []
    for power in range(coefficients):
        numbers = [number(column[power]) for column in columns]
        lines = [", ".join(numbers[at : at + 8]) for at in range(0, pieces, 8)]
        rows.append("    {" + ",\n     ".join(lines) + "},")
    return TABLE.format(pieces=pieces, per_unit=f"{per_unit:.9g}", last=pieces - 1, coefficients=coefficients,
                        rows="\n".join(rows))


print(HEAD, end="")
for pieces, coefficients in TABLES.items():
    print(table(pieces, coefficients), end="")
print("\n}  // namespace qkv::simd::internal")
