// What each order of attention's products costs in this model, and where merging breaks even.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Bench } from "../bench";
import { diverging } from "../colour/maps";
import { mapCanvas } from "../draw/canvas";
import { tokensOf } from "../model";
import type { Json } from "../packet";
import { set } from "../state";
import { useAnswer } from "../transport/client";
import { Problem, short, Slider } from "../ui/controls";
import { Legend } from "../ui/legend";
import { More, Title } from "./view";

const kNames: Record<string, [string, string]> = {
  projected: ["projected", "queries and keys first, as usual"],
  absorbed: ["absorbed", "W_K on the queries, no keys"],
  merged: ["merged", "one matrix, computed beforehand"],
  "keys-absorbed": ["keys absorbed", "W_Q on the keys"],
  "keys absorbed": ["keys absorbed", "W_Q on the keys"],
  "keys-merged": ["keys merged", "one matrix on the keys"],
  "keys merged": ["keys merged", "one matrix on the keys"],
};

interface Cost {
  multiply_adds: number;
  bytes: number;
}
const costOf = (row: Json, side: string): Cost | null => {
  const value = row[side];
  if (value && typeof value === "object") return value as Cost;
  if (typeof row[`${side}_multiply_adds`] === "number") return { multiply_adds: row[`${side}_multiply_adds`] as number, bytes: row[`${side}_bytes`] as number };
  if (side === "scores" && typeof row.multiply_adds === "number") return { multiply_adds: row.multiply_adds, bytes: row.bytes as number };
  return null;
};

export function PlannerView({ bench }: { bench: Bench }) {
  const { s, model } = bench, N = tokensOf(model);
  const queries = s.queries > 0 ? Math.min(s.queries, N) : N;
  const asked = useAnswer("plan", { model: model.id, queries: queries >= N ? "all" : queries });
  const { answer } = asked, rows = (answer?.json.rows as Json[]) ?? [];
  const ratio = answer?.arrays.ratio;
  return (
    <div class="layout wide-layout" data-figure>
      <div class="body">
        <Title title="Planner: the cheapest order of the same products">
          <p>Scores are a chain of four matrices, and so are the outputs. Every order gives the same result; the shapes decide which is cheapest. qkv's inference follows this plan.</p>
        </Title>
        <dl class="facts">
          <dt>{model.title}</dt><dd>{N} tokens of {model.width}, {model.heads} heads of {model.head_width}, {model.blocks} blocks</dd>
        </dl>
        <Slider label="Tokens whose outputs are read" value={queries} min={1} max={N} step={1} text={queries >= N ? `all ${N}` : `${queries} of ${N}`} ends={["1: the class token alone", "all"]} onInput={(value) => set({ queries: value >= N ? 0 : value })} />
        <Problem error={asked.error} />
        {rows.length > 0 && <Orders rows={rows} />}
        {answer && <BreakEvens json={answer.json} model={model} queries={queries} />}
        {ratio && ratio.shape.length === 2 && <BreakEvenMap ratio={ratio.data as Float32Array} shape={ratio.shape} answer={answer!} bench={bench} />}
        <More title="How it is counted">
          <p>Multiply-adds from the tokens to the scores (and from the weights to the outputs) of one layer, without matrices that are computed beforehand; bytes are those of all operands and results, each once. With heads of width <i>E</i> = <i>D</i>/<i>H</i> and two heads or more, merging never saves work if all tokens are queries. Absorbing pays where few queries are read: in the last block of a classifier, and in decoding with latent attention.</p>
        </More>
      </div>
    </div>
  );
}

function Orders({ rows }: { rows: Json[] }) {
  const sides = (["scores", "outputs"] as const).filter((side) => rows.some((row) => costOf(row, side)));
  const least = Object.fromEntries(sides.map((side) => [side, Math.min(...rows.map((row) => costOf(row, side)?.multiply_adds ?? Infinity))]));
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Cost of each order">
      <table class="orders">
        <thead>
          <tr><th scope="col" rowSpan={2}>order</th>{sides.map((side) => <th key={side} scope="colgroup" colSpan={3}>{side}</th>)}</tr>
          <tr>{sides.map((side) => [<th key={`${side} m`} scope="col" class="number">multiply-adds</th>, <th key={`${side} r`} scope="col" class="number">of the least</th>, <th key={`${side} b`} scope="col" class="number">bytes</th>])}</tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const name = String(row.order ?? row.name), [title, what] = kNames[name] ?? [name, ""];
            return (
              <tr key={name}>
                <th scope="row">{title}<small>{what}</small></th>
                {sides.map((side) => {
                  const cost = costOf(row, side);
                  if (!cost) return [<td key={`${side} none`} class="note" colSpan={3}>not possible here</td>];
                  const best = cost.multiply_adds === least[side];
                  return [<td key={`${side} m`} class={`number ${best ? "best" : ""}`}>{short(cost.multiply_adds)}</td>, <td key={`${side} r`} class={`number ${best ? "best" : ""}`}>{best ? "least" : `× ${(cost.multiply_adds / least[side]).toFixed(2)}`}</td>, <td key={`${side} b`} class="number">{short(cost.bytes)}</td>];
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function BreakEvens({ json, model, queries }: { json: Json; model: Bench["model"]; queries: number }) {
  const merging = Number(json.merging_pays_above), absorbing = json.absorbing_pays_below === null ? Infinity : Number(json.absorbing_pays_below);
  if (Number.isNaN(merging)) return null;
  const share = model.head_width / model.width;
  return (
    <dl class="facts">
      <dt>Merging pays if <i>E</i>/<i>D</i> is above</dt><dd>{merging.toFixed(3)}; here it is {share.toFixed(3)}: {share > merging ? "it pays" : "it does not"}</dd>
      <dt>Absorbing pays if fewer rows are read than</dt><dd>{Number.isFinite(absorbing) ? absorbing.toFixed(1) : "any number"}; now {queries}: {queries < absorbing ? "it pays" : "it does not"}</dd>
    </dl>
  );
}

// Cost of merging by that of projecting, over tokens and head width; the line where both are equal, and this model.
function BreakEvenMap({ ratio, shape: [rows, columns], answer, bench }: { ratio: Float32Array; shape: number[]; answer: { json: Json; arrays: Record<string, { data: ArrayLike<number> }> }; bench: Bench }) {
  const { model } = bench, canvas = useRef<HTMLCanvasElement>(null);
  const tokens = answer.arrays.map_tokens?.data, widths = answer.arrays.map_head_width?.data;
  const logs = Float32Array.from(ratio, (r) => Math.log2(r));
  useLayoutEffect(() => {
    canvas.current!.width = columns;
    canvas.current!.height = rows;
    const context = canvas.current!.getContext("2d")!;
    context.save();
    context.translate(0, rows); // more tokens above
    context.scale(1, -1);
    context.drawImage(mapCanvas(logs, 0, rows, columns, { low: -2, high: 2 }, diverging), 0, 0);
    context.restore();
  }, [ratio]);
  const place = (axis: ArrayLike<number> | undefined, value: number) => {
    if (!axis) return null;
    let best = 0;
    for (let i = 1; i < axis.length; ++i) if (Math.abs(Math.log(axis[i] / value)) < Math.abs(Math.log(axis[best] / value))) best = i;
    return (best + 0.5) / axis.length;
  };
  const x = place(widths, model.head_width), y = place(tokens, tokensOf(model));
  const ends = (axis: ArrayLike<number> | undefined): [string, string] => (axis ? [String(Math.round(axis[0])), String(Math.round(axis[axis.length - 1]))] : ["", ""]);
  const [n0, n1] = ends(tokens), [e0, e1] = ends(widths);
  const line: string[] = [];
  for (let r = 0; r < rows; ++r) {
    for (let c = 1; c < columns; ++c) {
      const a = logs[r * columns + c - 1], b = logs[r * columns + c];
      if (a > 0 !== b > 0) line.push(`${((c - 0.5 + a / (a - b)) / columns) * 100},${(1 - (r + 0.5) / rows) * 100}`);
    }
  }
  return (
    <section>
      <h2>Break-even map</h2>
      <p class="note">One head on tokens of width {model.width}: multiply-adds of merging beforehand, relative to projecting. Blue: merging is cheaper. Red: projecting is.</p>
      <div class="break-even">
        <span class="y"><span>{n1}</span><b>tokens</b><span>{n0}</span></span>
        <div class="map">
          <canvas ref={canvas} class="pixels" role="img" aria-label={`Break-even map: merging beforehand against projecting, over head width ${e0} to ${e1} and ${n0} to ${n1} tokens. This model lies where projecting is ${bench.model.heads > 1 ? "cheaper" : "or merging may be cheaper"}.`} />
          <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true"><polyline points={line.join(" ")} vector-effect="non-scaling-stroke" /></svg>
          {x !== null && y !== null && <span class="here" style={{ left: `${100 * x}%`, bottom: `${100 * y}%` }}><b>this model</b></span>}
        </div>
        <span class="x"><span>{e0}</span><b>head width</b><span>{e1}</span></span>
      </div>
      <Legend low="× ¼" high="× 4" map={diverging} what="merged / projected" />
    </section>
  );
}
