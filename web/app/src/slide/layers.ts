// Maps of values as pictures in colours, which the viewer lays over the slide.
import { sequential } from "../colour/maps";
import type { Page, Kind } from "./facts";

const kMostSide = 2048; // pixels; a cell of a larger map has one

/** Values of cells, 0 … 1; NaN where no tile is. */
export interface Cells {
  columns: number;
  rows: number;
  values: Float32Array; // [rows, columns]
}

/** The bytes of a map's PNG as values. */
export async function readCells(page: Page, kind: Kind): Promise<Cells> {
  const image = new Image();
  image.src = `data:image/png;base64,${page.maps[kind]}`;
  await image.decode();
  const { naturalWidth: columns, naturalHeight: rows } = image,
    canvas = Object.assign(document.createElement("canvas"), { width: columns, height: rows }),
    context = canvas.getContext("2d", { willReadFrequently: true })!;
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, columns, rows);
  return { columns, rows, values: Float32Array.from({ length: columns * rows }, (_, i) => valueOf(data[4 * i])) };
}

export const valueOf = (byte: number) => (byte === 0 ? NaN : (byte - 1) / 254);

/** RGBA of the cells, each `scale` pixels a side; between their centres if `smooth`. */
export function paint(
  { columns, rows, values }: Cells,
  scale: number,
  smooth: boolean,
): Uint8ClampedArray<ArrayBuffer> {
  const width = columns * scale,
    bytes = new Uint8ClampedArray(4 * width * rows * scale);
  for (let y = 0; y < rows * scale; ++y) {
    for (let x = 0; x < width; ++x) {
      const column = Math.floor(x / scale),
        row = Math.floor(y / scale);
      let value = values[row * columns + column];
      if (Number.isNaN(value)) continue;
      if (smooth) value = between(columns, rows, values, (x + 0.5) / scale - 0.5, (y + 0.5) / scale - 0.5);
      const at = 4 * (y * width + x),
        colour = 3 * Math.round(255 * value);
      bytes[at] = sequential[colour];
      bytes[at + 1] = sequential[colour + 1];
      bytes[at + 2] = sequential[colour + 2];
      bytes[at + 3] = 255;
    }
  }
  return bytes;
}

// Bilinear over the cells that have a value.
function between(columns: number, rows: number, values: Float32Array, x: number, y: number): number {
  const left = Math.floor(x),
    top = Math.floor(y);
  let sum = 0,
    weights = 0;
  for (let row = top; row < top + 2; ++row) {
    for (let column = left; column < left + 2; ++column) {
      if (row < 0 || column < 0 || row >= rows || column >= columns) continue;
      const value = values[row * columns + column];
      if (Number.isNaN(value)) continue;
      const weight = (1 - Math.abs(x - column)) * (1 - Math.abs(y - row));
      sum += weight * value;
      weights += weight;
    }
  }
  return sum / weights;
}

/** The address of a map as PNG, for as long as the page is open. */
export async function layerUrl(page: Page, kind: Kind): Promise<string> {
  const cells = await readCells(page, kind),
    scale = Math.max(1, Math.min(16, Math.floor(kMostSide / Math.max(cells.columns, cells.rows)))),
    canvas = Object.assign(document.createElement("canvas"), {
      width: cells.columns * scale,
      height: cells.rows * scale,
    });
  canvas
    .getContext("2d")!
    .putImageData(new ImageData(paint(cells, scale, kind === "blurred"), canvas.width, canvas.height), 0, 0);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done));
  if (!blob) throw new Error("The browser has no memory for the map.");
  return URL.createObjectURL(blob);
}
