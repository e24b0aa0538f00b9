// A plausible translation with weights along the diagonal, for the stand-in engine.
import { f32, u8, type Packet } from "../../packet";
import { pack } from "./mock";

const kWords: Record<string, string> = {
  a: "una",
  small: "piccola",
  library: "libreria",
  for: "per",
  reading: "leggere",
  images: "immagini",
  the: "il",
  this: "questo",
  is: "è",
  test: "prova",
  development: "di sviluppo",
  files: "file",
  of: "di",
  and: "e",
  program: "programma",
  to: "a",
};

export function translate(text: string, rule: string): Packet {
  const words = text.match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) ?? [];
  const columns = [...words.map((w, i) => (i ? "▁" : "") + w), "</s>"];
  const out = words.map((w) => kWords[w.toLowerCase()] ?? w);
  const kept = /uniform|gaussian/.test(rule) ? out.map((_, i) => out[(i * 3) % out.length]) : out;
  const rows = [...kept.map((w, i) => (i ? "▁" : "") + w), "</s>"],
    L = 3,
    H = 6,
    T = rows.length,
    N = columns.length;
  const weights = new Float32Array(L * H * T * N);
  for (let l = 0; l < L; ++l)
    for (let h = 0; h < H; ++h)
      for (let t = 0; t < T; ++t) {
        const row = weights.subarray(((l * H + h) * T + t) * N, ((l * H + h) * T + t + 1) * N);
        const width = /hard/.test(rule) ? 0.05 : 0.4 + 3 * Math.abs(Math.sin(7 * h + 3 * l));
        for (let n = 0; n < N; ++n) row[n] = Math.exp(-(((n - t + (h % 2)) / width) ** 2) / 2) + 1e-9;
        const sum = row.reduce((a, b) => a + b, 0);
        for (let n = 0; n < N; ++n) row[n] /= sum;
      }
  const { bytes, scales } = pack(weights, N);
  return {
    json: {
      text: kept.join(" ").replace(/ ([.,])/g, "$1"),
      rows,
      columns,
      rule: rule || "softmax, as trained",
      milliseconds: 41,
    },
    arrays: { attention: u8(bytes, [L, H, T, N]), scales: f32(scales, [L, H, T]) },
  };
}
