// The house's colour maps (qkv/image/colour_map): curves in Oklab at equal arc length, so that equal steps of a value look
// like equal steps of colour; lightness rises evenly, so the maps can be read without colour.

type Lab = [number, number, number];
export type Rgb = [number, number, number];
const kEntries = 256;
const kSamples = 2048;
const kSequential: Lab[] = [
  [0.25, 0.058, -0.111],
  [0.42, 0.051, -0.237],
  [0.6, -0.16, -0.016],
  [0.78, -0.207, 0.163],
  [0.94, -0.072, 0.175],
];
// On a dark page the middle is dark and the ends are bright.
const kDarkBlue: Lab = [0.66, -0.045, -0.14],
  kDarkMiddle: Lab = [0.27, 0, 0],
  kDarkRed: Lab = [0.66, 0.16, 0.075];
const kBlue: Lab = [0.4, -0.025, -0.13],
  kMiddle: Lab = [0.96, 0, 0],
  kRed: Lab = [0.4, 0.14, 0.055];

const between = (a: Lab, b: Lab, t: number): Lab => [
  a[0] + (b[0] - a[0]) * t,
  a[1] + (b[1] - a[1]) * t,
  a[2] + (b[2] - a[2]) * t,
];

function toSrgb(lab: Lab): Rgb {
  const l = (lab[0] + 0.3963377774 * lab[1] + 0.2158037573 * lab[2]) ** 3;
  const m = (lab[0] - 0.1055613458 * lab[1] - 0.0638541728 * lab[2]) ** 3;
  const s = (lab[0] - 0.0894841775 * lab[1] - 1.291485548 * lab[2]) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((x) => {
    const value = x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, value)));
  }) as Rgb;
}

// De Casteljau.
function curve(t: number): Lab {
  let points = kSequential;
  while (points.length > 1) points = points.slice(1).map((point, i) => between(points[i], point, t));
  return points[0];
}

function table(colour: (i: number) => Rgb): Uint8Array {
  const bytes = new Uint8Array(3 * kEntries);
  for (let i = 0; i < kEntries; ++i) bytes.set(colour(i), 3 * i);
  return bytes;
}

function sequentialTable(): Uint8Array {
  const points = Array.from({ length: kSamples + 1 }, (_, i) => curve(i / kSamples));
  const length = new Float64Array(kSamples + 1);
  for (let i = 1; i <= kSamples; ++i) {
    const a = points[i - 1],
      b = points[i];
    length[i] = length[i - 1] + Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
  }
  let above = 1;
  return table((i) => {
    const wanted = (length[kSamples] * i) / (kEntries - 1);
    while (above < kSamples && length[above] < wanted) ++above;
    const fraction = (wanted - length[above - 1]) / (length[above] - length[above - 1]);
    return toSrgb(curve((above - 1 + fraction) / kSamples));
  });
}

/** 256 colours, three bytes each: dark violet, blue, green, bright yellow. */
export const sequential = sequentialTable();
const divergingTable = (low: Lab, middle: Lab, high: Lab) =>
  table((i) => {
    const x = (2 * i) / (kEntries - 1) - 1;
    return toSrgb(between(middle, x < 0 ? low : high, Math.abs(x)));
  });

/** 256 colours: blue, near-white in the middle, red. */
export const diverging = divergingTable(kBlue, kMiddle, kRed);
const divergingDark = divergingTable(kDarkBlue, kDarkMiddle, kDarkRed);

/** "rgb(r g b)" of x in 0 … 1; NaN is a grey that is in neither map. */
export function css(map: Uint8Array, x: number): string {
  if (Number.isNaN(x)) return "rgb(128 128 128)";
  const i = 3 * Math.round(255 * Math.min(1, Math.max(0, x)));
  return `rgb(${map[i]} ${map[i + 1]} ${map[i + 2]})`;
}

/** The colour of x and ink for it, on light and dark pages: what is nothing (the middle of `diverging`) has no glare. */
export function onGround(map: Uint8Array, x: number): { colour: string; ink: string } {
  if (map !== diverging) return { colour: css(map, x), ink: inkOn(map, x) };
  return {
    colour: `light-dark(${css(diverging, x)}, ${css(divergingDark, x)})`,
    ink: `light-dark(${inkOn(diverging, x)}, ${inkOn(divergingDark, x)})`,
  };
}

/** Ink with enough contrast on that colour. */
export function inkOn(map: Uint8Array, x: number): string {
  const i = 3 * Math.round(255 * Math.min(1, Math.max(0, x)));
  const light =
    0.2126 * (map[i] / 255) ** 2.2 + 0.7152 * (map[i + 1] / 255) ** 2.2 + 0.0722 * (map[i + 2] / 255) ** 2.2;
  return light > 0.18 ? "#000" : "#fff";
}
