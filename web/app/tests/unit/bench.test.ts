import { describe, expect, it } from "vitest";
import { fitting } from "../../src/bench";
import type { Model } from "../../src/model";
import { kDefaults, nothingDrawn } from "../../src/state";
import { empty, stroke } from "../../src/drawing";

const model = {
  prefix: ["class"],
  grid: [7, 7],
  blocks: 4,
  heads: 4,
  directions: 16,
  classifier: true,
  labels: ["0", "1"],
} as unknown as Model;

describe("a link made for another model", () => {
  it("loses the heads, tokens, rank and class that this one has not, in words", () => {
    const s = {
      ...kDefaults,
      cutHeads: ["3.3", "99.99"],
      cutTokens: [49, 50],
      rank: 9999,
      klass: 7,
    };
    const { state, left } = fitting(model, s);
    expect(state).toEqual({ ...s, cutHeads: ["3.3"], cutTokens: [49], rank: 0, klass: -1 });
    expect(left).toEqual(["head 99 of block 99", "token 50", "rank 9999 in heads of 16 directions", "class 7"]);
  });
  it("loses block, head, query and sample too when it is opened", () => {
    const s = { ...kDefaults, block: 4, head: 9, query: 50, picture: { kind: "sample" as const, id: "cat" } };
    const { state, left } = fitting(model, s, [{ id: "dog", title: "Dog" }]);
    expect(state).toEqual({ ...s, block: -1, head: "mean", query: -1, picture: null });
    expect(left).toEqual(["block 4", "head 9", "query 50", "sample cat"]);
    expect(fitting(model, { ...s, picture: null, query: 3, view: "steps", step: 5 }, []).left).toEqual([]);
    expect(fitting(model, s).left).toEqual([]);
  });
  it("stays as it is if all is there", () => {
    const s = { ...kDefaults, cutHeads: ["0.0"], cutTokens: [0], rank: 16, klass: 1 };
    expect(fitting(model, s)).toEqual({ state: s, left: [] });
  });
});

describe("the pad", () => {
  it("is blank until something is drawn", () => {
    const blank = empty(28, 28);
    expect(nothingDrawn({ ...kDefaults, pad: true })).toBe(true);
    expect(nothingDrawn({ ...kDefaults, pad: true, picture: { kind: "drawn", drawing: blank } })).toBe(true);
    const drawing = stroke(blank, [10, 10], [12, 12], false);
    expect(nothingDrawn({ ...kDefaults, pad: true, picture: { kind: "drawn", drawing } })).toBe(false);
    expect(nothingDrawn({ ...kDefaults, picture: { kind: "drawn", drawing: blank } })).toBe(true);
    expect(nothingDrawn(kDefaults)).toBe(false);
  });
});
