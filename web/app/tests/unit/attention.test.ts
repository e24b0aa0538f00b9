import { describe, expect, it } from "vitest";
import { Attention } from "../../src/attention";
import { css, diverging, sequential } from "../../src/colour/maps";
import { percent } from "../../src/ui/controls";
import { stable } from "../../src/transport/recording";
import { changedWords, partsOf, ruleOf } from "../../src/views/translator";

// One block, two heads, two queries, three keys.
const bytes = Uint8Array.of(255, 0, 128, 0, 255, 255, 51, 102, 204, 255, 255, 255);
const scales = Float32Array.of(0.5, 0.25, 1, 0.1);
const attention = new Attention(bytes, scales, [1, 2, 2, 3], [4]);

describe("attention", () => {
  it("decodes weight = scale (byte / 255)²", () => {
    const row = attention.row(4, 0, 0);
    expect(row[0]).toBeCloseTo(0.5, 6);
    expect(row[1]).toBe(0);
    expect(row[2]).toBeCloseTo(0.5 * (128 / 255) ** 2, 6);
    expect(attention.row(4, 1, 0)[1]).toBeCloseTo(0.16, 6);
  });
  it("takes mean and maximum over heads", () => {
    expect(attention.row(4, "mean", 0)[0]).toBeCloseTo((0.5 + 0.04) / 2, 6);
    expect(attention.row(4, "max", 0)[2]).toBeCloseTo(0.64, 6);
  });
  it("is zero for blocks, heads and queries that are not there", () => {
    for (const row of [attention.row(0, 0, 0), attention.row(4, 7, 0), attention.row(4, 0, -1), attention.row(4, 0, 2)])
      expect([...row]).toEqual([0, 0, 0]);
  });
  it("measures drift and entropy", () => {
    expect(attention.drift(attention, 4, 0)).toBe(0);
    expect(Attention.entropy(Float32Array.of(0.5, 0.5, 0))).toBeCloseTo(1, 6);
  });
  it("has one query only, of which there is one row", () => {
    const one = new Attention(bytes.slice(0, 3), scales.slice(0, 1), [1, 1, 1, 3], undefined, 1, 2);
    expect(one.row(0, 0, 2)[0]).toBeCloseTo(0.5, 6);
    expect([...one.row(0, "mean", 0)]).toEqual([0, 0, 0]);
    const mean = new Attention(bytes.slice(0, 3), scales.slice(0, 1), [1, 1, 1, 3], undefined, 1, -1);
    expect(mean.row(0, "mean", -1)[0]).toBeCloseTo(0.5, 6);
  });
  it("refuses what does not fit", () => {
    expect(() => new Attention(bytes, scales, [1, 2, 2, 4])).toThrow(/fit/);
  });
});

describe("colour maps", () => {
  it("are the house's", () => {
    // qkv/image/colour_map: ends and middle.
    expect(css(diverging, 0.5)).toMatch(/rgb\(24\d 24\d 24\d\)/);
    const lightness = Array.from(
      { length: 256 },
      (_, i) =>
        0.2126 * sequential[3 * i] ** 2.2 +
        0.7152 * sequential[3 * i + 1] ** 2.2 +
        0.0722 * sequential[3 * i + 2] ** 2.2,
    );
    expect(lightness.every((value, i) => i === 0 || value >= lightness[i - 1] * 0.97)).toBe(true);
  });
});

describe("small things", () => {
  it("shows shares with two digits that count", () => {
    expect([0.5, 0.0994, 0.0003, 1.53e-5, 0, 1e-12].map(percent)).toEqual([
      "50.0 %",
      "9.94 %",
      "0.03 %",
      "0.0015 %",
      "0.00 %",
      "0.00 %",
    ]);
  });
  it("names equal requests alike", () => {
    expect(stable({ b: [1, { d: null, c: "x" }], a: 2, e: undefined })).toBe(
      stable({ a: 2, b: [1, { c: "x", d: null }] }),
    );
  });
  it("reads and writes rules of cross-attention", () => {
    for (const rule of ["", "hard", "uniform:0.1", "gaussian=0.5", "softmax=2:1.3"])
      expect(ruleOf(partsOf(rule))).toBe(rule);
  });
  it("finds changed words", () => {
    expect(changedWords(["a", "x", "c"], ["a", "b", "c"])).toEqual([false, true, false]);
    expect(changedWords([], ["a"])).toEqual([]);
  });
});
