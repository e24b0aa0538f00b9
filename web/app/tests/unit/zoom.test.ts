import { expect, it } from "vitest";
import { kWhole, magnified, moved, showing } from "../../src/ui/zoom";

it("keeps what lies under the pointer, and stays inside the picture", () => {
  const part = magnified(kWhole, 4, 0.25, 0.75, 8);
  expect(part.x + 0.25 / part.z).toBeCloseTo(0.25, 9);
  expect(part.y + 0.75 / part.z).toBeCloseTo(0.75, 9);
  expect(magnified(part, 100, 0, 0, 8).z).toBe(8);
  expect(magnified(part, 1e-3, 0, 0, 8)).toEqual(kWhole);
  expect(moved(part, 9, -9)).toEqual({ z: 4, x: 0, y: 0.75 });
});
it("moves to what is pointed at only if that is not seen", () => {
  const part = { z: 4, x: 0, y: 0 };
  expect(showing(part, 0.2, 0.2)).toBe(part);
  expect(showing(part, 0.5, 0.9)).toEqual({ z: 4, x: 0.375, y: 0.75 });
});
