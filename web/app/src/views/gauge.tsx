// The gauge freedom: W_Q and W_K change wildly, attention stays.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Bench } from "../bench";
import { usePass } from "../bench";
import { diverging } from "../colour/maps";
import { commonRange, mapCanvas, rangeOf } from "../draw/canvas";
import { tokenName } from "../model";
import type { NamedArray, Packet } from "../packet";
import { set } from "../state";
import { isKept, useAnswer } from "../transport/client";
import { percent, Problem, Slider, Waiting, WK, WQ } from "../ui/controls";
import { Obstacle } from "../ui/obstacle";
import { Layout } from "../ui/panel";
import { Picture } from "../ui/picture";
import { BlockAndHead, More, Title } from "./view";

const kEmpty: Packet = { json: {}, arrays: {} };

export function GaugeView({ bench }: { bench: Bench }) {
  const { s, model, block, seen, query, base } = bench;
  const head = typeof bench.head === "number" ? bench.head : 0;
  const possible = model.exact.includes("gauge");
  const asked = useAnswer(
    "gauge",
    possible
      ? { model: model.id, block, head, strength: s.strength, seed: s.seed, ...(seen ? { image: seen.id } : {}) }
      : null,
  );
  const after = usePass(
    possible ? seen : null,
    [{ kind: "gauge", strength: s.strength, seed: s.seed, blocks: "all", heads: "all" }],
    block,
  );
  const { json, arrays } = asked.answer ?? kEmpty;
  const change = (json.change as number[] | undefined) ?? [NaN, NaN];
  const row = base.attention?.row(block, head, query) ?? null;
  const maps = row && after.attention ? [row, after.attention.row(block, head, query)] : null,
    range = maps && seen ? commonRange(maps, seen.model.prefix.length) : undefined;
  return (
    <Layout
      bench={bench}
      overlay={{
        values: row,
        label: `Attention of ${tokenName(model, query)}, block ${block}, head ${head}`,
        what: "weight",
      }}
    >
      <Title title="Gauge: other queries and keys, the same attention">
        <p>
          Multiply {WQ} by any invertible matrix <i>A</i> and {WK} by its inverse transpose
          {model.query_bias && ", their biases too"}: both change as much as you like, and not one score does. So the
          numbers in {WQ} or {WK} alone mean nothing; only their product does.
        </p>
      </Title>
      <Obstacle bench={bench} edit={{ kind: "gauge", strength: 0.5, seed: 1, blocks: "all", heads: "all" }} />
      <div class="controls">
        <Slider
          label="Strength of A"
          value={s.strength}
          min={0}
          max={1}
          step={0.05}
          text={s.strength.toFixed(2)}
          ends={["0: A = I", "1: a random matrix"]}
          disabled={!possible || isKept()}
          onInput={(strength) => set({ strength })}
        />
        <div class="row">
          <button type="button" disabled={!possible || isKept()} onClick={() => set({ seed: s.seed + 1 })}>
            Another A
          </button>
        </div>
        <BlockAndHead bench={bench} mean={false} />
        {model.heads > 1 && (
          <Slider
            label="Head"
            value={head}
            min={0}
            max={model.heads - 1}
            step={1}
            text={String(head)}
            onInput={(value) => set({ head: value })}
          />
        )}
      </div>
      <Problem error={asked.error} />
      <Waiting for={asked}>
        Multiplying {WQ} and {WK}…
      </Waiting>
      {arrays.wq && (
        <>
          <div class="matrices">
            <Matrix array={arrays.wq} title="W_Q as trained" />
            <Matrix array={arrays.wq2} title="W_Q, multiplied" />
            <Matrix array={arrays.wk} title="W_K as trained" />
            <Matrix array={arrays.wk2} title="W_K, multiplied" />
          </div>
          <dl class="facts" aria-live="polite">
            <dt>{WQ} changed by</dt>
            <dd>{percent(change[0])} of its norm</dd>
            <dt>{WK} changed by</dt>
            <dd>{percent(change[1])} of its norm</dd>
            <dt>
              their product{" "}
              <span class="math">
                <i>W</i>
                <sub>Q</sub>
                <sup>T</sup>
                <i>W</i>
                <sub>K</sub>
              </span>{" "}
              changed by
            </dt>
            <dd>{Number(json.product).toExponential(1).replace("-", "−")} of its norm: rounding</dd>
            {typeof json.attention === "number" && (
              <>
                <dt>greatest change of a weight on this picture</dt>
                <dd>{Number(json.attention).toExponential(1).replace("-", "−")}</dd>
              </>
            )}
          </dl>
          {seen && maps && (
            <div class="pair">
              <figure>
                <Picture seen={seen} values={maps[0]} range={range} query={query} label="Attention as trained" />
                <figcaption>Attention as trained</figcaption>
              </figure>
              <figure>
                <Picture
                  seen={seen}
                  values={maps[1]}
                  range={range}
                  query={query}
                  label="Attention with every head's weights multiplied"
                />
                <figcaption>With A in every head of every block</figcaption>
              </figure>
            </div>
          )}
        </>
      )}
      <More title="Formula">
        <p class="formula">
          (<i>A</i>
          <i>W</i>
          <sub>Q</sub>)<sup>T</sup>(<i>A</i>
          <sup>−T</sup>
          <i>W</i>
          <sub>K</sub>) = <i>W</i>
          <sub>Q</sub>
          <sup>T</sup>
          <i>A</i>
          <sup>T</sup>
          <i>A</i>
          <sup>−T</sup>
          <i>W</i>
          <sub>K</sub> = <i>W</i>
          <sub>Q</sub>
          <sup>T</sup>
          <i>W</i>
          <sub>K</sub>
        </p>
        <p>
          A head of width <i>E</i> has <i>E</i>² such free numbers. The loss does not depend on them, so its gradient
          never points along them; weight decay, Adam and steps of finite size do move them. Pictures of {WQ} should be
          read with that in mind. Rotary positions and QK-norm leave only part of the freedom.
        </p>
      </More>
    </Layout>
  );
}

// A matrix as coloured cells, symmetric around 0.
function Matrix({ array, title }: { array?: NamedArray; title: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (!array || !canvas.current) return;
    const [rows, columns] = array.shape,
      { low, high } = rangeOf(array.data),
      most = Math.max(-low, high) * 0.7;
    canvas.current.width = columns;
    canvas.current.height = rows;
    canvas.current
      .getContext("2d")!
      .drawImage(mapCanvas(array.data, 0, rows, columns, { low: -most, high: most }, diverging), 0, 0);
  }, [array]);
  if (!array) return null;
  return (
    <figure>
      <canvas ref={canvas} class="pixels" role="img" aria-label={`${title}, ${array.shape[0]} by ${array.shape[1]}`} />
      <figcaption>{formatted(title)}</figcaption>
    </figure>
  );
}
const formatted = (title: string) => (
  <>
    <i>W</i>
    <sub>{title[2]}</sub>
    {title.slice(3)}
  </>
);
