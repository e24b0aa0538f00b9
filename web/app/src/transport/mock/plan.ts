// Costs of the orders of attention's products in the digit model, for the stand-in engine.
import { f32, type Packet } from "../../packet";
import { kEach, kHeads, kTokens, kWidth } from "./vit";

const numbers = (length: number, f: (i: number) => number) => Float32Array.from({ length }, (_, i) => f(i));

export function plan(queries: unknown): Packet {
  const D = kWidth,
    E = kEach,
    H = kHeads,
    N = kTokens,
    Q = queries === "all" ? N : (queries as number);
  const costs: [string, [string, number][]][] = [
    [
      "projected",
      [
        ["queries", Q * D * D],
        ["keys", N * D * D],
        ["values", N * D * D],
        ["attention", 2 * Q * N * D],
        ["outputs", Q * D * D],
      ],
    ],
    [
      "absorbed",
      [
        ["queries", Q * D * D],
        ["W_K", Q * D * D],
        ["attention", 2 * Q * N * D * H],
        ["W_V", Q * D * D],
        ["outputs", Q * D * D],
      ],
    ],
    [
      "merged",
      [
        ["queries", Q * D * D * H],
        ["attention", 2 * Q * N * D * H],
        ["outputs", Q * D * D * H],
      ],
    ],
  ];
  const rows = costs.map(([order, steps]) => {
    const all = steps.reduce((sum, [, cost]) => sum + cost, 0);
    return {
      order,
      multiply_adds: all,
      bytes: all / 8,
      beforehand: order === "merged" ? 2 * D * D * E * H : 0,
      steps: steps.map(([what, multiply_adds]) => ({ what, multiply_adds })),
    };
  });
  const tokens = 41,
    widths = 48,
    n = (r: number) => 2 ** (-5 + (10 * r) / (tokens - 1)),
    e = (c: number) => (1.5 * (c + 1)) / widths;
  const ratio = numbers(
    tokens * widths,
    (i) => (1 + n(Math.floor(i / widths))) / (2 * e(i % widths) + n(Math.floor(i / widths)) * e(i % widths)),
  );
  return {
    json: {
      rows,
      workload: { queries: Q, tokens: N, width: D, heads: H, head_width: E, depth: 4, linear: true },
      cheapest: { scores: "projected", outputs: Q < 9 ? "absorbed" : "projected" },
      merging_pays_above: (D + N) / (2 * D + N),
      head_share: E / D,
      absorbing_pays_below: (N * D * E) / (D * E + N * (D - E)),
    },
    arrays: {
      ratio: f32(ratio, [tokens, widths]),
      tokens_by_width: f32(numbers(tokens, n)),
      head_by_width: f32(numbers(widths, e)),
    },
  };
}
