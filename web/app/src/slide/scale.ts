// Lengths on the slide in words.

/** The longest of 1, 2 and 5 times a power of ten that is at most `most`. */
export function roundLength(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  return most >= 5 * power ? 5 * power : most >= 2 * power ? 2 * power : power;
}

/** Micrometres, or millimetres from a thousand of them. */
export const lengthText = (microns: number) =>
  microns >= 1000 ? `${+(microns / 1000).toPrecision(3)} mm` : `${+microns.toPrecision(3)} µm`;

/** The bar of at most `pixels` screen pixels: its width and its words. Without a scale of the slide it is in pixels. */
export function scaleBar(pixel: number, mpp: number | null, pixels: number): { width: number; text: string } {
  const unit = pixel * (mpp ?? 1),
    length = roundLength(unit * pixels);
  return { width: length / unit, text: mpp === null ? `${length} pixels` : lengthText(length) };
}
