// One picture through models that differ in their kind of attention, beside each other.
import type { Bench } from "../bench";
import { usePass } from "../bench";
import { useImage } from "../image";
import { isImage, labelOf, tokenName, type Model } from "../model";
import { set } from "../state";
import { percent, Problem, Toggle } from "../ui/controls";
import { HeadGrid } from "../ui/head_grid";
import { Layout } from "../ui/panel";
import { argmax } from "../ui/predictions";
import { Picture } from "../ui/picture";
import { BlockAndHead, headText, More, Title } from "./view";

const kMost = 4;
const kWhat: Record<string, string> = {
  separate: "two matrices, as usual",
  shared: "one projection for queries and keys",
  merged: "one matrix in place of the product",
};

/** The models that stand beside each other: those chosen, else those of the model's input size. */
export function twinsOf({ catalogue, model, s }: Bench): Model[] {
  const alike = catalogue.models.filter((each) => isImage(each) && each.photo === model.photo);
  const chosen = s.twins.map((id) => alike.find((each) => each.id === id)).filter((each): each is Model => !!each);
  if (chosen.length) return chosen;
  const same = alike.filter((each) => each.input.join() === model.input.join());
  return same.slice(0, 3);
}

export function TwinsView({ bench }: { bench: Bench }) {
  const { catalogue, model, query, block, head, pass } = bench;
  const twins = twinsOf(bench),
    alike = catalogue.models.filter((each) => isImage(each) && each.photo === model.photo);
  const row = pass.attention?.row(block, head, query) ?? null;
  const toggle = (id: string) => {
    const ids = twins.map((each) => each.id);
    set({ twins: ids.includes(id) ? ids.filter((each) => each !== id) : [...ids, id].slice(-kMost) });
  };
  return (
    <Layout bench={bench} overlay={{ values: row, label: `Attention of ${tokenName(model, query)}`, what: "weight" }}>
      <Title title="Twins: the same training, another attention">
        <p>
          One picture, one query, and models trained on the same data by the same recipe. They differ only in how scores
          are made: from two matrices, from one shared projection, or from one merged matrix.
        </p>
      </Title>
      {alike.length > 1 && (
        <div class="row" role="group" aria-label="Models shown">
          {alike.map(({ id, title }) => (
            <Toggle key={id} label={title} value={twins.some((each) => each.id === id)} onChange={() => toggle(id)} />
          ))}
        </div>
      )}
      <BlockAndHead bench={bench} />
      {alike.length < 2 && (
        <p class="problem">Only one model is open. Start the explorer with several: qkv explore -m FIRST -m SECOND</p>
      )}
      <div class="twins">
        {twins.map((each) => (
          <Twin key={each.id} bench={bench} model={each} />
        ))}
      </div>
      <More title="What the comparison can say">
        <p>
          Two runs of one recipe also differ by chance, and heads have no order: head 1 of one model is not head 1 of
          another. Over whole test sets, sharing costs 4 to 14 points on sorting and on finding the next token, and no
          measurable amount on CIFAR-10; one merged matrix trains worse there (−1.24 ± 0.25 points). It can express
          everything that two can, and more.
        </p>
      </More>
    </Layout>
  );
}

function Twin({ bench, model }: { bench: Bench; model: Model }) {
  const { s, catalogue, query, block, head, edits } = bench;
  const { seen, error } = useImage(catalogue, model, s.picture);
  const pass = usePass(seen, edits, block);
  if (!seen || !pass.attention)
    return (
      <section class="twin">
        <h2>{model.title}</h2>
        <Problem error={error ?? pass.error} />
      </section>
    );
  const b = Math.min(block, model.blocks - 1),
    best = pass.scores && pass.scores.length ? argmax(pass.scores) : -1;
  return (
    <section class="twin">
      <h2>{model.title}</h2>
      <p class="note">
        {model.attention}
        {kWhat[model.attention] && `: ${kWhat[model.attention]}`}
      </p>
      <Picture
        seen={seen}
        values={pass.attention.row(b, head, query)}
        query={query}
        opacity={s.opacity}
        smooth={s.smooth}
        label={`${model.title}: block ${b}, ${headText(bench)}`}
        onPoint={(token) => s.held || set({ query: token })}
      />
      {best >= 0 && pass.scores && (
        <p class="said">
          <b>{labelOf(model, best)}</b> {percent(pass.scores[best])}
        </p>
      )}
      <HeadGrid
        seen={seen}
        attention={pass.attention}
        query={query}
        block={b}
        head={head}
        most={56}
        onPick={(bb, h) => set({ block: bb, head: h })}
      />
    </section>
  );
}
