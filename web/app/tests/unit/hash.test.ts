import { describe, expect, it } from "vitest";
import { empty, fromStrokes, fromText, stroke, toText } from "../../src/drawing";
import { fromHash, toHash } from "../../src/hash";
import { kDefaults, type State } from "../../src/state";

const drawing = fromStrokes([
  [
    [0.36, 0.2],
    [0.31, 0.53],
    [0.7, 0.5],
  ],
  [
    [0.64, 0.25],
    [0.6, 0.83],
  ],
]);

describe("drawing", () => {
  it("has ink along a stroke and none elsewhere", () => {
    const { pixels } = stroke(empty(), [5, 14], [23, 14]);
    expect(pixels[14 * 28 + 14]).toBeGreaterThan(200);
    expect(pixels[3 * 28 + 14]).toBe(0);
  });
  it("loses ink to the eraser", () => {
    const drawn = stroke(empty(), [5, 14], [23, 14]),
      erased = stroke(drawn, [5, 14], [23, 14], true);
    expect(Math.max(...erased.pixels)).toBeLessThan(130);
  });
  it("keeps 16 levels in a short text", () => {
    const text = toText(drawing),
      back = fromText(text)!;
    expect(text.length).toBeLessThan(300);
    expect(text).toMatch(/^[\w-]+$/);
    expect(Math.max(...back.pixels.map((value, i) => Math.abs(value - drawing.pixels[i])))).toBeLessThanOrEqual(9);
    expect(toText(back)).toBe(text);
  });
  it.each(["", "!", "HBw", "AAAA", "_____w", toText(drawing).slice(0, -4), `${toText(drawing)}AAAA`])(
    "refuses the text %j",
    (text) => {
      expect(fromText(text)).toBeNull();
    },
  );
});

describe("hash", () => {
  it("is empty for the defaults", () => {
    expect(toHash(kDefaults)).toBe("");
    expect(fromHash("")).toEqual(kDefaults);
  });
  it("brings a state back", () => {
    const state: State = {
      ...kDefaults,
      view: "knockout",
      model: "digits-shared",
      picture: { kind: "sample", id: "digit-4" },
      query: 12,
      held: true,
      block: 2,
      head: 3,
      t: -0.35,
      rank: 4,
      rankBy: "data",
      cutHeads: ["0.1", "3.2"],
      cutTokens: [5, 17],
      klass: 9,
      strength: 0.25,
      seed: 7,
      twins: ["a", "b"],
      step: 5,
      sigma: 1.4,
      temperature: 0.003,
      text: "A & B = “città”",
      rule: "gaussian=0.5:0.1",
      words: "a cat; a dog",
      theme: "dark",
      smooth: true,
    };
    expect(fromHash(toHash(state))).toEqual(state);
  });
  it("brings a drawing back", () => {
    const hash = toHash({ ...kDefaults, picture: { kind: "drawn", drawing } });
    expect(toHash(fromHash(hash))).toBe(hash);
  });
  it("leaves a file of the reader's own out", () => {
    expect(
      toHash({ ...kDefaults, picture: { kind: "file", name: "private.png", bytes: new Uint8Array(3), key: 1 } }),
    ).toBe("");
  });
  it("leaves what is malformed at its default", () => {
    expect(fromHash("#view=nothing").notice).toMatch(/no view “nothing”/);
    expect(fromHash("#q=x&t=NaN&head=-1&heads-out=a.b+1.2.3&draw=!!&theme=blue&rank=Infinity")).toEqual(kDefaults);
  });
  it("clamps numbers", () => {
    const { t, step, opacity, temperature } = fromHash("#t=-9&step=77&opacity=4&temperature=-1");
    expect([t, step, opacity, temperature]).toEqual([-1, 5, 1, 0.0001]);
  });
});
