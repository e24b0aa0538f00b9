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
  width: number;
  attention: string;
  labels: string[];
  classifier: boolean;
  exact: string[];
  parameters: number;
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

export const isImage = (model: Model) => !model.error && (model.kind === "image" || model.kind === "towers");
export const tokensOf = (model: Model) => model.prefix.length + model.grid[0] * model.grid[1];

/** "patch 3, 4" (row, column from 1), or the name of a token before the patches. */
export function tokenName(model: Model, token: number, grid = model.grid): string {
  const prefix = model.prefix.length;
  if (token < prefix) return `${model.prefix[token]}${/token|register/.test(model.prefix[token]) ? "" : " token"}`;
  return `patch ${Math.floor((token - prefix) / grid[1]) + 1}, ${((token - prefix) % grid[1]) + 1}`;
}

export const labelOf = (model: Model, index: number) => model.labels?.[index] || `class ${index}`;

/** The samples that suit a model: its own, those of models with the same input, and those of none. */
export function samplesOf({ models, samples }: Catalogue, model: Model): Sample[] {
  const alike = new Set(models.filter((each) => isImage(each) && each.input.join() === model.input.join()).map(({ id }) => id));
  return samples.filter((sample) => !sample.model || alike.has(sample.model));
}
