// The part of a picture that is seen, and the pointer's and the keys' ways to change it.
import { useState } from "preact/hooks";

export interface Part {
  z: number; // magnification, from 1
  x: number; // the left and the upper edge, as shares of the picture
  y: number;
}

export const kWhole: Part = { z: 1, x: 0, y: 0 };
export const kZoomStep = 1.5;

const inside = (at: number, z: number) => Math.min(1 - 1 / z, Math.max(0, at));

/** Magnifies by `factor`, at most to `most`; what lies at (u, v), shares of what is seen, stays there. */
export function magnified({ z, x, y }: Part, factor: number, u: number, v: number, most: number): Part {
  const to = Math.min(most, Math.max(1, z * factor));
  return { z: to, x: inside(x + u / z - u / to, to), y: inside(y + v / z - v / to, to) };
}

/** Moved by shares of what is seen. */
export const moved = ({ z, x, y }: Part, du: number, dv: number): Part => ({
  z,
  x: inside(x - du / z, z),
  y: inside(y - dv / z, z),
});

/** The same if (x, y), shares of the picture, are seen; otherwise moved so that they are in the middle. */
export function showing(part: Part, x: number, y: number): Part {
  const side = 1 / part.z;
  const seen = x >= part.x && x <= part.x + side && y >= part.y && y <= part.y + side;
  return seen ? part : { z: part.z, x: inside(x - side / 2, part.z), y: inside(y - side / 2, part.z) };
}

export function useZoom(most: number) {
  const [part, setPart] = useState(kWhole);
  return {
    part,
    by: (factor: number, u = 0.5, v = 0.5) => setPart((from) => magnified(from, factor, u, v, most)),
    move: (du: number, dv: number) => setPart((from) => moved(from, du, dv)),
    show: (x: number, y: number) => setPart((from) => showing(from, x, y)),
    reset: () => setPart(kWhole),
  };
}
