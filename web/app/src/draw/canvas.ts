// Drawing on canvases: maps as coloured cells, pictures under them, frames around patches.
import { sequential } from "../colour/maps";

export interface Range {
  low: number;
  high: number;
}

export function rangeOf(values: ArrayLike<number>, from = 0, to = values.length): Range {
  let low = Infinity,
    high = -Infinity;
  for (let i = from; i < to; ++i) {
    if (values[i] < low) low = values[i];
    if (values[i] > high) high = values[i];
  }
  return low <= high ? { low, high } : { low: 0, high: 0 };
}

/** From 0 to the greatest of several maps, which are compared: one scale of colours for all. */
export const commonRange = (maps: ArrayLike<number>[], from: number): Range => ({
  low: 0,
  high: Math.max(...maps.map((map) => rangeOf(map, from).high)),
});

let scratch: HTMLCanvasElement | null = null;
function scratchOf(width: number, height: number): CanvasRenderingContext2D {
  scratch ??= document.createElement("canvas");
  if (scratch.width !== width) scratch.width = width;
  if (scratch.height !== height) scratch.height = height;
  return scratch.getContext("2d", { willReadFrequently: true })!;
}

/** Values [rows, columns] as colours of a map, on a canvas of that size that the next call uses again. */
export function mapCanvas(
  values: ArrayLike<number>,
  offset: number,
  rows: number,
  columns: number,
  { low, high }: Range,
  map = sequential,
): HTMLCanvasElement {
  const context = scratchOf(columns, rows),
    image = context.createImageData(columns, rows);
  const to = high > low ? 255 / (high - low) : 0;
  for (let i = 0; i < rows * columns; ++i) {
    const value = (values[offset + i] - low) * to;
    const c = 3 * (value > 0 ? Math.min(255, Math.round(value)) : 0);
    image.data[4 * i] = map[c];
    image.data[4 * i + 1] = map[c + 1];
    image.data[4 * i + 2] = map[c + 2];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return context.canvas;
}

/** Colours [rows, columns, 3] as a canvas that the next call uses again. */
export function rgbCanvas(colours: ArrayLike<number>, rows: number, columns: number, offset = 0): HTMLCanvasElement {
  const context = scratchOf(columns, rows),
    image = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; ++i) {
    for (let c = 0; c < 3; ++c) image.data[4 * i + c] = colours[offset + 3 * i + c];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return context.canvas;
}

/** Gives a canvas the pixels of its size on this screen; the context draws in CSS pixels. */
export function fit(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = Math.min(3, window.devicePixelRatio || 1);
  const w = Math.max(1, Math.round(width * ratio)),
    h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A frame that is seen on any ground: light in dark. */
export function frame(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  w: number,
  h: number,
  line: number,
  colour = "#fff",
): void {
  context.strokeStyle = "rgba(0, 0, 0, .75)";
  context.lineWidth = line + 2;
  context.strokeRect(x, y, w, h);
  context.strokeStyle = colour;
  context.lineWidth = line;
  context.strokeRect(x, y, w, h);
}

/** White ink on a clear ground, whether the picture is light on dark or dark on light: a digit that can lie over a map. */
export function inkOf(bitmap: ImageBitmap): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = bitmap.width;
  canvas.height = bitmap.height;
  const context = canvas.getContext("2d")!;
  context.drawImage(bitmap, 0, 0);
  const image = context.getImageData(0, 0, canvas.width, canvas.height);
  const light = (i: number) => 0.3 * image.data[i] + 0.59 * image.data[i + 1] + 0.11 * image.data[i + 2];
  let ground = 0; // mean of the upper and the lower edge
  for (let x = 0; x < canvas.width; ++x)
    ground += (light(4 * x) + light(image.data.length - 4 * (x + 1))) / 2 / canvas.width;
  const paper = ground > 127;
  for (let i = 0; i < image.data.length; i += 4) {
    image.data[i + 3] = Math.round(paper ? 255 - light(i) : light(i));
    image.data[i] = image.data[i + 1] = image.data[i + 2] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
