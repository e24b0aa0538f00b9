import { describe, expect, it } from "vitest";
import type { Bench } from "../../src/bench";
import type { Model } from "../../src/model";
import { kDefaults } from "../../src/state";
import { twinsOf } from "../../src/views/twins";

const kModels = ["mine", "digits-shared", "digits", "digits"].map(
  (id) =>
    ({ id, shipped: id === "mine" ? "" : id, kind: "image", photo: false, input: [1, 28, 28] }) as unknown as Model,
);
const shown = (id: string, twins: string[] = []) => {
  const bench = {
    catalogue: { models: kModels, samples: [] },
    model: kModels.find((each) => each.id === id)!,
    s: { ...kDefaults, twins },
  };
  return twinsOf(bench as unknown as Bench).map((each) => each.id);
};

describe("models beside each other", () => {
  it("are at first those trained alike, of which each is there once", () => {
    expect(shown("digits")).toEqual(["digits", "digits-shared"]);
    expect(shown("digits-shared")).toEqual(["digits", "digits-shared"]);
  });
  it("are at first one alone, if no twin of it is known", () => expect(shown("mine")).toEqual(["mine"]));
  it("are those chosen, each once", () => {
    expect(shown("digits", ["mine", "digits", "mine", "gone"])).toEqual(["mine", "digits"]);
  });
});
