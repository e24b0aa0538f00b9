// The one store: what is shown, and the edits of the model. Views read it by useStore() and change it by set().
import { useEffect, useState } from "preact/hooks";
import type { Head } from "./attention";
import type { Drawing } from "./drawing";

export const kViews = [
  "attention",
  "rollout",
  "relevance",
  "similarity",
  "colours", // look
  "heads",
  "gauge",
  "symmetry",
  "rank",
  "knockout",
  "twins", // take apart
  "steps",
  "words",
  "planner", // understand
] as const;
export type ViewName = (typeof kViews)[number];

export type Picture =
  | { kind: "drawn"; drawing: Drawing }
  | { kind: "sample"; id: string }
  | { kind: "file"; name: string; bytes: Uint8Array; key: number }; // stays in this browser, never in the address

export interface State {
  view: ViewName;
  notice: string; // said above the view until it is dismissed; never in the address
  lost: boolean; // the server does not answer
  tour: number; // step of the tour, or −1
  theme: "auto" | "light" | "dark";
  model: string; // "": the first
  picture: Picture | null; // null: the model's first sample
  pad: boolean; // the picture is being drawn
  // What is looked at.
  query: number; // a token, or −1: the first token of the model
  held: boolean; // the query stays although the pointer moves
  pointed: number; // token whose weight is read while the query is held
  block: number; // −1: the last
  head: Head;
  opacity: number;
  smooth: boolean;
  common: boolean; // one colour scale for all heads
  // Edits of the model.
  t: number; // symmetry: M_s + t M_a
  rank: number; // 0: whole
  rankBy: "weights" | "data";
  cutHeads: string[]; // "block.head"
  cutTokens: number[];
  // Views.
  klass: number; // class of relevance and knock-outs, or −1: the most probable
  cutting: boolean; // clicks on the picture hide tokens
  strength: number; // of the gauge
  seed: number;
  twins: string[]; // models beside each other; empty: chosen by the page
  step: number; // 0 … 5, from smoothing to attention
  sigma: number; // patches
  temperature: number;
  text: string; // of the translator
  rule: string; // of its cross-attention
  words: string;
  queries: number; // of the planner; 0: all
}

export const kDefaults: State = {
  view: "attention",
  notice: "",
  lost: false,
  tour: -1,
  theme: "auto",
  model: "",
  picture: null,
  pad: false,
  query: -1,
  held: false,
  pointed: -1,
  block: -1,
  head: "mean",
  opacity: 0.75,
  smooth: false,
  common: false,
  t: 1,
  rank: 0,
  rankBy: "weights",
  cutHeads: [],
  cutTokens: [],
  klass: -1,
  cutting: false,
  strength: 0.5,
  seed: 1,
  twins: [],
  step: 0,
  sigma: 1,
  temperature: 0.05,
  text: "tools for converting between audio formats",
  rule: "",
  words: "a dog",
  queries: 0,
};

let state: State = { ...kDefaults };
const listeners = new Set<() => void>();

export const get = (): State => state;

/** Changes the state and draws what depends on it. */
export function set(change: Partial<State>): void {
  const next = { ...state, ...change };
  if ((Object.keys(change) as (keyof State)[]).every((key) => state[key] === next[key])) return;
  state = next;
  for (const listener of [...listeners]) listener();
}

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The state; the component is drawn again when it changes. */
export function useStore(): State {
  const [, redraw] = useState(0);
  useEffect(() => subscribe(() => redraw((n) => n + 1)), []);
  return state;
}

/** Whether the picture is a blank drawing, or a pad that is to be drawn on. */
export const nothingDrawn = ({ pad, picture }: State) =>
  picture?.kind === "drawn" ? picture.drawing.pixels.every((value) => !value) : pad;

export type Edit = Record<string, unknown> & { kind: string };

/** The edits of the model that the state asks for, in order. */
export function editsOf(s: State): Edit[] {
  const edits: Edit[] = [];
  if (s.rank > 0) edits.push({ kind: "rank", rank: s.rank, by: s.rankBy, blocks: "all", heads: "all" });
  if (s.t !== 1) edits.push({ kind: "symmetry", t: s.t, blocks: "all", heads: "all" });
  for (const cut of s.cutHeads) {
    const [block, head] = cut.split(".").map(Number);
    edits.push({ kind: "head", block, head });
  }
  for (const token of s.cutTokens) edits.push({ kind: "token", token });
  return edits;
}

export const kNoEdits: Partial<State> = { t: 1, rank: 0, cutHeads: [], cutTokens: [] };
