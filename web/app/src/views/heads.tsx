// Each head's matrix M = W_Qᵀ W_K (and W_O W_V): spectrum, symmetry, ranks. Nothing here depends on the picture.
import { useState } from "preact/hooks";
import type { Bench } from "../bench";
import { diverging, onGround } from "../colour/maps";
import { besideM } from "../beside";
import { tokenName } from "../model";
import { set } from "../state";
import { useAnswer } from "../transport/client";
import { Choice, plain, Problem, Waiting, WK, WQ } from "../ui/controls";
import { HeatTable } from "../ui/heat_table";
import { Layout } from "../ui/panel";
import { headText, More, Title } from "./view";

const listed = (parts: string[]) =>
  parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}` : parts.join();

export function HeadsView({ bench }: { bench: Bench }) {
  const { model, block, head, pass, query } = bench;
  const [circuit, setCircuit] = useState<"qk" | "ov">("qk");
  const asked = useAnswer("heads", { model: model.id });
  const prefix = circuit === "qk" ? "" : "ov_";
  const of = (name: string) => asked.answer?.arrays[prefix + name]?.data as Float32Array | undefined;
  const singular = of("singular"),
    symmetry = of("symmetry"),
    effective = of("effective_rank"),
    energy = of("energy_rank");
  const L = model.blocks,
    H = model.heads,
    R = singular ? singular.length / (L * H) : 0;
  const row = pass.attention?.row(block, head, query) ?? null,
    beside = besideM(model);
  const grid = (values: Float32Array) => Array.from({ length: L }, (_, l) => [...values.subarray(l * H, (l + 1) * H)]);
  const names = {
    rows: Array.from({ length: L }, (_, l) => `block ${l}`),
    columns: Array.from({ length: H }, (_, h) => `head ${h}`),
  };
  const pick = {
    pressed: (l: number, h: number) => l === block && h === head,
    onPick: (l: number, h: number) => set({ block: l, head: h }),
    action: "Shows its attention.",
  };
  return (
    <Layout
      bench={bench}
      overlay={{
        values: row,
        label: `Attention of ${tokenName(model, query)}, block ${block}, ${headText(bench)}`,
        what: "weight",
      }}
    >
      <Title title="Heads as matrices">
        <p>
          {beside.length ? "A head's scores depend on the matrix" : "A head's scores depend on one matrix alone,"}{" "}
          <span class="math">
            <i>M</i> = <i>W</i>
            <sub>Q</sub>
            <sup>T</sup>
            <i>W</i>
            <sub>K</sub>
          </span>
          {beside.length > 0 && <>, and on {listed(beside)}, which no number here counts</>}; what it writes depends on{" "}
          <span class="math">
            <i>W</i>
            <sub>O</sub>
            <i>W</i>
            <sub>V</sub>
          </span>
          . Here are their singular values and how symmetric they are. Choose a head to see it at work in the picture.
        </p>
      </Title>
      <Choice
        label="Matrix"
        value={circuit}
        options={[
          ["qk", "where it looks (QK)"],
          ["ov", "what it writes (OV)"],
        ]}
        onChange={(value) => setCircuit(value as "qk" | "ov")}
      />
      <Problem error={asked.error} />
      <Waiting for={asked}>Measuring {L * H} heads…</Waiting>
      {singular && symmetry && <Spectra bench={bench} singular={singular} symmetry={symmetry} R={R} />}
      {symmetry && (
        <section>
          <h2>Symmetry</h2>
          <p class="note">
            (‖<i>M</i>
            <sub>s</sub>‖² − ‖<i>M</i>
            <sub>a</sub>‖²) / ‖<i>M</i>‖²: +1 if <i>M</i> is symmetric, as a shared projection would make it; 0 if both
            parts are alike, as for random weights; −1 if it is antisymmetric.
          </p>
          <HeatTable
            {...names}
            label="Symmetry of each head"
            values={grid(symmetry)}
            low={-1}
            high={1}
            map={diverging}
            text={(x) => plain(x)}
            {...pick}
          />
        </section>
      )}
      {effective && (
        <section>
          <h2>Effective rank</h2>
          <p class="note">
            Directions in use: the exponential of the entropy of the singular values' shares. A head could use {R}.
            {energy && " The small number is the directions that hold 90 % of the energy."}
          </p>
          <HeatTable
            {...names}
            label="Effective rank of each head"
            values={grid(effective)}
            low={1}
            high={Math.max(2, ...effective)}
            text={(x) => x.toFixed(1)}
            note={
              energy && energy.length === L * H * 3 ? (l, h) => String(Math.round(energy[(l * H + h) * 3])) : undefined
            }
            {...pick}
          />
        </section>
      )}
      <More title="How to read it">
        <p>
          LayerNorm is folded in, so the spectra are those of what the head computes. A steep curve is a head that
          compares few directions: it could be narrower.{" "}
          {model.query_bias && (
            <>
              The bias of the queries adds <i>b</i>
              <sub>Q</sub>
              <sup>T</sup>
              <i>W</i>
              <sub>K</sub>
              <i>x</i>
              <sub>j</sub> to every score of key <i>j</i>; the softmax cancels what a bias of the keys adds.{" "}
            </>
          )}
          {WQ} and {WK} alone say little, since <i>W</i>
          <sub>Q</sub> → <i>A</i>
          <i>W</i>
          <sub>Q</sub>, <i>W</i>
          <sub>K</sub> → <i>A</i>
          <sup>−T</sup>
          <i>W</i>
          <sub>K</sub> changes them but not <i>M</i> (see Gauge).
        </p>
      </More>
    </Layout>
  );
}

// Small multiples: the singular values of each head, relative to the greatest.
function Spectra({
  bench,
  singular,
  symmetry,
  R,
}: {
  bench: Bench;
  singular: Float32Array;
  symmetry: Float32Array;
  R: number;
}) {
  const { model, block, head } = bench,
    L = model.blocks,
    H = model.heads;
  const w = 96,
    h = 52;
  return (
    <section>
      <h2>Singular values</h2>
      <div class="wide" tabIndex={0} role="region" aria-label="Singular values of every head">
        <div class="spectra" style={{ gridTemplateColumns: `2rem repeat(${H}, minmax(2.6rem, 7rem))` }}>
          {Array.from({ length: L }, (_, l) => [
            <span key={`row ${l}`} class="row-name">
              {l}
            </span>,
            ...Array.from({ length: H }, (_, j) => {
              const at = (l * H + j) * R,
                most = singular[at] || 1;
              const points = Array.from(
                { length: R },
                (_, i) => `${((i + 0.5) / R) * w},${(h - 3 - (singular[at + i] / most) * (h - 8)).toFixed(1)}`,
              );
              const half = [...singular.subarray(at, at + R)].filter((x) => x > most / 2).length;
              return (
                <button
                  key={j}
                  type="button"
                  aria-pressed={l === block && j === head}
                  onClick={() => set({ block: l, head: j })}
                  aria-label={`block ${l}, head ${j}: greatest singular value ${most.toPrecision(3)}, ${half} above half of it, symmetry ${plain(symmetry[l * H + j])}`}
                >
                  <svg viewBox={`0 0 ${w} ${h}`} aria-hidden="true" preserveAspectRatio="none">
                    <polygon points={`0,${h} ${points.join(" ")} ${w},${h}`} />
                    <polyline points={points.join(" ")} />
                  </svg>
                  <i
                    class="chip"
                    style={{ backgroundColor: onGround(diverging, (symmetry[l * H + j] + 1) / 2).colour }}
                  />
                </button>
              );
            }),
          ])}
        </div>
      </div>
      <p class="note">
        Each curve runs from the greatest singular value to the least, {R} of them, relative to the greatest. The strip
        under it is the symmetry, red for +1, blue for −1. Rows are blocks, columns heads.
      </p>
    </section>
  );
}
