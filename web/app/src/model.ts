// What the engine says about its models and samples, and names of tokens.
import type { Packet } from "./packet";

export interface Model {
  id: string;
  title: string;
  kind: "image" | "towers" | "pair" | "text";
  input: number[]; // C, H, W
  photo: boolean; // true: takes photos; false: drawn digits
  patch: number[];
  grid: [number, number];
  prefix: string[];
  blocks: number;
  heads: number;
  head_width: number;
  directions: number; // the greatest rank of a head's M
  width: number;
  attention: string;
  query_bias: boolean;
  qk_norm: boolean;
  positions: ("added" | "rotary" | "relative")[];
  labels: string[];
  classifier: boolean;
  outputs: number; // classes, or the width of the embedding
  exact: string[];
  parameters: number;
  shipped: string; // its name if it comes with qkv, else empty
  block_names?: string[]; // of a page that holds some blocks and heads only
  head_names?: string[];
  error?: string; // why it cannot be opened; then the rest is missing
}
export interface Sample {
  id: string;
  title: string;
  model?: string;
}
export interface Catalogue {
  models: Model[];
  samples: Sample[];
}

export function catalogueOf({ json }: Packet): Catalogue {
  return { models: (json.models as Model[]) ?? [], samples: (json.samples as Sample[]) ?? [] };
}

/** Whether queries and keys have one projection, so that M is symmetric. */
export const sharesQueryAndKey = ({ attention }: Model) => ["shared", "unified", "symmetric"].includes(attention);

/** Whether it answers with boxes or masks, which the page does not show. */
export const findsRegions = ({ prefix }: Model) => prefix.some((name) => /^(detection|mask)/.test(name));

export const isImage = (model: Model) => !model.error && (model.kind === "image" || model.kind === "towers");
export const tokensOf = (model: Model) => model.prefix.length + model.grid[0] * model.grid[1];

/** In place of a query token: the mean over the attention of all patches. */
export const kAllPatches = -2;

/** "all patches (mean)", "patch 3,4" (row, column), or the name of a token before the patches. */
export function tokenName(model: Model, token: number, grid = model.grid): string {
  const prefix = model.prefix.length;
  if (token === kAllPatches) return "all patches (mean)";
  if (token < prefix) {
    const name = model.prefix[token];
    if (name.startsWith("detection")) return `detection token${name.slice("detection".length)}`;
    if (name.startsWith("mask")) return `query token of ${name}`;
    return /token|register/.test(name) ? name : `${name} token`;
  }
  return `patch ${Math.floor((token - prefix) / grid[1])},${(token - prefix) % grid[1]}`;
}

// Blocks, heads and patches count from 0, as in qkv's commands, its tables and the names of tensors.
export const blockName = (model: Model, block: number) => model.block_names?.[block] ?? `block ${block}`;
export const headName = (model: Model, head: number) => model.head_names?.[head] ?? `head ${head}`;

export const labelOf = (model: Model, index: number) => model.labels?.[index] || `class ${index}`;

/** The samples that suit a model: its own, those of models with the same input, and those of none. */
export function samplesOf({ models, samples }: Catalogue, model: Model): Sample[] {
  const alike = new Set(
    models.filter((each) => isImage(each) && each.input.join() === model.input.join()).map(({ id }) => id),
  );
  return samples.filter((sample) => !sample.model || alike.has(sample.model));
}
