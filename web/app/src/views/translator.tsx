// The sixth step: cross-attention of the translator, and what becomes of the sentence without its softmax.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Attention, type Head } from "../attention";
import type { Bench } from "../bench";
import { css, inkOn, sequential } from "../colour/maps";
import { get, set } from "../state";
import { isKept, useAnswer } from "../transport/client";
import { Choice, KeptOnly, percent, Problem, Select, Slider } from "../ui/controls";
import { More } from "./view";

// What is said of sentences, languages and scores holds for this one, which comes with qkv.
const kShipped = "english-italian";
const kExamples = [
  "tools for converting between audio formats",
  "This package contains the development files.",
  "Mobile Robot Programming Toolkit - config library",
];
const kRules: [string, string][] = [
  ["", "softmax, as trained"],
  ["hard", "hard look-up"],
  ["gaussian", "Gaussian along the diagonal"],
  ["uniform", "mean of the source"],
  ["softmax", "softmax, other temperature"],
];

/** Parts of a rule as `qkv translate --cross-weights` writes it: "softmax=0.5", "hard", "gaussian=0.5". */
export function partsOf(rule: string): { kind: string; value: number; heads: string } {
  const [, kind = "", value = "", heads = ""] = /^([a-z]*)(?:=([\d.]+))?(?::(.*))?$/.exec(rule) ?? [];
  return { kind, value: Number(value) || (kind === "softmax" ? 2 : 0.5), heads };
}
export function ruleOf({ kind, value, heads }: { kind: string; value: number; heads: string }): string {
  if (!kind) return "";
  return `${kind}${kind === "gaussian" || kind === "softmax" ? `=${+value.toFixed(2)}` : ""}${heads ? `:${heads}` : ""}`;
}

export function TranslatorStep({ bench }: { bench: Bench }) {
  const { s, catalogue } = bench;
  const translators = catalogue.models.filter((model) => model.kind === "pair");
  const [id, setId] = useState("");
  const model =
    translators.find((each) => each.id === id) ??
    translators.find((each) => each.shipped === kShipped) ??
    translators[0];
  const shipped = model?.shipped === kShipped,
    language = shipped ? "it" : undefined;
  const [typed, setTyped] = useState(s.text);
  useEffect(() => {
    const timer = setTimeout(() => set({ text: typed.slice(0, 400) }), 350);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => {
    if (get().text !== typed) setTyped(s.text);
  }, [s.text]);
  const text = s.text.trim();
  const trained = useAnswer("translate", model && text ? { model: model.id, text } : null);
  const edited = useAnswer("translate", model && text && s.rule ? { model: model.id, text, rule: s.rule } : null);
  const shown = s.rule ? edited : trained;
  if (!model)
    return (
      <p class="problem">
        No translator is open here. Start the explorer with one: qkv explore -m models/english-italian
      </p>
    );
  const rule = partsOf(s.rule);
  const one = /^\d+\.\d+$/.test(rule.heads);
  return (
    <div class="translator">
      {translators.length > 1 && (
        <Select
          label="Translator"
          value={model.id}
          options={translators.map(({ id, title }) => [id, title])}
          onChange={setId}
        />
      )}
      <label class="sentence">
        {shipped ? "Sentence, in English: this small model has read descriptions of software only" : "Source text"}
        <textarea
          rows={2}
          maxLength={400}
          value={typed}
          disabled={isKept()}
          spellcheck={false}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      {shipped && (
        <div class="row">
          {kExamples.map((example) => (
            <button key={example} type="button" class="quiet" disabled={isKept()} onClick={() => setTyped(example)}>
              {example}
            </button>
          ))}
        </div>
      )}
      <Choice
        label="Weights of cross-attention"
        value={rule.kind}
        options={kRules}
        disabled={isKept()}
        onChange={(kind) => set({ rule: ruleOf({ ...partsOf(kind), heads: rule.heads }) })}
      />
      {shipped && (
        <p class="note">
          A hard look-up in place of the softmax costs this translator little, often no word. The Gaussian costs it
          much, the mean everything.
        </p>
      )}
      {(rule.kind === "gaussian" || rule.kind === "softmax") && (
        <Slider
          label={rule.kind === "gaussian" ? "Bandwidth, in tokens" : "Temperature"}
          value={rule.value}
          min={0.1}
          max={rule.kind === "gaussian" ? 5 : 6}
          step={0.1}
          text={rule.value.toFixed(1)}
          disabled={isKept()}
          onInput={(value) => set({ rule: ruleOf({ ...rule, value }) })}
        />
      )}
      {rule.kind && (
        <Choice
          label="In"
          value={one ? "one" : "all"}
          disabled={isKept()}
          options={[
            ["all", "all heads"],
            ["one", "the chosen head alone"],
          ]}
          onChange={(where) =>
            set({
              rule: ruleOf({
                ...rule,
                heads:
                  where === "one"
                    ? `${Math.max(0, s.block < 0 ? 0 : s.block)}.${typeof s.head === "number" ? s.head : 1}`
                    : "",
              }),
            })
          }
        />
      )}
      <div class="sentences" aria-live="polite">
        <div>
          <h3>As trained</h3>
          {text ? (
            <p lang={language}>{String(trained.answer?.json.text ?? "…")}</p>
          ) : (
            <p class="note">Write a sentence above.</p>
          )}
        </div>
        {s.rule && text && (
          <div class={edited.busy ? "busy" : ""}>
            <h3>{String(edited.answer?.json.rule ?? kRules.find(([kind]) => kind === rule.kind)?.[1])}</h3>
            <p lang={language}>
              {edited.answer ? (
                <Marked text={String(edited.answer.json.text)} against={String(trained.answer?.json.text ?? "")} />
              ) : (
                "…"
              )}
            </p>
            {edited.answer && !edited.busy && trained.answer && (
              <p class="note">{changeInWords(String(edited.answer.json.text), String(trained.answer.json.text))}</p>
            )}
          </div>
        )}
      </div>
      {isKept() ? <KeptOnly /> : <Problem error={trained.error ?? edited.error} />}
      {shown.answer && <Matrices key={model.id} answer={shown.answer} rule={rule} bench={bench} />}
      {shipped && (
        <More title="What it shows">
          <p>
            On 499 lines that this translator has not seen, the softmax reaches 52.4 BLEU, a hard look-up 47.7, the best
            Gaussian along the diagonal 19.6, and the plain mean 1.7. Which tokens are looked up is nearly everything;
            position alone carries a third between two languages of similar word order. One head of the first block
            carries half of the translation. The model is small and knows software descriptions; other sentences come
            out badly from the start.
          </p>
        </More>
      )}
    </div>
  );
}

function Matrices({
  answer,
  rule,
  bench,
}: {
  answer: Parameters<typeof Attention.of>[0];
  rule: { kind: string; value: number; heads: string };
  bench: Bench;
}) {
  const { s } = bench;
  const attention = useMemo(() => Attention.of(answer), [answer]);
  const rows = (answer.json.rows as string[]) ?? [],
    columns = (answer.json.columns as string[]) ?? [];
  const [row, setRow] = useState(0);
  if (!attention || !rows.length) return null;
  const block = s.block >= 0 && s.block < attention.blocks ? s.block : 0;
  const head: Head = typeof s.head === "number" ? (s.head < attention.heads ? s.head : 0) : s.head;
  const choose = (b: number, h: Head) => {
    // A rule in one head follows the choice.
    const follows = !isKept() && /^\d+\.\d+$/.test(rule.heads) && typeof h === "number";
    set({ block: b, head: h, ...(follows ? { rule: ruleOf({ ...rule, heads: `${b}.${h}` }) } : {}) });
  };
  const t = Math.min(row, rows.length - 1),
    weights = attention.row(block, head, t);
  const most = Math.max(1e-6, ...weights);
  return (
    <>
      <section>
        <h2>Where each new token looks</h2>
        <p class="note">
          Rows: the {rows.length} tokens written. Columns: the {columns.length} tokens read. Block {block},{" "}
          {typeof head === "number" ? `head ${head}` : head === "mean" ? "mean of heads" : "greatest of heads"}.
        </p>
        <div class="wide" tabIndex={0} role="region" aria-label="Cross-attention matrix">
          <table class="cross">
            <thead>
              <tr>
                <td />
                {columns.map((token, i) => (
                  <th key={i} scope="col">
                    <span>{shown(token)}</span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((token, r) => {
                const line = attention.row(block, head, r);
                return (
                  <tr key={r} class={r === t ? "chosen" : ""} onPointerEnter={() => setRow(r)}>
                    <th scope="row">
                      <button type="button" aria-pressed={r === t} onClick={() => setRow(r)} onFocus={() => setRow(r)}>
                        {shown(token)}
                      </button>
                    </th>
                    {columns.map((_, c) => (
                      <td
                        key={c}
                        style={{
                          backgroundColor: css(sequential, Math.min(1, line[c])),
                          color: inkOn(sequential, line[c]),
                        }}
                        title={`${token} → ${columns[c]}: ${percent(line[c])}`}
                      >
                        {line[c] >= 0.1 ? Math.round(100 * line[c]) : ""}
                      </td>
                    ))}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
        <p class="source" aria-live="polite">
          “{shown(rows[t])}” reads:{" "}
          {columns.map((token, c) => (
            <span
              key={c}
              style={{
                backgroundColor: `color-mix(in srgb, var(--mark) ${Math.round((55 * weights[c]) / most)}%, transparent)`,
              }}
            >
              {shown(token)}{" "}
            </span>
          ))}
        </p>
      </section>
      <section>
        <h2>Every head</h2>
        <div class="cross-heads">
          {Array.from({ length: attention.blocks }, (_, b) => (
            <div key={b} class="row" role="group" aria-label={`block ${b}`}>
              <span class="row-name">{b}</span>
              {Array.from({ length: attention.heads }, (_, h) => (
                <button
                  key={h}
                  type="button"
                  class="tile"
                  aria-pressed={b === block && h === head}
                  aria-label={`block ${b}, head ${h}`}
                  onClick={() => choose(b, h)}
                >
                  <Thumb attention={attention} block={b} head={h} />
                </button>
              ))}
            </div>
          ))}
        </div>
        <div class="row">
          <button type="button" aria-pressed={head === "mean"} onClick={() => choose(block, "mean")}>
            Mean of the block's heads
          </button>
        </div>
      </section>
    </>
  );
}

/** For each word of `text`, whether it is missing from the longest common subsequence with `against`. */
export function changedWords(text: string[], against: string[]): boolean[] {
  const longest = Array.from({ length: text.length + 1 }, () => new Uint16Array(against.length + 1));
  for (let i = text.length - 1; i >= 0; --i) {
    for (let j = against.length - 1; j >= 0; --j) {
      longest[i][j] =
        text[i] === against[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const changed = text.map(() => true);
  for (let i = 0, j = 0; i < text.length && j < against.length;) {
    if (text[i] === against[j]) ((changed[i++] = false), ++j);
    else if (longest[i + 1][j] >= longest[i][j + 1]) ++i;
    else ++j;
  }
  return changed;
}

/** "No word changed.", or how many of the words are others. */
export function changeInWords(text: string, against: string): string {
  const words = text.split(/\s+/).filter(Boolean),
    changed = changedWords(words, against.split(/\s+/)).filter(Boolean).length;
  if (text === against) return "No word changed.";
  return changed ? `${changed} of ${words.length} words changed.` : "Words are missing.";
}

function Marked({ text, against }: { text: string; against: string }) {
  const words = text.split(/\s+/),
    changed = changedWords(words, against.split(/\s+/));
  return <>{words.map((word, i) => (changed[i] ? <mark key={i}>{word} </mark> : `${word} `))}</>;
}

const shown = (token: string) => token.replace(/^▁/, "") || "▁";

function Thumb({ attention, block, head }: { attention: Attention; block: number; head: number }) {
  const draw = (canvas: HTMLCanvasElement | null) => {
    if (!canvas) return;
    canvas.width = attention.columns;
    canvas.height = attention.rows;
    const context = canvas.getContext("2d")!,
      image = context.createImageData(attention.columns, attention.rows);
    for (let r = 0; r < attention.rows; ++r) {
      attention.row(block, head, r).forEach((w, c) => {
        const at = 4 * (r * attention.columns + c),
          from = 3 * Math.round(255 * Math.min(1, w));
        for (let i = 0; i < 3; ++i) image.data[at + i] = sequential[from + i];
        image.data[at + 3] = 255;
      });
    }
    context.putImageData(image, 0, 0);
  };
  return <canvas ref={draw} class="pixels" aria-hidden="true" />;
}
