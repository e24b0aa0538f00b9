// What each order of attention's products costs in this model, and where merging breaks even.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Bench } from "../bench";
import { diverging } from "../colour/maps";
import { mapCanvas } from "../draw/canvas";
import { tokensOf } from "../model";
import type { Json, Packet } from "../packet";
import { set } from "../state";
import { useAnswer } from "../transport/client";
import { Problem, short, Slider, WK, WQ, WV } from "../ui/controls";
import { Legend } from "../ui/legend";
import { More, Title } from "./view";

const kNames: Record<string, [string, ComponentChildren]> = {
  projected: ["projected", "queries, keys and values first, as usual"],
  absorbed: [
    "absorbed",
    <>
      {WK} on the queries, {WV} on the sums: no keys, no values
    </>,
  ],
  merged: ["merged", "one matrix for each pair, computed beforehand"],
  "keys-absorbed": ["keys absorbed", <>{WQ} on the keys</>],
  "keys-merged": ["keys merged", "the merged matrix on the keys"],
};
const nameOf = (order: string): [string, ComponentChildren] => kNames[order.replace(/[ _]/g, "-")] ?? [order, ""];

interface Row {
  order: string;
  multiply_adds: number;
  bytes: number;
  beforehand?: number;
  steps?: { what: string; multiply_adds: number }[];
}
interface Workload {
  queries: number;
  tokens: number;
  width: number;
  heads: number;
  head_width: number;
}

export function PlannerView({ bench }: { bench: Bench }) {
  const { s, model } = bench,
    N = tokensOf(model);
  const queries = s.queries > 0 ? Math.min(s.queries, N) : N;
  const asked = useAnswer("plan", { model: model.id, queries: queries >= N ? "all" : queries });
  const { answer } = asked;
  const work = (answer?.json.workload ?? {
    queries,
    tokens: N,
    width: model.width,
    heads: model.heads,
    head_width: model.head_width,
  }) as Workload;
  const cheapest = answer?.json.cheapest as { scores: string; outputs: string } | undefined;
  return (
    <div class="layout wide-layout" data-figure>
      <Title title="Planner: the cheapest order of the same products">
        <p>
          Scores are a chain of four matrices, and so are the outputs. Every order gives the same result; the shapes
          decide which is cheapest. qkv's inference follows this plan.
        </p>
      </Title>
      <div class="body">
        <dl class="facts">
          <dt>{model.title}</dt>
          <dd>
            {work.tokens} tokens of {work.width}, {work.heads} heads of {work.head_width}, {model.blocks} blocks
          </dd>
          {cheapest && (
            <>
              <dt>Plan of a layer</dt>
              <dd>
                scores {nameOf(cheapest.scores)[0]}, outputs {nameOf(cheapest.outputs)[0]}
              </dd>
            </>
          )}
        </dl>
        <Slider
          label="Tokens whose outputs are read"
          value={queries}
          min={1}
          max={N}
          step={1}
          text={queries >= N ? `all ${N}` : `${queries} of ${N}`}
          ends={["1: the class token alone", "all"]}
          onInput={(value) => set({ queries: value >= N ? 0 : value })}
        />
        <Problem error={asked.error} />
        {answer && <Orders rows={(answer.json.rows as Row[] | undefined) ?? []} />}
        {answer && <Parts rows={(answer.json.rows as Row[] | undefined) ?? []} />}
        {answer && <BreakEvens json={answer.json} work={work} />}
        {answer?.arrays.ratio && answer.arrays.tokens_by_width && <BreakEvenMap answer={answer} work={work} />}
        <More title="How it is counted">
          <p>
            Multiply-adds of one layer from the tokens to its outputs, without what is computed beforehand; bytes are
            those of all operands and results, each once, in float. With heads of width <i>E</i> = <i>D</i>/<i>H</i> and
            two heads or more, merging never saves work if all tokens are queries. Absorbing pays where few queries are
            read: in the last block of a classifier, and in decoding with latent attention.
          </p>
        </More>
      </div>
    </div>
  );
}

function Orders({ rows }: { rows: Row[] }) {
  const least = Math.min(...rows.map((row) => row.multiply_adds)),
    most = Math.max(...rows.map((row) => row.multiply_adds));
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Cost of each order">
      <table class="orders">
        <thead>
          <tr>
            <th scope="col">order</th>
            <th scope="col" class="number">
              multiply-adds
            </th>
            <th scope="col" class="number">
              times the least
            </th>
            <th scope="col">where they go</th>
            <th scope="col" class="number">
              bytes
            </th>
            <th scope="col" class="number">
              multiply-adds once, beforehand
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const [title, what] = nameOf(row.order),
              best = row.multiply_adds === least;
            return (
              <tr key={row.order}>
                <th scope="row">
                  {title}
                  <small>{what}</small>
                </th>
                <td class={`number ${best ? "best" : ""}`}>{short(row.multiply_adds)}</td>
                <td class={`number ${best ? "best" : ""}`}>
                  {best ? "least" : `× ${(row.multiply_adds / least).toFixed(2)}`}
                </td>
                <td class="stack">
                  <Stack row={row} most={most} />
                </td>
                <td class="number">{short(row.bytes)}B</td>
                <td class="number">{row.beforehand ? short(row.beforehand) : "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

const inWords = ({ steps = [] }: Row) =>
  steps.map(({ what, multiply_adds }) => `${what}: ${short(multiply_adds)}`).join(", ");

// The steps of an order as parts of a bar, their names and costs as its text.
function Stack({ row, most }: { row: Row; most: number }) {
  return (
    <span role="img" aria-label={inWords(row)} title={inWords(row)}>
      {row.steps?.map(({ multiply_adds }, i) => (
        <i key={i} style={{ width: `${(100 * multiply_adds) / most}%` }} />
      ))}
    </span>
  );
}

// The same where no pointer can rest on a bar.
function Parts({ rows }: { rows: Row[] }) {
  return (
    <More title="The parts of each bar, in multiply-adds">
      <dl class="facts">
        {rows.map((row) => [
          <dt key={`${row.order} name`}>{nameOf(row.order)[0]}</dt>,
          <dd key={row.order}>{inWords(row)}</dd>,
        ])}
      </dl>
    </More>
  );
}

function BreakEvens({ json, work }: { json: Json; work: Workload }) {
  const merging = Number(json.merging_pays_above),
    absorbing = json.absorbing_pays_below === null ? Infinity : Number(json.absorbing_pays_below);
  if (Number.isNaN(merging)) return null;
  const share = work.head_width / work.width;
  return (
    <dl class="facts">
      <dt>
        Merging pays if <i>E</i>/<i>D</i> is above
      </dt>
      <dd>
        {merging.toFixed(3)} (all tokens); here it is {share.toFixed(3)}: {share > merging ? "it pays" : "it does not"}
      </dd>
      <dt>Absorbing pays if fewer rows are read than</dt>
      <dd>
        {Number.isFinite(absorbing) ? absorbing.toFixed(1) : "any number"}; now {work.queries}:{" "}
        {work.queries < absorbing ? "it pays" : "it does not"}
      </dd>
    </dl>
  );
}

// Cost of merging by that of projecting, over tokens and head width, both by the width of the tokens; the line where both
// are equal, and this model.
function BreakEvenMap({ answer, work }: { answer: Packet; work: Workload }) {
  const { ratio, tokens_by_width: tokens, head_by_width: widths } = answer.arrays;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [rows, columns] = ratio.shape;
  const logs = useMemo(() => Float32Array.from(ratio.data, (r) => Math.log2(r)), [ratio]);
  useLayoutEffect(() => {
    canvas.current!.width = columns;
    canvas.current!.height = rows;
    const context = canvas.current!.getContext("2d")!;
    context.save();
    context.translate(0, rows); // more tokens above
    context.scale(1, -1);
    context.drawImage(mapCanvas(logs, 0, rows, columns, { low: -2, high: 2 }, diverging), 0, 0);
    context.restore();
  }, [logs]);
  // In 0 … 1 along an axis of cells, between which it is followed evenly in `by`.
  const place = (axis: ArrayLike<number>, value: number, by: (x: number) => number) => {
    const first = by(axis[0]),
      last = by(axis[axis.length - 1]),
      part = (by(value) - first) / (last - first);
    return Math.min(1, Math.max(0, (0.5 + part * (axis.length - 1)) / axis.length));
  };
  const x = place(widths.data, work.head_width / work.width, (v) => v),
    y = place(tokens.data, work.tokens / work.width, Math.log);
  const line: string[] = [];
  for (let r = 0; r < rows; ++r) {
    for (let c = 1; c < columns; ++c) {
      const a = logs[r * columns + c - 1],
        b = logs[r * columns + c];
      if (a > 0 !== b > 0)
        line.push(
          `${(((c - 0.5 + a / (a - b)) / columns) * 100).toFixed(2)},${((1 - (r + 0.5) / rows) * 100).toFixed(2)}`,
        );
    }
  }
  const ends = (axis: ArrayLike<number>) =>
    [axis[0], axis[axis.length - 1]].map((v) =>
      v < 1 && v > 0 && Math.abs(1 / v - Math.round(1 / v)) < 0.01
        ? `1/${Math.round(1 / v)}`
        : String(+v.toPrecision(2)),
    );
  const [n0, n1] = ends(tokens.data),
    [e0, e1] = ends(widths.data);
  return (
    <section>
      <h2>Break-even map</h2>
      <p class="note">
        One head, all tokens: multiply-adds of merging beforehand, relative to projecting. Blue: merging is cheaper.
        Red: projecting is. On the line both cost the same.
      </p>
      <div class="break-even">
        <span class="y">
          <span>{n1}</span>
          <b>
            <i>N</i>/<i>D</i>
          </b>
          <span>{n0}</span>
        </span>
        <div class="map">
          <canvas
            ref={canvas}
            class="pixels"
            role="img"
            aria-label={`Break-even map: merging beforehand against projecting, over head width by token width ${e0} to ${e1} and tokens by token width ${n0} to ${n1}. This model's heads have ${(work.head_width / work.width).toFixed(3)} of the width.`}
          />
          <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
            <polyline points={line.join(" ")} vector-effect="non-scaling-stroke" />
          </svg>
          <span class="here" style={{ left: `${100 * x}%`, bottom: `${100 * y}%` }}>
            <i />
            <b>this model</b>
          </span>
        </div>
        <span class="x">
          <span>{e0}</span>
          <b>
            <i>E</i>/<i>D</i>, width of a head by that of a token
          </b>
          <span>{e1}</span>
        </span>
      </div>
      <Legend low="× ¼" high="× 4" map={diverging} what="merged / projected" />
    </section>
  );
}
