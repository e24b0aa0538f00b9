// What the model answers, and what the edits changed: the most probable classes, or of a model without any its embedding.
import type { Bench } from "../bench";
import { findsRegions, labelOf } from "../model";
import { nothingDrawn, set } from "../state";
import { isKept, keptViews } from "../transport/client";
import { cosine } from "../vectors";
import { percent, plain } from "./controls";

const kFew = 12; // classes that are all shown, in their order, so that changes are seen in place
const kTop = 5;

export function Predictions({ bench, chosen }: { bench: Bench; chosen?: number }) {
  const { model, pass, base, edits } = bench;
  if (!pass.scores && pass.top.length) return <Top bench={bench} />;
  if (pass.embedding) return <Embedding bench={bench} />;
  if (!model.classifier || !pass.scores) return null;
  if (nothingDrawn(bench.s)) {
    return (
      <section class="predictions" aria-labelledby="predictions-title">
        <h2 id="predictions-title">Prediction</h2>
        <p class="said note" aria-live="polite">
          Nothing drawn yet.
        </p>
      </section>
    );
  }
  const { scores } = pass,
    before = edits.length ? base.scores : null;
  const few = scores.length <= kFew;
  const best = argmax(scores);
  let shown = [...scores.keys()];
  if (!few) {
    shown.sort((a, b) => scores[b] - scores[a]);
    shown = shown.slice(0, kTop);
    if (before && !shown.includes(argmax(before))) shown.push(argmax(before));
  }
  const was = before ? argmax(before) : best;
  return (
    <section
      class={`predictions ${few ? "few" : ""} ${model.labels.every((label) => label.length < 3) ? "short" : ""}`}
      aria-labelledby="predictions-title"
    >
      <h2 id="predictions-title">Prediction</h2>
      <p class="said" aria-live="polite" aria-atomic="true">
        <b>{labelOf(model, best)}</b> <span>{percent(scores[best])}</span>
        {before && (
          <span class={was === best ? "same" : "changed"}>
            {was === best
              ? `as trained: ${percent(before[best])}`
              : `as trained: ${labelOf(model, was)} ${percent(before[was])}`}
          </span>
        )}
      </p>
      <ul class="bars">
        {shown.map((index) => (
          <li key={index} class={`${index === best ? "best" : ""} ${index === chosen ? "chosen" : ""}`}>
            <button
              type="button"
              aria-pressed={index === chosen}
              disabled={isKept() && !keptViews().includes("relevance")}
              title={`Relevance of ${labelOf(model, index)}`}
              onClick={() =>
                set({ klass: index, ...(bench.s.view === "knockout" ? {} : { view: "relevance" as const }) })
              }
            >
              <span class="name">{labelOf(model, index)}</span>
              <span class="bar" aria-hidden="true">
                <i style={{ width: `${100 * scores[index]}%` }} />
                {before && <b style={{ left: `${100 * before[index]}%` }} />}
              </span>
              <span class="value">{percent(scores[index])}</span>
            </button>
          </li>
        ))}
      </ul>
      {before && <p class="note">The mark on each bar is the model as trained.</p>}
    </section>
  );
}

// Numbers without names: what can be said of them is how far the edits turn them.
function Embedding({ bench: { model, pass, base, edits } }: { bench: Bench }) {
  const { embedding } = pass;
  if (!embedding) return null;
  return (
    <section class="predictions" aria-labelledby="predictions-title">
      <h2 id="predictions-title">Embedding</h2>
      <p class="said" aria-live="polite" aria-atomic="true">
        {edits.length && base.embedding ? (
          <>
            <b>{plain(cosine(embedding, base.embedding), 4)}</b> <span>cosine with the embedding as trained</span>
          </>
        ) : (
          <span class="note">
            {embedding.length} numbers. This model has no classifier
            {findsRegions(model) && "; its boxes or masks are not shown here"}.
          </span>
        )}
      </p>
    </section>
  );
}

// The best classes alone, of a page that has no logits.
function Top({ bench: { model, pass } }: { bench: Bench }) {
  return (
    <section class="predictions" aria-labelledby="predictions-title">
      <h2 id="predictions-title">Prediction</h2>
      <table class="shares">
        <tbody>
          {pass.top.map(({ index, label, score }) => (
            <tr key={index}>
              <th scope="row">{label || labelOf(model, index)}</th>
              <td class="bar">
                <i style={{ width: `${100 * score}%` }} />
              </td>
              <td class="number">{percent(score)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

export function argmax(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; ++i) if (values[i] > values[best]) best = i;
  return best;
}
