// Views that edit the scores of all heads: the symmetric part against the antisymmetric one, and the rank.
import { useMemo, useState } from "preact/hooks";
import type { Bench } from "../bench";
import { commonRange } from "../draw/canvas";
import { labelOf, sharesQueryAndKey, tokenName, type Model } from "../model";
import { set, type Edit } from "../state";
import { isKept, theClient, useAnswer } from "../transport/client";
import { Choice, KeptOnly, percent, plain, Problem, Slider } from "../ui/controls";
import { HeadGrid } from "../ui/head_grid";
import { HeatTable } from "../ui/heat_table";
import { Obstacle } from "../ui/obstacle";
import { Layout } from "../ui/panel";
import { argmax } from "../ui/predictions";
import { Picture } from "../ui/picture";
import { LinePlot } from "../ui/plot";
import { Legend } from "../ui/legend";
import { cosine } from "../vectors";
import { BlockAndHead, headText, More, Title } from "./view";

/** The chosen map as trained and as edited, and how far each head's weights moved. */
function Drift({ bench }: { bench: Bench }) {
  const { seen, pass, base, query, block, head } = bench;
  const now = pass.attention,
    before = base.attention;
  const drift = useMemo(() => {
    if (!now || !before || now.blocks !== before.blocks) return null;
    return now.which.map((b) => Array.from({ length: now.heads }, (_, h) => now.drift(before, b, h)));
  }, [now, before]);
  if (!seen || !now || !before || !drift) return null;
  const all = drift.flat(),
    mean = all.reduce((a, b) => a + b, 0) / all.length;
  const rows = [before.row(block, head, query), now.row(block, head, query)],
    range = commonRange(rows, seen.model.prefix.length);
  return (
    <>
      <div class="pair">
        <figure>
          <Picture seen={seen} values={rows[0]} range={range} query={query} label="As trained" />
          <figcaption>
            As trained: block {block}, {headText(bench)}
          </figcaption>
        </figure>
        <figure>
          <Picture seen={seen} values={rows[1]} range={range} query={query} label="As edited" />
          <figcaption>As edited</figcaption>
        </figure>
      </div>
      <Legend low={percent(0)} high={percent(range.high)} what="weight, of both" />
      <BlockAndHead bench={bench} />
      <section>
        <h2>Every head, as edited</h2>
        <HeadGrid
          seen={seen}
          attention={now}
          query={query}
          block={block}
          head={head}
          most={84}
          crossed={bench.s.cutHeads}
          onPick={(b, h) => set({ block: b, head: h })}
        />
      </section>
      <section>
        <h2>How far the weights moved</h2>
        <p class="note">
          Half the sum of differences, mean over queries: 0 % if a head attends as trained, 100 % if to other tokens
          altogether. All heads: {percent(mean)}.
        </p>
        <HeatTable
          label="How far each head's weights moved"
          rows={now.which.map((b) => `block ${b}`)}
          columns={drift[0].map((_, h) => `head ${h}`)}
          values={drift}
          low={0}
          high={Math.max(0.1, ...all)}
          text={(x) => `${(100 * x).toFixed(0)}`}
          unit="%"
        />
      </section>
    </>
  );
}

interface Point {
  x: number;
  values: Float32Array; // scores of the classes; without any the one cosine with the embedding as trained
}

/** The answer at every setting of an edit, by a pass for each. */
function Sweep({
  bench,
  label,
  settings,
  edit,
  at,
}: {
  bench: Bench;
  label: string;
  settings: number[];
  edit(x: number): Edit[];
  at: number;
}) {
  const { seen, model, base } = bench;
  const [result, setResult] = useState<{ image: string; points: Point[] } | null>(null);
  const [running, setRunning] = useState(false);
  const classes = base.scores,
    embedding = base.embedding;
  if (!seen || !(classes ?? embedding) || theClient().transport.kind === "recording") return null;
  const run = async () => {
    setRunning(true);
    const points: Point[] = [];
    for (const x of settings) {
      const edits = edit(x);
      const { arrays } = await theClient().ask({
        name: "pass",
        json: { model: model.id, image: seen.id, blocks: [], ...(edits.length ? { edits } : {}) },
      });
      const values = classes
        ? (arrays.scores.data as Float32Array)
        : Float32Array.of(cosine(arrays.embedding.data as Float32Array, embedding!));
      points.push({ x, values });
      setResult({ image: seen.id, points: [...points] });
    }
    setRunning(false);
  };
  const points = result?.image === seen.id ? result.points : [];
  const lines = [...new Set(points.map(({ values }) => argmax(values)))].slice(0, 5).map((index) => ({
    name: classes ? labelOf(model, index) : "cosine with the embedding as trained",
    points: points.map(({ x, values }): [number, number] => [x, values[index]]),
  }));
  // Probabilities have a scale of their own; cosines are shown from the tenth below the least.
  const low = classes ? 0 : Math.floor(10 * Math.min(0.99, ...points.map(({ values }) => values[0]))) / 10;
  return (
    <section data-not-kept={points.length > 1 ? undefined : ""}>
      <h2>{classes ? "Prediction" : "Embedding"} along the slider</h2>
      {points.length > 1 ? (
        <LinePlot
          label={label}
          at={at}
          yLabel={classes ? "probability" : "cosine"}
          yText={classes ? (y) => `${Math.round(100 * y)} %` : (y) => plain(y, 3)}
          low={low}
          high={1}
          lines={lines}
        />
      ) : (
        <p class="note">A pass for each of {settings.length} settings.</p>
      )}
      <button type="button" disabled={running} onClick={() => run().catch(() => setRunning(false))}>
        {running ? "Running…" : points.length ? "Run again" : "Run through the slider"}
      </button>
    </section>
  );
}

const without = (edits: Edit[], kind: string) => edits.filter((edit) => edit.kind !== kind);

export function SymmetryView({ bench }: { bench: Bench }) {
  const { s, pass, query, block, head, model } = bench;
  const row = pass.attention?.row(block, head, query) ?? null;
  const possible = model.exact.includes("symmetry");
  return (
    <Layout
      bench={bench}
      overlay={{ values: row, label: `Attention of ${tokenName(model, query)} at t = ${plain(s.t)}`, what: "weight" }}
    >
      <Title title="Symmetry: may two patches look at each other differently?">
        <p>
          Separate queries and keys let the score from i to j differ from the score from j to i. The slider takes that
          freedom away: at 0 both are equal, as one shared projection forces them to be; at −1 queries and keys have
          swapped roles.
        </p>
      </Title>
      <Obstacle bench={bench} edit={{ kind: "symmetry", t: 0, blocks: "all", heads: "all" }} />
      <Slider
        label={
          <>
            t in{" "}
            <span class="math">
              <i>M</i>
              <sub>s</sub> + <i>t</i> · <i>M</i>
              <sub>a</sub>
            </span>
          </>
        }
        value={s.t}
        min={-1}
        max={1}
        step={0.05}
        text={plain(s.t)}
        list={[-1, 0, 1]}
        ends={["−1: roles swapped", "1: as trained"]}
        disabled={!possible || isKept()}
        onInput={(t) => set({ t: Math.abs(t) < 0.001 ? 0 : t })}
      />
      <div class="row">
        {(
          [
            [-1, "Swap"],
            [0, "Symmetric"],
            [1, "As trained"],
          ] as const
        ).map(([t, name]) => (
          <button
            key={t}
            type="button"
            aria-pressed={s.t === t}
            disabled={!possible || isKept()}
            onClick={() => set({ t })}
          >
            {name}
          </button>
        ))}
      </div>
      {isKept() ? <KeptOnly /> : <Problem error={pass.error} />}
      <Drift bench={bench} />
      {possible && (
        <Sweep
          bench={bench}
          label="t"
          settings={[-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]}
          at={s.t}
          edit={(t) => [
            ...without(bench.edits, "symmetry"),
            ...(t === 1 ? [] : [{ kind: "symmetry", t, blocks: "all", heads: "all" }]),
          ]}
        />
      )}
      <More title="Formula and limits">
        <p class="formula">
          <i>M</i> = <i>W</i>
          <sub>Q</sub>
          <sup>T</sup>
          <i>W</i>
          <sub>K</sub>, &nbsp; <i>M</i>
          <sub>s</sub> = ½ (<i>M</i> + <i>M</i>
          <sup>T</sup>), &nbsp; <i>M</i>
          <sub>a</sub> = ½ (<i>M</i> − <i>M</i>
          <sup>T</sup>)
        </p>
        <p>
          The scores <i>S</i> become (1+<i>t</i>)/2 · <i>S</i> + (1−<i>t</i>)/2 · <i>S</i>
          <sup>T</sup> in every head. Weights may differ at <i>t</i> = 0 too: the softmax divides each row by a sum of
          its own. Sharing one projection asks for more than symmetry: <i>M</i> = <i>W</i>
          <sup>T</sup>
          <i>W</i> has no negative eigenvalue, so <i>S</i>
          <sub>ii</sub> + <i>S</i>
          <sub>jj</sub> ≥ 2 <i>S</i>
          <sub>ij</sub>: of two patches at most one may score the other above itself.
        </p>
        <p>
          {sharesQueryAndKey(model)
            ? `${model.title} has one projection for queries and keys, so its scores are symmetric as trained, and no t changes them.`
            : "What you see is the damage to weights trained without that constraint. A model trained with one projection finds other weights: the digits and CIFAR-10 lose little by it or nothing that can be measured (see Twins)."}
        </p>
      </More>
    </Layout>
  );
}

/** How many directions the model's heads use, by their effective ranks. */
function DirectionsUsed({ model }: { model: Model }) {
  const { answer } = useAnswer("heads", { model: model.id });
  const ranks = [...((answer?.arrays.effective_rank?.data as Float32Array | undefined) ?? [])].sort((a, b) => a - b);
  if (!ranks.length) return null;
  return (
    <>
      {" "}
      By their effective rank, half of this model's heads use {ranks[Math.floor((ranks.length - 1) / 2)].toFixed(1)} or
      fewer; the least is {ranks[0].toFixed(1)}, the greatest {ranks[ranks.length - 1].toFixed(1)} (see Heads).
    </>
  );
}

export function RankView({ bench }: { bench: Bench }) {
  const { s, pass, query, block, head, model } = bench;
  const whole = model.directions,
    rank = s.rank > 0 ? Math.min(s.rank, whole) : whole;
  const row = pass.attention?.row(block, head, query) ?? null;
  const possible = model.exact.includes("rank");
  const settings = [...new Set([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, whole])].filter((r) => r <= whole);
  const toEdits = (r: number): Edit[] => [
    ...(r < whole ? [{ kind: "rank", rank: r, by: s.rankBy, blocks: "all", heads: "all" }] : []),
    ...without(bench.edits, "rank"),
  ];
  return (
    <Layout
      bench={bench}
      overlay={{ values: row, label: `Attention of ${tokenName(model, query)} at rank ${rank}`, what: "weight" }}
    >
      <Title title="Rank: how many directions does a head compare?">
        <p>
          A head compares tokens in at most {whole} directions. The slider keeps only the most important ones.
          {possible && <DirectionsUsed model={model} />}
        </p>
      </Title>
      <Obstacle bench={bench} edit={{ kind: "rank", rank: 1, by: "weights", blocks: "all", heads: "all" }} />
      <Slider
        label="Directions kept in each head"
        value={rank}
        min={1}
        max={whole}
        step={1}
        text={`${rank} of ${whole}`}
        ends={["1", `${whole}: as trained`]}
        disabled={!possible || isKept()}
        onInput={(r) => set({ rank: r >= whole ? 0 : r })}
      />
      <Choice
        label="Most important for"
        value={s.rankBy}
        options={[
          ["weights", "the weights"],
          ["data", "this picture's tokens"],
        ]}
        disabled={isKept()}
        onChange={(rankBy) => set({ rankBy })}
      />
      {isKept() ? <KeptOnly /> : <Problem error={pass.error} />}
      <Drift bench={bench} />
      {possible && <Sweep bench={bench} label="directions" settings={settings} at={rank} edit={toEdits} />}
      <More title="Formula and limits">
        <p class="formula">
          <i>M</i> = <i>W</i>
          <sub>Q</sub>
          <sup>T</sup>
          <i>W</i>
          <sub>K</sub> = <i>U</i> Σ <i>V</i>
          <sup>T</sup> ≈ <i>U</i>
          <sub>r</sub> Σ<sub>r</sub> <i>V</i>
          <sub>r</sub>
          <sup>T</sup>
        </p>
        <p>
          “The weights” is the best rank-<i>r</i> approximation of <i>M</i> itself (Eckart and Young). “This picture's
          tokens” weighs directions by how much the tokens of this picture use them: no other <i>M</i> of that rank
          changes its scores less, in the mean square.
          {model.shipped === "digits" &&
            " By the weights alone, this model still classifies 98.93 % of 10,000 test images with 2 of 24 directions (99.43 % as trained)."}
        </p>
      </More>
    </Layout>
  );
}
