// Take heads or tokens away and see how the answer changes: the logits, or of a model without classes the embedding.
import { useEffect, useState } from "preact/hooks";
import type { Bench } from "../bench";
import { diverging, sequential } from "../colour/maps";
import { labelOf, tokenName } from "../model";
import { set } from "../state";
import { isKept, theClient } from "../transport/client";
import { KeptOnly, percent, plain, Problem, Select, signed, Toggle } from "../ui/controls";
import { HeatTable } from "../ui/heat_table";
import { Obstacle } from "../ui/obstacle";
import { Layout } from "../ui/panel";
import { argmax } from "../ui/predictions";
import { More, Title } from "./view";

const count = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`;

interface Row {
  change: number[]; // of the logit; of an embedding 1 − cosine
  winners: number[];
}

// A pass for each head takes a large model many seconds, in which it answers nothing else: it is asked for by a button.
const kAtOnce = 5e8; // parameters times heads

// The change by each head, asked block after block: of a class's logit, or of the embedding (kNoClass).
const kNoClass = -2;
function useKnockouts(bench: Bench, klass: number | null): { rows: (Row | null)[]; error: Error | null } {
  const { seen, model, s } = bench;
  // Heads that are out stay out of the question: what each head is worth is measured in the model as it now is.
  const tokens = s.cutTokens.map((token) => ({ kind: "token", token }));
  const key = seen && klass !== null ? JSON.stringify([model.id, seen.id, klass, tokens]) : "";
  const [found, setFound] = useState<{ key: string; rows: (Row | null)[]; error: Error | null }>({
    key: "",
    rows: [],
    error: null,
  });
  useEffect(() => {
    if (!key || !seen) return;
    let dropped = false;
    const rows: (Row | null)[] = Array(model.blocks).fill(null);
    const run = async () => {
      // The last block first: it matters most for what the picture shows.
      for (let block = model.blocks - 1; block >= 0 && !dropped; --block) {
        const { json, arrays } = await theClient().ask({
          name: "knockout",
          json: {
            model: model.id,
            image: seen.id,
            ...(klass === kNoClass ? {} : { class: klass }),
            block,
            ...(tokens.length ? { edits: tokens } : {}),
          },
        });
        const winners = ((json.top as (number | { index: number })[]) ?? []).map((winner) =>
          typeof winner === "number" ? winner : winner.index,
        );
        const numbers = [...((arrays.change ?? arrays.cosine).data as Float32Array)];
        rows[block] = { change: arrays.change ? numbers : numbers.map((cosine) => 1 - cosine), winners };
        if (!dropped) setFound({ key, rows: [...rows], error: null });
      }
    };
    // A drawing in progress would queue a pass for each head at each stroke.
    const timer = setTimeout(
      () =>
        run().catch((error: Error & { type?: string }) => {
          // A kept page has the blocks that were known when it was kept.
          if (!dropped) setFound({ key, rows, error: error.type === "not_recorded" ? null : error });
        }),
      250,
    );
    return () => {
      dropped = true;
      clearTimeout(timer);
    };
  }, [key]);
  const current = found.key === key || found.rows.length === model.blocks;
  return { rows: current ? found.rows : [], error: found.key === key ? found.error : null };
}

export function KnockoutView({ bench }: { bench: Bench }) {
  const { s, model, seen, pass, base, query, block, head } = bench;
  const { classifier } = model,
    possible = model.exact.includes("head");
  const klass = !classifier
    ? kNoClass
    : s.klass >= 0 && s.klass < (base.scores?.length ?? 0)
      ? s.klass
      : base.scores
        ? argmax(base.scores)
        : -1;
  const large = model.parameters * model.heads * model.blocks > kAtOnce;
  const [measured, measure] = useState("");
  const measuring = !large || isKept() || (seen !== null && measured === `${seen.id} ${klass}`);
  const { rows, error } = useKnockouts(bench, possible && measuring && klass !== -1 ? klass : null);
  const row = pass.attention?.row(block, head, query) ?? null;
  const most = Math.max(classifier ? 0.5 : 0.001, ...rows.flatMap((each) => each?.change.map(Math.abs) ?? []));
  const toggle = (b: number, h: number) => {
    const name = `${b}.${h}`;
    set({ cutHeads: s.cutHeads.includes(name) ? s.cutHeads.filter((each) => each !== name) : [...s.cutHeads, name] });
  };
  const ranked = base.scores ? [...base.scores.keys()].sort((a, b) => base.scores![b] - base.scores![a]) : [];
  return (
    <Layout
      bench={bench}
      chosen={klass}
      overlay={{ values: row, label: `Attention of ${tokenName(model, query)}`, what: "weight" }}
    >
      <Title title="Knock out heads and tokens">
        <p>
          Click a head to take its output away, or hide patches from all others.{" "}
          {classifier
            ? "The prediction follows. Each number is what removing that head alone does to the class's logit."
            : "The embedding follows. Each number is the cosine between the embeddings with and without that head."}
        </p>
      </Title>
      {classifier && (
        <Select
          label="Class"
          value={String(klass)}
          disabled={isKept()}
          onChange={(value) => set({ klass: Number(value) })}
          options={(model.labels.length ? model.labels.map((_, i) => i) : ranked.slice(0, 10)).map((i) => [
            String(i),
            labelOf(model, i),
          ])}
        />
      )}
      {possible && !measuring && seen && !isKept() && (
        <p>
          <button type="button" onClick={() => measure(`${seen.id} ${klass}`)}>
            Measure every head
          </button>{" "}
          <span class="note">
            {model.blocks * model.heads} passes, about{" "}
            {Math.ceil((model.blocks * model.heads * Math.max(pass.milliseconds, 1)) / 1000)} s
          </span>
        </p>
      )}
      {possible && (
        <>
          <HeatTable
            caption={
              classifier
                ? `Change of the logit of ${labelOf(model, klass)} without the head`
                : "Cosine between the embeddings with and without the head"
            }
            rows={Array.from({ length: model.blocks }, (_, b) => `block ${b}`)}
            columns={Array.from({ length: model.heads }, (_, h) => `head ${h}`)}
            values={Array.from({ length: model.blocks }, (_, b) => rows[b]?.change ?? Array(model.heads).fill(null))}
            low={classifier ? -most : 0}
            high={most}
            map={classifier ? diverging : sequential}
            text={(x) => (classifier ? signed(x) : plain(1 - x, 4))}
            unit={classifier ? "of the logit" : ""}
            note={(b, h) => {
              const winner = rows[b]?.winners[h];
              return winner !== undefined && ranked.length && winner !== ranked[0] ? `→ ${labelOf(model, winner)}` : "";
            }}
            pressed={(b, h) => s.cutHeads.includes(`${b}.${h}`)}
            onPick={isKept() ? undefined : toggle}
            crosses
            action="Takes the head out or puts it back."
          />
          <p class="note">
            {classifier
              ? "Blue: the class loses without the head. Red: it gains. An arrow names the class that would then win."
              : "The brighter, the further the embedding turns without the head. At 1 it keeps its direction."}{" "}
            A pale number with “out” is a head that is out now.
          </p>
        </>
      )}
      <Obstacle bench={bench} edit={{ kind: "head", block: 0, head: 0 }} />
      <Problem error={error} />
      <KeptOnly />
      <section data-not-kept={s.cutHeads.length || s.cutTokens.length ? undefined : ""}>
        <h2>Hide tokens</h2>
        <Toggle
          label="Clicks on the picture hide patches"
          value={s.cutting}
          disabled={isKept()}
          onChange={(cutting) => set({ cutting, held: false })}
        />
        <div class="row">
          {model.prefix.map((_, token) => (
            <button
              key={token}
              type="button"
              aria-pressed={s.cutTokens.includes(token)}
              disabled={isKept()}
              onClick={() =>
                set({
                  cutTokens: s.cutTokens.includes(token)
                    ? s.cutTokens.filter((each) => each !== token)
                    : [...s.cutTokens, token],
                })
              }
            >
              Hide {tokenName(model, token)}
            </button>
          ))}
          <button
            type="button"
            disabled={isKept() || (!s.cutTokens.length && !s.cutHeads.length)}
            onClick={() => set({ cutTokens: [], cutHeads: [] })}
          >
            Put everything back
          </button>
        </div>
        <p class="note" aria-live="polite">
          {s.cutHeads.length || s.cutTokens.length
            ? `Out: ${count(s.cutHeads.length, "head")}, ${count(s.cutTokens.length, "token")}.`
            : "Nothing is out."}
        </p>
      </section>
      {(s.cutHeads.length > 0 || s.cutTokens.length > 0) && <Logits bench={bench} />}
      <More title="What it shows and what it does not">
        <p>
          A head that is out adds nothing to the residual stream; a hidden token has its key removed in every block, and
          the rest of the softmax takes its share. Heads back each other up: a small change says that the head can be
          missed here, not that it does nothing, and the changes of two heads do not add up.
        </p>
      </More>
    </Layout>
  );
}

function Logits({ bench }: { bench: Bench }) {
  const { model, pass, base } = bench;
  if (!pass.logits || !base.logits || !pass.scores || !base.scores) return null;
  const change = pass.logits.map((x, i) => x - base.logits![i]);
  const order = [...change.keys()].sort((a, b) => base.scores![b] - base.scores![a]).slice(0, 10);
  const most = Math.max(1e-6, ...order.map((i) => Math.abs(change[i])));
  return (
    <section>
      <h2>How the logits change</h2>
      <div class="wide" tabIndex={0} role="region" aria-label="Logits before and after">
        <table class="logits">
          <thead>
            <tr>
              <th scope="col">class</th>
              <th scope="col" class="number">
                as trained
              </th>
              <th scope="col" class="number">
                now
              </th>
              <th scope="col">change</th>
              <th scope="col" class="number">
                probability now
              </th>
            </tr>
          </thead>
          <tbody>
            {order.map((i) => (
              <tr key={i}>
                <th scope="row">{labelOf(model, i)}</th>
                <td class="number">{signed(base.logits![i])}</td>
                <td class="number">{signed(pass.logits![i])}</td>
                <td class="change">
                  <span class="axis">
                    <i
                      class={change[i] < 0 ? "less" : "more"}
                      style={{
                        [change[i] < 0 ? "right" : "left"]: "50%",
                        width: `${(50 * Math.abs(change[i])) / most}%`,
                      }}
                    />
                  </span>
                  <span>{signed(change[i])}</span>
                </td>
                <td class="number">{percent(pass.scores![i])}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
