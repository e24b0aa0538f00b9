// The data of a page that `qkv attend -o out.html` writes, as the explorer's components take it.
import { Attention } from "../attention";
import { fromBase64 } from "../base64";
import type { Bench, Ranked } from "../bench";
import type { Seen } from "../image";
import { kAllPatches, type Model } from "../model";
import type { State } from "../state";
import type { Pass } from "../bench";

/** qkv/app/attention/attend.h: Facts, with the title of the image. */
export interface Facts {
  title: string;
  model: string;
  photo: [number, number];
  where: [number, number, number, number];
  grid: [number, number];
  prefix: string[];
  query: number; // a token, or −1: the mean of the patches
  layers: string[];
  heads: string[];
  top?: Ranked[];
}

export interface Page {
  facts: Facts;
  seen: Seen;
  pass: Pass;
}

/** Reads the elements `facts`, `weights`, `scales` and `photo`. Throws if they do not fit together. */
export function readPage(document: Document): Page {
  const text = (id: string) => document.getElementById(id)?.textContent?.trim() ?? "";
  const facts = JSON.parse(text("facts")) as Facts;
  const { layers, heads, prefix, grid } = facts,
    tokens = prefix.length + grid[0] * grid[1];
  const model: Model = {
    id: "attend",
    title: facts.model,
    kind: "image",
    input: [3, 0, 0],
    photo: true,
    patch: [0, 0],
    grid,
    prefix,
    blocks: layers.length,
    heads: heads.length,
    head_width: 0,
    directions: 0,
    width: 0,
    attention: "",
    query_bias: false,
    qk_norm: false,
    positions: [],
    labels: [],
    classifier: false,
    outputs: 0,
    exact: [],
    parameters: 0,
    shipped: "",
    block_names: layers,
    head_names: heads,
  };
  const bytes = fromBase64(text("weights")),
    scales = new Float32Array(fromBase64(text("scales")).buffer);
  // A page of many tokens has the rows of one query.
  const rows = scales.length / (layers.length * heads.length);
  const attention = new Attention(
    bytes,
    scales,
    [layers.length, heads.length, rows, tokens],
    undefined,
    prefix.length,
    rows === 1 && tokens > 1 ? facts.query : null,
  );
  const seen: Seen = {
    id: "attend",
    model,
    photo: facts.photo,
    where: facts.where,
    grid,
    png: fromBase64(text("photo")),
  };
  const pass: Pass = {
    answer: null,
    request: null,
    error: null,
    busy: false,
    attention,
    top: facts.top ?? [],
    logits: null,
    scores: null,
    embedding: null,
    milliseconds: 0,
  };
  return { facts, seen, pass };
}

/** What the page shows at first. */
export const firstState = ({ facts, pass }: Page): Partial<State> => ({
  query: facts.query < 0 ? kAllPatches : facts.query,
  held: pass.attention!.only !== null,
  block: facts.layers.length - 1,
  head: facts.heads.length > 1 ? "mean" : 0,
  opacity: 0.6,
  smooth: true,
});

export function benchOf({ seen, pass }: Page, s: State): Bench {
  const { model } = seen;
  return {
    s,
    catalogue: { models: [model], samples: [] },
    model,
    seen,
    pass,
    base: pass,
    edits: [],
    query: s.query,
    block: Math.min(model.blocks - 1, Math.max(0, s.block)),
    head: model.heads > 1 ? s.head : 0,
  };
}
