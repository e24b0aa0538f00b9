import { describe, expect, it } from "vitest";
import { ranksOf, tileFinder } from "../../src/slide/facts";
import { paint, valueOf } from "../../src/slide/layers";
import { lengthText, roundLength, scaleBar } from "../../src/slide/scale";

describe("ranks", () => {
  it("are mean ranks of ties, as slide::ScaleScores", () => {
    expect([...ranksOf(Float32Array.of(3, 1, 3, 2))]).toEqual([0.875, 0.25, 0.875, 0.5]);
    expect([...ranksOf(Float32Array.of(7))]).toEqual([1]);
  });
});

describe("tiles at a point", () => {
  it("are those that cover it, also where they overlap", () => {
    const find = tileFinder(Int32Array.of(0, 0, 50, 0, -100, -100, 1000, 1000), 100);
    expect(find(10, 10)).toEqual([0]);
    expect(find(60, 10).sort()).toEqual([0, 1]);
    expect(find(149.5, 99.5)).toEqual([1]);
    expect(find(150, 10)).toEqual([]);
    expect(find(-0.5, -0.5)).toEqual([2]);
    expect(find(1050, 1050)).toEqual([3]);
  });
});

describe("maps", () => {
  it("are transparent where no tile is", () => {
    expect(valueOf(0)).toBeNaN();
    expect(valueOf(1)).toBe(0);
    expect(valueOf(255)).toBe(1);
    const bytes = paint({ columns: 2, rows: 1, values: Float32Array.of(NaN, 1) }, 2, false);
    expect([...bytes.slice(0, 8)]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
    expect(bytes[4 * 2 + 3]).toBe(255);
    expect([...bytes.slice(8, 12)]).toEqual([...bytes.slice(12, 16)]);
  });
  it("are smooth between cells, and ignore cells without a value", () => {
    const column = (i: number) =>
      [...paint({ columns: 2, rows: 1, values: Float32Array.of(0, 1) }, 4, true)].slice(4 * i, 4 * i + 3);
    expect(column(0)).not.toEqual(column(3));
    expect(column(3)).not.toEqual(column(4));
    const beside = paint({ columns: 2, rows: 1, values: Float32Array.of(NaN, 1) }, 4, true);
    expect([...beside.slice(16, 20)]).toEqual([...beside.slice(28, 32)]);
  });
});

describe("the scale", () => {
  it("is 1, 2 or 5 times a power of ten", () => {
    expect([0.9, 1, 3, 7, 1999].map(roundLength)).toEqual([0.5, 1, 2, 5, 1000]);
    expect(lengthText(200)).toBe("200 µm");
    expect(lengthText(5000)).toBe("5 mm");
    expect(scaleBar(4, 0.25, 160)).toEqual({ width: 100, text: "100 µm" });
    expect(scaleBar(4, null, 160)).toEqual({ width: 125, text: "500 pixels" });
  });
});
