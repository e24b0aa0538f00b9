// What the page says of a model is made of the model's own facts.
import { describe, expect, it } from "vitest";
import { lackOf } from "../../src/app";
import { besideFormula, besideM } from "../../src/beside";
import { diverging, onGround, sequential } from "../../src/colour/maps";
import { commonRange } from "../../src/draw/canvas";
import type { Model } from "../../src/model";
import { cosine } from "../../src/vectors";
import { changeInWords } from "../../src/views/translator";

const plain = {
  title: "A model",
  kind: "image",
  attention: "separate",
  query_bias: false,
  qk_norm: false,
  positions: [],
  classifier: true,
  exact: ["symmetry", "rank", "gauge", "head", "token"],
} as unknown as Model;
const model = (facts: Partial<Model>): Model => ({ ...plain, ...facts });

describe("scores", () => {
  it("depend on one matrix alone only without biases, norms, rotations and positions of their own", () => {
    expect(besideM(plain)).toEqual([]);
    expect(besideM(model({ positions: ["added"] }))).toEqual([]);
    expect(besideM(model({ query_bias: true }))[0]).toMatch(/bias of the queries/);
    expect(besideM(model({ query_bias: true, qk_norm: true, positions: ["rotary", "relative"] }))).toHaveLength(4);
  });
  it("are described with what this model has beside the formula", () => {
    expect(besideFormula(plain)).toBe("");
    expect(besideFormula(model({ attention: "shared", positions: ["rotary"] }))).toBe(
      "In A model both matrices are one; positions rotate queries and keys",
    );
  });
});

describe("a view that has nothing to show", () => {
  it("says why in the menu", () => {
    expect(lackOf("relevance", plain)).toBe("");
    expect(lackOf("relevance", model({ classifier: false }))).toBe("no classifier");
    expect(lackOf("words", plain)).toBe("no text tower");
    expect(lackOf("words", model({ kind: "towers" }))).toBe("");
    expect(lackOf("relevance", model({ exact: [] }))).toBe("not of this model");
    expect(lackOf("rank", model({ exact: ["head", "token"] }))).not.toBe("");
    expect(lackOf("knockout", model({ exact: ["head", "token"] }))).toBe("");
    expect(lackOf("attention", model({ exact: [], classifier: false }))).toBe("");
  });
});

describe("another rule in the translator", () => {
  it("is judged by the words of this sentence", () => {
    expect(changeInWords("a b c", "a b c")).toBe("No word changed.");
    expect(changeInWords("a x c", "a b c")).toBe("1 of 3 words changed.");
    expect(changeInWords("a c", "a b c")).toBe("Words are missing.");
  });
});

describe("embeddings", () => {
  it("are compared by their cosine", () => {
    expect(cosine([1, 0], [2, 0])).toBeCloseTo(1);
    expect(cosine([1, 0], [0, 3])).toBe(0);
    expect(cosine([1, 1], [-1, -1])).toBeCloseTo(-1);
    expect(cosine([0, 0], [1, 1])).toBe(0);
  });
});

describe("maps that are compared", () => {
  it("have one scale, of the patches", () => {
    expect(commonRange([Float32Array.of(9, 0.2, 0.1), Float32Array.of(0, 0.5, 0.3)], 1)).toEqual({ low: 0, high: 0.5 });
  });
});

describe("coloured cells", () => {
  it("are dark in the middle of a dark page's diverging scale", () => {
    const dark = /light-dark\(rgb\((\d+) .*, rgb\((\d+) /.exec(onGround(diverging, 0.5).colour)!;
    expect(Number(dark[1])).toBeGreaterThan(200);
    expect(Number(dark[2])).toBeLessThan(60);
    expect(onGround(sequential, 0.5).colour).not.toMatch(/light-dark/);
  });
});
