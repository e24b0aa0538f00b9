// Words on pictures: which patches answer to a text, by a model with two towers.
import { useEffect, useState } from "preact/hooks";
import type { Bench } from "../bench";
import { rangeOf } from "../draw/canvas";
import { tokenName, tokensOf } from "../model";
import { set } from "../state";
import { useAnswer } from "../transport/client";
import { plain, Problem } from "../ui/controls";
import { Layout } from "../ui/panel";
import { Picture } from "../ui/picture";
import { More, Title } from "./view";

const kMost = 4; // texts beside each other

export function WordsView({ bench }: { bench: Bench }) {
  const { s, model, seen, catalogue } = bench;
  const towers = model.kind === "towers";
  const others = catalogue.models.filter(({ kind }) => kind === "towers");
  const [typed, setTyped] = useState(s.words);
  useEffect(() => {
    const timer = setTimeout(() => set({ words: typed.slice(0, 300) }), 300);
    return () => clearTimeout(timer);
  }, [typed]);
  const texts = s.words
    .split(/[;\n]/)
    .map((text) => text.trim())
    .filter(Boolean)
    .slice(0, kMost);
  const first = useAnswer(
    "words",
    towers && seen && texts[0] ? { model: seen.model.id, image: seen.id, text: texts[0] } : null,
  );
  const values = answersOf(bench, first.answer?.arrays.answers?.data as Float32Array | undefined);
  return (
    <Layout
      bench={bench}
      overlay={{
        values,
        range: values ? spread(values, model.prefix.length) : undefined,
        free: true,
        label: `Patches that answer to “${texts[0] ?? ""}”`,
        what: "cosine",
        ends: values
          ? [plain(spread(values, model.prefix.length).low), plain(spread(values, model.prefix.length).high)]
          : undefined,
        say: (token) =>
          values && token >= model.prefix.length ? `${tokenName(model, token)}: ${plain(values[token], 3)}` : "",
      }}
    >
      <Title title="Words on pictures">
        <p>
          A model with two towers puts pictures and texts into one space. Type a text and see which patches lie near it.
        </p>
      </Title>
      {!towers && (
        <div class="problem">
          <p>
            {model.title} has no text tower.{" "}
            {others.length
              ? "Choose one that has:"
              : "Start the explorer with one, for example a CLIP or SigLIP folder: qkv explore -m FOLDER"}
          </p>
          <div class="row">
            {others.map(({ id, title }) => (
              <button key={id} type="button" onClick={() => set({ model: id })}>
                {title}
              </button>
            ))}
          </div>
        </div>
      )}
      {towers && (
        <>
          <label class="sentence">
            Texts; several with a semicolon between them
            <textarea rows={2} maxLength={300} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
          {texts.length > 1 ? (
            <div class="tiles large">
              {texts.map((text) => (
                <TextMap key={text} bench={bench} text={text} />
              ))}
            </div>
          ) : (
            first.answer && (
              <p class="said">
                <b>{texts[0]}</b>, whole picture: cosine {plain(Number(first.answer.json.score), 3)}
              </p>
            )
          )}
        </>
      )}
      <Problem error={first.error} />
      <More title="How to read it">
        <p>
          Each patch token goes through the picture tower's last norm and projection and is compared with the text's
          vector by its cosine; colours run from the least to the greatest patch. The model was trained to compare whole
          pictures only, so patches answer by habit, not by training: some models look at the ground rather than the
          thing, and the numbers of two texts cannot be compared.
        </p>
      </More>
    </Layout>
  );
}

const spread = (values: Float32Array, from: number) => rangeOf(values, from);

function answersOf({ model, seen }: Bench, data: Float32Array | undefined): Float32Array | null {
  if (!seen || data?.length !== seen.grid[0] * seen.grid[1]) return null;
  const values = new Float32Array(tokensOf(model));
  values.set(data, model.prefix.length);
  return values;
}

function TextMap({ bench, text }: { bench: Bench; text: string }) {
  const { seen, model, s } = bench;
  const { answer } = useAnswer("words", seen && { model: seen.model.id, image: seen.id, text });
  const values = answersOf(bench, answer?.arrays.answers?.data as Float32Array | undefined);
  if (!seen) return null;
  return (
    <figure class="tile">
      <Picture
        seen={seen}
        values={values}
        range={values ? spread(values, model.prefix.length) : undefined}
        opacity={s.opacity}
        label={`Patches that answer to ${text}`}
      />
      <figcaption>
        <b>{text}</b>
        {answer && <> whole picture: {plain(Number(answer.json.score), 3)}</>}
      </figcaption>
    </figure>
  );
}
