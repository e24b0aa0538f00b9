// A drawn digit: a small grey picture, a soft brush, and a compact text of it for the page's address.
import { fromBase64Url, toBase64Url } from "./base64";

export interface Drawing {
  height: number;
  width: number;
  pixels: Uint8Array; // [height, width], 0 is the ground
}

/** Sides beyond this are refused when a text is read. */
const kMaxSide = 128;
const kLevels = 15;

export const empty = (height = 28, width = 28): Drawing => ({ height, width, pixels: new Uint8Array(height * width) });
export const isEmpty = (drawing: Drawing) => drawing.pixels.every((value) => value === 0);

/** The drawing with a stroke from (x0, y0) to (x1, y1), in pixels, of a soft round brush; `erase` takes ink away. */
export function stroke(
  drawing: Drawing,
  from: [number, number],
  to: [number, number],
  erase = false,
  radius?: number,
): Drawing {
  const { height, width } = drawing;
  const reach = radius ?? 0.042 * Math.min(height, width);
  const pixels = drawing.pixels.slice();
  const [x0, y0] = from,
    [x1, y1] = to;
  const dx = x1 - x0,
    dy = y1 - y0,
    length = dx * dx + dy * dy;
  for (
    let y = Math.max(0, Math.floor(Math.min(y0, y1) - reach - 2));
    y <= Math.min(height - 1, Math.max(y0, y1) + reach + 2);
    ++y
  ) {
    for (
      let x = Math.max(0, Math.floor(Math.min(x0, x1) - reach - 2));
      x <= Math.min(width - 1, Math.max(x0, x1) + reach + 2);
      ++x
    ) {
      const px = x + 0.5 - x0,
        py = y + 0.5 - y0;
      const t = length > 0 ? Math.min(1, Math.max(0, (px * dx + py * dy) / length)) : 0;
      const distance = Math.hypot(px - t * dx, py - t * dy);
      const ink = Math.min(1, Math.max(0, (reach + 0.75 - distance) / 1.1));
      const i = y * width + x;
      pixels[i] = erase ? Math.min(pixels[i], 255 * (1 - Math.min(1, 1.6 * ink))) : Math.max(pixels[i], 255 * ink);
    }
  }
  return { height, width, pixels };
}

/** A drawing from strokes, each a list of points in 0 … 1. */
export function fromStrokes(strokes: [number, number][][], side = 28): Drawing {
  let drawing = empty(side, side);
  for (const line of strokes) {
    for (let i = 1; i < line.length; ++i) {
      const at = (point: [number, number]): [number, number] => [point[0] * side, point[1] * side];
      drawing = stroke(drawing, at(line[i - 1]), at(line[i]));
    }
  }
  return drawing;
}

/** A short URL-safe text: sides, then runs of 16 levels, a byte each: the high half is the length − 1, the low the level. */
export function toText({ height, width, pixels }: Drawing): string {
  const bytes = [height, width];
  const level = (value: number) => Math.round((value / 255) * kLevels);
  // Runs of the ground take a second byte: 0x80 … 0xff in the first means level 0 and up to 128 pixels.
  for (let i = 0; i < pixels.length;) {
    const value = level(pixels[i]);
    const longest = value === 0 ? 128 : 8;
    let run = 1;
    while (run < longest && i + run < pixels.length && level(pixels[i + run]) === value) ++run;
    bytes.push(value === 0 ? 0x80 | (run - 1) : ((run - 1) << 4) | value);
    i += run;
  }
  return toBase64Url(Uint8Array.from(bytes));
}

/** The drawing of such a text, or null if it is malformed. */
export function fromText(text: string): Drawing | null {
  let bytes: Uint8Array;
  try {
    bytes = fromBase64Url(text);
  } catch {
    return null;
  }
  const [height, width] = bytes;
  if (!(height > 0 && width > 0 && height <= kMaxSide && width <= kMaxSide)) return null;
  const drawing = empty(height, width);
  let at = 0;
  for (const byte of bytes.subarray(2)) {
    const ground = byte >= 0x80;
    const run = ground ? (byte & 0x7f) + 1 : (byte >> 4) + 1;
    if (at + run > drawing.pixels.length) return null;
    drawing.pixels.fill(ground ? 0 : Math.round(((byte & 15) / kLevels) * 255), at, at + run);
    at += run;
  }
  return at === drawing.pixels.length ? drawing : null;
}
