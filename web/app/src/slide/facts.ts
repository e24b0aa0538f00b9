// The data of a page that `qkv slide heatmap --page` writes (qkv/app/slides/slide_page.cc).
import { fromBase64 } from "../base64";

export const kKinds = ["raw", "ranked", "blurred"] as const;
export type Kind = (typeof kKinds)[number];

/** A tile with its picture. */
export interface TopTile {
  tile: number;
  picture: string; // WebP, base64; empty if it cannot be read
}

export interface Facts {
  title: string;
  what: string; // the scores' name
  size: [width: number, height: number]; // of level 0; all other coordinates are its pixels too
  mpp: number | null; // microns a pixel
  pyramid: { width: number; height: number; downsample: number; finest: number; tile: number };
  side: number; // of a tile
  grid: { x: number; y: number; cell: number; columns: number; rows: number };
  ends: [low: number, high: number]; // of the scores
  show: Kind;
  opacity: number;
  top: TopTile[];
  answers: [name: string, share: number][];
  damaged: { x: number; y: number; width: number; height: number; why: string }[];
}

export interface Page {
  facts: Facts;
  coords: Int32Array; // [tiles, 2]
  scores: Float32Array; // [tiles]
  ranks: Float32Array; // [tiles]: the part of tiles with at most its score
  maps: Record<Kind, string>; // PNG, base64: 0 is no tile, 1 … 255 are values
  tilesAt(x: number, y: number): number[]; // that cover a point
}

/** Reads the elements of the page. Throws if they do not fit together. */
export function readPage(document: Document): Page {
  const text = (id: string) => document.getElementById(id)?.textContent?.trim() ?? "";
  const facts = JSON.parse(text("facts")) as Facts,
    coords = new Int32Array(fromBase64(text("coords")).buffer),
    scores = new Float32Array(fromBase64(text("scores")).buffer);
  if (coords.length !== 2 * scores.length) throw new Error("The page's coordinates and scores differ in number.");
  return {
    facts,
    coords,
    scores,
    ranks: ranksOf(scores),
    maps: { raw: text("raw"), ranked: text("ranked"), blurred: text("blurred") },
    tilesAt: tileFinder(coords, facts.side),
  };
}

/** Mean ranks of ties, as slide::ScaleScores. */
export function ranksOf(scores: Float32Array): Float32Array {
  const order = Uint32Array.from(scores.keys()).sort((a, b) => scores[a] - scores[b]),
    ranks = new Float32Array(scores.length);
  for (let begin = 0, end = 0; begin < order.length; begin = end) {
    while (end < order.length && scores[order[end]] === scores[order[begin]]) ++end;
    for (let i = begin; i < end; ++i) ranks[order[i]] = (begin + 1 + end) / 2 / scores.length;
  }
  return ranks;
}

/** Tiles by squares of their side, each of which at most four squares touch. */
export function tileFinder(coords: Int32Array, side: number): (x: number, y: number) => number[] {
  const squares = new Map<string, number[]>(),
    square = (x: number, y: number) => `${Math.floor(x / side)} ${Math.floor(y / side)}`;
  for (let i = 0; 2 * i < coords.length; ++i) {
    const key = square(coords[2 * i], coords[2 * i + 1]),
      there = squares.get(key);
    if (there) there.push(i);
    else squares.set(key, [i]);
  }
  return (x, y) =>
    [square(x, y), square(x - side, y), square(x, y - side), square(x - side, y - side)]
      .flatMap((key) => squares.get(key) ?? [])
      .filter((i) => {
        const dx = x - coords[2 * i],
          dy = y - coords[2 * i + 1];
        return dx >= 0 && dx < side && dy >= 0 && dy < side;
      });
}
