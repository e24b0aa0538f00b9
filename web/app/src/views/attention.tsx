// Where a token looks, in every block and head at once.
import { useMemo } from "preact/hooks";
import { Attention } from "../attention";
import type { Bench } from "../bench";
import { blockName, tokenName } from "../model";
import { nothingDrawn, set } from "../state";
import { percent, Problem, Toggle } from "../ui/controls";
import { HeadGrid } from "../ui/head_grid";
import { Layout } from "../ui/panel";
import { BlockAndHead, headText, More, Title } from "./view";

interface Props {
  bench: Bench;
  title?: string;
  lead?: string;
}

export function AttentionView({ bench, title, lead }: Props) {
  const { s, pass, query, block, head, model, seen } = bench;
  const only = pass.attention?.only ?? null;
  const row = useMemo(() => pass.attention?.row(block, head, query) ?? null, [pass.attention, block, head, query]);
  return (
    <Layout
      bench={bench}
      overlay={{
        values: row,
        label: `Attention of ${tokenName(model, query)}, ${blockName(model, block)}, ${headText(bench)}`,
        what: "weight",
        all: true,
        only: only !== null,
      }}
    >
      <Title title={title ?? (only === null ? "Where each patch looks" : `Where ${tokenName(model, only)} looks`)}>
        <p>
          {lead ??
            (only === null
              ? "Each small map is one head of one block. It shows how much the query reads from each patch. Point at the picture: all maps follow."
              : "Each small map is one head of one block. It shows how much the query reads from each patch. The page holds this query; zoom into the picture, and point at a patch to read its weight.")}
        </p>
      </Title>
      <BlockAndHead bench={bench} play />
      {seen && pass.attention && (
        <>
          {model.blocks * model.heads > 1 && (
            <>
              <HeadGrid
                seen={seen}
                attention={pass.attention}
                query={query}
                block={block}
                head={head}
                common={s.common}
                crossed={s.cutHeads}
                onPick={(b, h) => set({ block: b, head: h })}
              />
              <div class="row">
                <Toggle label="One colour scale for all maps" value={s.common} onChange={(common) => set({ common })} />
              </div>
            </>
          )}
          {row && <Shares bench={bench} row={row} />}
        </>
      )}
      {nothingDrawn(s) && <p class="note">Draw something, and the maps of every head appear here.</p>}
      <Problem error={pass.error} />
      <More title="What the weights are, and what they are not">
        <p>
          The weights of a query are{" "}
          <span class="math">
            softmax(<i>q</i> · <i>k</i> / √<i>E</i>)
          </span>{" "}
          over all tokens, with biases by relative position added to the scores where the model has them, so each row
          sums to 1.
          {model.prefix.length > 0 &&
            " A map shows the patches' part of it; the rest goes to the tokens listed above."}{" "}
          Colours start at 0 and end at the greatest weight of the map, or of all maps.
        </p>
        <p>
          <b>Attention is not an explanation.</b> A weight says how much of a token's value enters a sum. What the value
          holds, what the other paths carry (the residual stream, the MLP), and whether the answer depends on it, the
          weight does not say. Deep in the model a patch token holds much of what other patches showed.{" "}
          {model.outputs > 0 && !model.classifier
            ? "The view Knock out asks the embedding itself."
            : "The views Relevance and Knock out ask the prediction itself."}
        </p>
      </More>
    </Layout>
  );
}

const kMostShares = 7; // lines of tokens before the patches

function Shares({ bench, row }: { bench: Bench; row: Float32Array }) {
  const { model, query } = bench,
    prefix = model.prefix.length;
  let patches = 0;
  for (let k = prefix; k < row.length; ++k) patches += row[k];
  const own = query >= 0 ? row[query] : 0,
    total = row.reduce((a, b) => a + b, 0) || 1;
  let lines: [string, number][] = model.prefix.map((_, token): [string, number] => [
    tokenName(model, token),
    row[token],
  ]);
  if (lines.length > kMostShares) {
    // A detector's tokens are many: the greatest by name, the others together.
    const others = lines.slice(1).sort(([, a], [, b]) => b - a);
    const rest = others.slice(kMostShares - 2);
    const sum = rest.reduce((all, [, share]) => all + share, 0);
    lines = [lines[0], ...others.slice(0, kMostShares - 2), [`${rest.length} other tokens`, sum]];
  }
  lines.push(["patches", patches], ["of which itself", query >= prefix ? own : NaN]);
  return (
    <section>
      <h2>Where its attention goes</h2>
      <table class="shares">
        <tbody>
          {lines
            .filter(([, share]) => !Number.isNaN(share))
            .map(([name, share]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="bar">
                  <i style={{ width: `${(100 * share) / total}%` }} />
                </td>
                <td class="number">{percent(share)}</td>
              </tr>
            ))}
          <tr>
            <th scope="row">spread</th>
            <td class="note">entropy, of {Math.log2(row.length).toFixed(1)} bits at most</td>
            <td class="number">{Attention.entropy(row).toFixed(2)} bits</td>
          </tr>
        </tbody>
      </table>
    </section>
  );
}
