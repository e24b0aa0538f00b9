// Views of one picture: rollout, relevance of a class, similarity of tokens, main components as colours.
import type { Bench } from "../bench";
import { diverging } from "../colour/maps";
import { rangeOf } from "../draw/canvas";
import { labelOf, tokenName, tokensOf } from "../model";
import { set } from "../state";
import type { Seen } from "../image";
import { useAnswer, type Asked } from "../transport/client";
import { percent, plain, Problem, Select, Waiting } from "../ui/controls";
import { Layout } from "../ui/panel";
import { argmax } from "../ui/predictions";
import { Picture } from "../ui/picture";
import { BlockAndHead, More, Title } from "./view";

const common = ({ seen, edits }: Bench) =>
  seen && { model: seen.model.id, image: seen.id, ...(edits.length ? { edits } : {}) };

// The small picture of one block. It asks for its answer once that of the chosen block is there, which is looked at.
interface OfBlock {
  bench: Bench;
  block: number;
  chosenIsThere: boolean;
}
const isOf = (seen: Seen, { answer, request }: Asked) => !!answer && request?.image === seen.id;

// The row of a query in [N, N], or null if the answer is another picture's.
function rowOf(values: Float32Array | undefined, tokens: number, chosen: number): Float32Array | null {
  const query = Math.max(0, chosen); // the mean of all patches has no row here
  return values?.length === tokens * tokens ? values.subarray(query * tokens, (query + 1) * tokens) : null;
}

export function RolloutView({ bench }: { bench: Bench }) {
  const { model, seen } = bench,
    query = Math.max(0, bench.query);
  const asked = useAnswer("rollout", common(bench));
  const row = rowOf(asked.answer?.arrays.weights?.data as Float32Array | undefined, tokensOf(model), query);
  return (
    <Layout
      bench={bench}
      overlay={{
        values: row,
        range: row ? rangeOf(row, model.prefix.length) : undefined,
        label: `Rollout of ${tokenName(model, query)}`,
        what: "share",
      }}
    >
      <Title title="Rollout: through all blocks at once">
        <p>
          Attention mixes tokens again and again. Rollout multiplies the blocks' mean attention, with the residual path
          as one half, and tells from which patches the query's content could have come.
        </p>
      </Title>
      {seen && row && <Compared bench={bench} row={row} />}
      <Waiting for={asked}>Multiplying the attention of {model.blocks} blocks…</Waiting>
      <Problem error={asked.error} />
      <More title="Formula and limits">
        <p class="formula">
          <i>R</i> = <i>Â</i>
          <sub>L</sub> ⋯ <i>Â</i>
          <sub>2</sub> <i>Â</i>
          <sub>1</sub>, &nbsp; <i>Â</i> = ½ (mean of heads + <i>I</i>)
        </p>
        <p>
          Abnar and Zuidema (2020). It knows nothing of values, MLPs or classes: all classes have the same rollout. In
          deep models it becomes flat, so the colours run from the least to the greatest share.
        </p>
      </More>
    </Layout>
  );
}

// The last block's attention beside the rollout.
function Compared({ bench, row }: { bench: Bench; row: Float32Array }) {
  const { seen, pass, query, model } = bench;
  const last = pass.attention?.row(model.blocks - 1, "mean", query);
  if (!seen || !last) return null;
  return (
    <div class="pair">
      <figure>
        <Picture seen={seen} values={row} range={rangeOf(row, model.prefix.length)} query={query} label="Rollout" />
        <figcaption>Rollout: all blocks</figcaption>
      </figure>
      <figure>
        <Picture seen={seen} values={last} query={query} label="Attention of the last block" />
        <figcaption>Attention: the last block alone</figcaption>
      </figure>
    </div>
  );
}

export function RelevanceView({ bench }: { bench: Bench }) {
  const { s, model, pass, seen } = bench;
  const klass = s.klass >= 0 && s.klass < (pass.scores?.length ?? 0) ? s.klass : pass.scores ? argmax(pass.scores) : -1;
  const request = common(bench);
  const asked = useAnswer("relevance", model.classifier && klass >= 0 && request ? { ...request, class: klass } : null);
  const data = asked.answer?.arrays.relevance?.data as Float32Array | undefined;
  const values = data?.length === tokensOf(model) ? data : null;
  const range = values && rangeOf(values, model.prefix.length);
  const ranked = pass.scores
    ? [...pass.scores.keys()].sort((a, b) => pass.scores![b] - pass.scores![a]).slice(0, 6)
    : [];
  return (
    <Layout
      bench={bench}
      chosen={klass}
      overlay={
        model.classifier
          ? {
              values,
              range: range ?? undefined,
              label: `Relevance of ${labelOf(model, klass)}`,
              what: "relevance",
              ends: range ? [plain(range.low, 3), plain(range.high, 3)] : undefined,
              say: (token) => (values ? `${tokenName(model, token)}: ${plain(values[token], 4)}` : ""),
              free: true,
            }
          : null
      }
    >
      <Title title="Relevance: which patches speak for a class">
        <p>
          Attention, weighted by the gradient of one class's logit: what is attended to and also matters for this class.
          Choose the class at the picture or here.
        </p>
      </Title>
      {!model.classifier && <p>{model.title} has no classifier, so there is no class to ask about.</p>}
      {model.classifier && (
        <Select
          label="Class"
          value={String(klass)}
          onChange={(value) => set({ klass: Number(value) })}
          options={(model.labels.length ? model.labels.map((_, i) => i) : ranked).map((i) => [
            String(i),
            `${labelOf(model, i)}${pass.scores ? `, ${percent(pass.scores[i])}` : ""}`,
          ])}
        />
      )}
      <Waiting for={asked}>Following the class's logit back…</Waiting>
      {seen && model.classifier && <ClassMaps bench={bench} classes={ranked.slice(0, 4)} chosen={klass} />}
      <Problem error={asked.error} />
      <More title="Formula and limits">
        <p class="formula">
          <i>R</i> ← <i>R</i> + mean over heads of (∇<i>A</i> ⊙ <i>A</i>)<sup>+</sup> · <i>R</i>
        </p>
        <p>
          Chefer, Gur and Wolf (2021), from the first block to the last; ∇<i>A</i> is the gradient of the class's logit,
          ⊙ the product of each pair of elements, and only positive parts are kept. It shows what raises this class. A
          patch that lowers it stays dark, and the numbers of two classes cannot be compared.
        </p>
      </More>
    </Layout>
  );
}

function ClassMaps({ bench, classes, chosen }: { bench: Bench; classes: number[]; chosen: number }) {
  return (
    <section>
      <h2>The most probable classes beside each other</h2>
      <div class="tiles">
        {classes.map((klass) => (
          <ClassMap key={klass} bench={bench} klass={klass} chosen={klass === chosen} />
        ))}
      </div>
    </section>
  );
}

function ClassMap({ bench, klass, chosen }: { bench: Bench; klass: number; chosen: boolean }) {
  const { seen, model, pass } = bench,
    request = common(bench);
  const { answer } = useAnswer("relevance", request && { ...request, class: klass });
  const data = answer?.arrays.relevance?.data as Float32Array | undefined;
  if (!seen || data?.length !== tokensOf(model)) return null;
  return (
    <button type="button" class="tile" aria-pressed={chosen} onClick={() => set({ klass })}>
      <Picture
        seen={seen}
        values={data}
        range={rangeOf(data, model.prefix.length)}
        label={`Relevance of ${labelOf(model, klass)}`}
      />
      <span>
        <b>{labelOf(model, klass)}</b> {pass.scores && percent(pass.scores[klass])}
      </span>
    </button>
  );
}

export function SimilarityView({ bench }: { bench: Bench }) {
  const { model, block, seen } = bench,
    query = Math.max(0, bench.query),
    request = common(bench);
  const asked = useAnswer("tokens", request && { ...request, block, what: "similarity" });
  const row = rowOf(asked.answer?.arrays.similarity?.data as Float32Array | undefined, tokensOf(model), query);
  return (
    <Layout
      bench={bench}
      overlay={{
        values: row,
        range: { low: -1, high: 1 },
        map: diverging,
        ends: ["−1", "+1"],
        what: "cosine",
        label: `Similarity of ${tokenName(model, query)} to all patches after block ${block}`,
        say: (token) => (row ? `cosine ${plain(row[token])}` : ""),
      }}
    >
      <Title title="Similarity of tokens">
        <p>
          The cosine between the query's token and every other, after a block. Attention compares by learned
          projections; this compares the tokens as they are.
        </p>
      </Title>
      <BlockAndHead bench={bench} mean={false} play />
      <Waiting for={asked}>Comparing the tokens after block {block}…</Waiting>
      {seen && request && (
        <section>
          <h2>After each block</h2>
          <div class="tiles">
            {Array.from({ length: model.blocks }, (_, b) => (
              <BlockSimilarity key={b} bench={bench} block={b} chosenIsThere={isOf(seen, asked)} />
            ))}
          </div>
        </section>
      )}
      <Problem error={asked.error} />
      <More title="How to read it">
        <p>
          Red patches point the same way as the query, blue ones the opposite way, white ones are unrelated. In late
          blocks tokens often become alike: that is the mixing that attention does.
        </p>
      </More>
    </Layout>
  );
}

function BlockSimilarity({ bench, block, chosenIsThere }: OfBlock) {
  const { seen, query, model } = bench,
    request = chosenIsThere ? common(bench) : null;
  const { answer } = useAnswer("tokens", request && { ...request, block, what: "similarity" });
  const row = rowOf(answer?.arrays.similarity?.data as Float32Array | undefined, tokensOf(model), query);
  if (!seen) return null;
  return (
    <button type="button" class="tile" aria-pressed={block === bench.block} onClick={() => set({ block })}>
      <Picture
        seen={seen}
        values={row}
        range={{ low: -1, high: 1 }}
        map={diverging}
        query={query}
        label={`After block ${block}`}
      />
      <span>block {block}</span>
    </button>
  );
}

export function ColoursView({ bench }: { bench: Bench }) {
  const { block, model, seen } = bench,
    request = common(bench);
  const asked = useAnswer("tokens", request && { ...request, block, what: "pca" });
  const colours = asked.answer?.arrays.colours?.data,
    shares = asked.answer?.arrays.shares?.data as Float32Array | undefined;
  const fits = seen && colours?.length === 3 * seen.grid[0] * seen.grid[1];
  return (
    <Layout
      bench={bench}
      overlay={{
        colours: fits ? colours : null,
        label: `Main components of the patches after block ${block} as colours`,
        free: true,
      }}
    >
      <Title title="Patches as colours">
        <p>
          The three directions in which the patch tokens differ most become red, green and blue. Patches of one colour
          carry similar features: in models trained without labels, objects and their parts appear.
        </p>
      </Title>
      <BlockAndHead bench={bench} mean={false} play />
      {shares && (
        <p>
          These three directions hold {percent(shares[0])}, {percent(shares[1])} and {percent(shares[2])} of the
          variance after block {block}.
        </p>
      )}
      <Waiting for={asked}>Finding the components after block {block}…</Waiting>
      {seen && (
        <section>
          <h2>After each block</h2>
          <div class="tiles">
            {Array.from({ length: model.blocks }, (_, b) => (
              <BlockColours key={b} bench={bench} block={b} chosenIsThere={isOf(seen, asked)} />
            ))}
          </div>
        </section>
      )}
      <Problem error={asked.error} />
      <More title="How to read it">
        <p>
          Principal components of the patch tokens of this picture, each scaled between its extremes (a few outliers
          clipped). Signs and the order of colours are arbitrary: compare colours within a map, not between maps. Three
          components as hues cannot be made safe for every kind of colour blindness; the views Similarity and Attention
          show the same tokens by lightness.
        </p>
      </More>
    </Layout>
  );
}

function BlockColours({ bench, block, chosenIsThere }: OfBlock) {
  const { seen } = bench,
    request = chosenIsThere ? common(bench) : null;
  const { answer } = useAnswer("tokens", request && { ...request, block, what: "pca" });
  const colours = answer?.arrays.colours?.data;
  if (!seen) return null;
  const fits = colours?.length === 3 * seen.grid[0] * seen.grid[1];
  return (
    <button type="button" class="tile" aria-pressed={block === bench.block} onClick={() => set({ block })}>
      <Picture
        seen={seen}
        colours={fits ? colours : null}
        opacity={Math.max(bench.s.opacity, 0.75)}
        label={`After block ${block}`}
      />
      <span>block {block}</span>
    </button>
  );
}
