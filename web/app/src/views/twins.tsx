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
// Shipped with qkv: trained on the same data by the same recipe.
const kTwins = ["digits", "digits-shared", "digits-merged"];
const kWhat: Record<string, string> = {
  separate: "two matrices, as usual",
  shared: "one projection for queries and keys",
  merged: "one matrix in place of the product",
};

/** The models that stand beside each other: those chosen, else the model and, if it is one of them, its known twins. */
export function twinsOf({ catalogue, model, s }: Pick<Bench, "catalogue" | "model" | "s">): Model[] {
  const alike = catalogue.models.filter((each) => isImage(each) && each.photo === model.photo);
  const those = (keys: string[], by: "id" | "shipped") =>
    [...new Set(keys)].map((key) => alike.find((each) => each[by] === key)).filter((each): each is Model => !!each);
  const chosen = those(s.twins, "id");
  if (chosen.length) return chosen;
  return kTwins.includes(model.shipped) ? those(kTwins, "shipped") : those([model.id], "id");
}

export function TwinsView({ bench }: { bench: Bench }) {
  const { catalogue, model, query, block, head, pass } = bench;
  const twins = twinsOf(bench),
    known = twins.every(({ shipped }) => kTwins.includes(shipped)),
    alike = catalogue.models.filter((each) => isImage(each) && each.photo === model.photo);
  const row = pass.attention?.row(block, head, query) ?? null;
  const toggle = (id: string) => {
    const ids = twins.map((each) => each.id);
    set({ twins: ids.includes(id) ? ids.filter((each) => each !== id) : [...ids, id].slice(-kMost) });
  };
  return (
    <Layout bench={bench} overlay={{ values: row, label: `Attention of ${tokenName(model, query)}`, what: "weight" }}>
      <Title title={known ? "Twins: the same training, another attention" : "Twins: one picture, several models"}>
        <p>
          {known
            ? "One picture, one query, and models trained on the same data by the same recipe. They differ only in how scores are made: from two matrices, from one shared projection, or from one merged matrix."
            : "One picture and one query in any models that read such pictures, side by side. Choose which; models of different training differ in more than their attention."}
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
        <p class="problem">
          No other open model reads such pictures. Start the explorer with several: qkv explore -m FIRST -m SECOND
        </p>
      )}
      <div class="twins">
        {twins.map((each) => (
          <Twin key={each.id} bench={bench} model={each} />
        ))}
      </div>
      <More title="What the comparison can say">
        <p>
          Two runs of one recipe also differ by chance, and heads have no order: head 1 of one model is not head 1 of
          another. Among twins, over whole test sets, sharing costs 4 to 14 points on sorting and on finding the next
          token, and no measurable amount on CIFAR-10; one merged matrix trains worse there (−1.24 ± 0.25 points). It
          can express everything that two can, and more.
        </p>
        {known && (
          <p>
            Of MNIST's 10,000 test images the digits classify 99.43 % with two matrices, 99.27 % with one shared
            projection and 99.11 % with one merged matrix: one run of each, stopped in their 40th, 24th and 17th epoch.
          </p>
        )}
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
    best = pass.scores ? argmax(pass.scores) : -1;
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
      {pass.embedding && <p class="said note">No classifier: an embedding of {pass.embedding.length} numbers.</p>}
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
