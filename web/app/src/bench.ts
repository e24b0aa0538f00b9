// What every view gets: the model, the picture, a pass as edited and one as trained, and what is chosen in them.
import { useMemo } from "preact/hooks";
import { Attention, type Head } from "./attention";
import type { Seen } from "./image";
import type { Catalogue, Model, Sample } from "./model";
import { kAllPatches, tokensOf } from "./model";
import type { Edit, State } from "./state";
import { useAnswer, type Asked } from "./transport/client";

/** Maps beyond this many bytes are asked for a block at a time. */
const kAllBlocksBytes = 96 << 20;

export interface Ranked {
  index: number;
  label: string;
  score: number;
  logit: number;
}
export interface Pass extends Asked {
  attention: Attention | null;
  top: Ranked[];
  logits: Float32Array | null;
  scores: Float32Array | null; // of the classes
  embedding: Float32Array | null; // of a model without classes
  milliseconds: number; // of the engine
}

export interface Bench {
  s: State;
  catalogue: Catalogue;
  model: Model;
  seen: Seen | null;
  pass: Pass; // with the edits
  base: Pass; // without
  edits: Edit[];
  query: number;
  block: number;
  head: Head;
}

export const blocksFor = (model: Model, block: number): "all" | number[] =>
  model.blocks * model.heads * tokensOf(model) ** 2 <= kAllBlocksBytes ? "all" : [block];

/** A pass of this model on this picture; null asks nothing. */
export function usePass(seen: Seen | null, edits: Edit[], block: number): Pass {
  const blocks = seen && blocksFor(seen.model, block);
  const asked = useAnswer(
    "pass",
    seen && { model: seen.model.id, image: seen.id, blocks, ...(edits.length ? { edits } : {}) },
  );
  const { answer } = asked;
  const own = answer && seen && asked.request?.model === seen.model.id ? answer : null;
  const decoded = useMemo(() => {
    const which = own && asked.request?.blocks;
    const array = (name: string) => (own?.arrays[name]?.data as Float32Array | undefined) ?? null;
    const attention = own
      ? Attention.of(own, Array.isArray(which) ? (which as number[]) : undefined, seen?.model.prefix.length)
      : null;
    return {
      // The last picture's maps stay until the new ones are there, unless their patches are others.
      attention: attention && seen && attention.columns === tokensOf(seen.model) ? attention : null,
      top: (own?.json.top as Ranked[]) ?? [],
      logits: array("logits"),
      scores: array("scores"),
      embedding: array("embedding"),
      milliseconds: (own?.json.milliseconds as number) ?? 0,
    };
  }, [own, seen?.model]);
  return { ...asked, answer: own, ...decoded };
}

/** The edits of the model in words. */
export function editsInWords(s: State): string {
  const count = (n: number, one: string, what: string) => n > 0 && `${n} ${one}${n > 1 ? "s" : ""} ${what}`;
  return [
    s.rank > 0 && `rank ${s.rank}`,
    s.t !== 1 && `symmetry t = ${s.t.toFixed(2).replace("-", "−")}`,
    count(s.cutHeads.length, "head", "out"),
    count(s.cutTokens.length, "token", "hidden"),
  ]
    .filter(Boolean)
    .join(", ");
}

/**
 * The edits and the class of a state as far as the model has them, and in words what it has not. With the model's samples
 * (of a link) also block, head, query and sample.
 */
export function fitting(model: Model, s: State, samples: Sample[] | null = null): { state: State; left: string[] } {
  const { blocks, heads, directions } = model,
    left: string[] = [];
  const cutHeads = s.cutHeads.filter((cut) => {
    const [block, head] = cut.split(".").map(Number);
    return (block < blocks && head < heads) || void left.push(`head ${head} of block ${block}`);
  });
  const cutTokens = s.cutTokens.filter((token) => token < tokensOf(model) || void left.push(`token ${token}`));
  const rank = s.rank > directions ? 0 : s.rank;
  if (rank !== s.rank) left.push(`rank ${s.rank} in heads of ${directions} directions`);
  const klass = model.classifier && model.labels.length && s.klass >= model.labels.length ? -1 : s.klass;
  if (klass !== s.klass) left.push(`class ${s.klass}`);
  let { block, head, query, picture } = s;
  if (samples) {
    // The translator's step has blocks and heads of its own.
    const own = s.view === "steps" && s.step === 5;
    if (block >= blocks && !own) ((block = -1), left.push(`block ${s.block}`));
    if (typeof head === "number" && head >= heads && !own) ((head = "mean"), left.push(`head ${s.head}`));
    if (query >= tokensOf(model)) ((query = -1), left.push(`query ${s.query}`));
    if (picture?.kind === "sample") {
      const { id } = picture;
      if (!samples.some((sample) => sample.id === id)) ((picture = null), left.push(`sample ${id.slice(0, 60)}`));
    }
  }
  return { state: left.length ? { ...s, cutHeads, cutTokens, rank, klass, block, head, query, picture } : s, left };
}

/** The query token: the chosen one, else the first before the patches, else the middle patch. */
export function queryOf(model: Model, chosen: number): number {
  const tokens = tokensOf(model);
  if (chosen === kAllPatches || (chosen >= 0 && chosen < tokens)) return chosen;
  return model.prefix.length ? 0 : Math.floor(model.grid[0] / 2) * model.grid[1] + Math.floor(model.grid[1] / 2);
}
export const blockOf = (model: Model, chosen: number) =>
  chosen >= 0 && chosen < model.blocks ? chosen : model.blocks - 1;
export const headOf = (model: Model, chosen: Head): Head =>
  model.heads < 2 ? 0 : typeof chosen === "number" && chosen >= model.heads ? "mean" : chosen;
