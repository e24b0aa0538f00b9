// The state in the page's address, so that a link shows the same view: #view=rank&rank=4&draw=…
// Only what differs from the defaults is written. A photo of the reader's own is never part of it.
import { fromText, toText } from "./drawing";
import { kAllPatches } from "./model";
import { kDefaults, kViews, type State, type ViewName } from "./state";

/** Names in the address of the numbers of the state. */
const kNumbers = {
  tour: "tour",
  query: "q",
  block: "block",
  opacity: "opacity",
  t: "t",
  rank: "rank",
  klass: "class",
  strength: "strength",
  seed: "seed",
  step: "step",
  sigma: "sigma",
  temperature: "temperature",
  queries: "queries",
} as const satisfies Partial<Record<keyof State, string>>;
const kFlags = { smooth: "smooth", common: "common", held: "held", cutting: "cut" } as const satisfies Partial<
  Record<keyof State, string>
>;
const kTexts = { model: "model", text: "text", rule: "rule", words: "words" } as const satisfies Partial<
  Record<keyof State, string>
>;
const kLongest = 2000; // characters of a text

export function toHash(state: State): string {
  const to = new URLSearchParams();
  if (state.view !== kDefaults.view) to.set("view", state.view);
  const put = (keys: Record<string, string>, text: (value: unknown) => string) => {
    for (const [key, name] of Object.entries(keys)) {
      const value = state[key as keyof State];
      if (value !== kDefaults[key as keyof State]) to.set(name, text(value));
    }
  };
  put(kTexts, String);
  put(kNumbers, (value) => String(+(value as number).toPrecision(4)));
  put(kFlags, (value) => (value ? "1" : "0"));
  if (state.head !== kDefaults.head) to.set("head", String(state.head));
  if (state.theme !== "auto") to.set("theme", state.theme);
  if (state.rankBy !== "weights") to.set("by", state.rankBy);
  if (state.cutHeads.length) to.set("heads-out", state.cutHeads.join(" "));
  if (state.cutTokens.length) to.set("tokens-out", state.cutTokens.join(" "));
  if (state.twins.length) to.set("twins", state.twins.join(" "));
  if (state.picture?.kind === "drawn") to.set("draw", toText(state.picture.drawing));
  if (state.picture?.kind === "sample") to.set("sample", state.picture.id);
  const text = to.toString();
  return text ? `#${text}` : "";
}

/** What an address says; anything malformed is left at its default. */
export function fromHash(hash: string): State {
  const from = new URLSearchParams(hash.replace(/^#/, ""));
  const state: State = { ...kDefaults };
  const view = from.get("view") as ViewName | null;
  if (view && kViews.includes(view)) state.view = view;
  else if (view) state.notice = `There is no view “${String(view).slice(0, 40)}”: this is ${kDefaults.view}.`;
  const into = state as unknown as Record<string, unknown>;
  for (const [key, name] of Object.entries(kNumbers)) {
    const text = from.get(name);
    if (text && Number.isFinite(Number(text))) into[key] = Number(text);
  }
  for (const [key, name] of Object.entries(kFlags)) if (from.has(name)) into[key] = from.get(name) === "1";
  for (const [key, name] of Object.entries(kTexts)) if (from.has(name)) into[key] = from.get(name)!.slice(0, kLongest);
  const head = from.get("head");
  if (head === "max" || head === "mean") state.head = head;
  else if (head && /^\d{1,3}$/.test(head)) state.head = Number(head);
  const theme = from.get("theme");
  if (theme === "light" || theme === "dark") state.theme = theme;
  if (from.get("by") === "data") state.rankBy = "data";
  const list = (name: string, form: RegExp) => (from.get(name) ?? "").split(" ").filter((each) => form.test(each));
  state.cutHeads = list("heads-out", /^\d{1,3}\.\d{1,3}$/);
  state.cutTokens = list("tokens-out", /^\d{1,6}$/).map(Number);
  state.twins = list("twins", /./).slice(0, 4);
  const drawing = from.has("draw") ? fromText(from.get("draw")!) : null;
  if (drawing) state.picture = { kind: "drawn", drawing };
  else if (from.get("sample")) state.picture = { kind: "sample", id: from.get("sample")! };
  return clamped(state);
}

function clamped(state: State): State {
  const within = (value: number, least: number, most: number) => Math.min(most, Math.max(least, value));
  for (const key of ["query", "block", "rank", "klass", "seed", "step", "queries", "tour"] as const)
    state[key] = Math.round(state[key]);
  if (state.query < 0 && state.query !== kAllPatches) state.query = -1;
  state.t = within(state.t, -1, 1);
  state.step = within(state.step, 0, 5);
  state.rank = Math.max(0, state.rank);
  state.opacity = within(state.opacity, 0, 1);
  state.strength = within(state.strength, 0, 1);
  state.sigma = within(state.sigma, 0.1, 20);
  state.temperature = within(state.temperature, 0.0001, 10);
  return state;
}
