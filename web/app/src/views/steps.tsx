// From smoothing to attention: one query that can be dragged, six steps, each changing one thing.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Bench } from "../bench";
import { rgbCanvas } from "../draw/canvas";
import type { Seen } from "../image";
import { besideFormula } from "../beside";
import { tokenName, tokensOf } from "../model";
import type { NamedArray } from "../packet";
import { set } from "../state";
import { isKept, useAnswer } from "../transport/client";
import { KeptOnly, Problem, Slider, WK, WO, WQ, WV } from "../ui/controls";
import { usePhoto } from "../ui/hooks";
import { Layout } from "../ui/panel";
import { Picture } from "../ui/picture";
import { argmax } from "../ui/predictions";
import { TranslatorStep } from "./translator";
import { More, Title } from "./view";

interface Step {
  name: string;
  changed: string; // against the step before
  formula: ComponentChildren;
  text: ComponentChildren;
}

const sum = (
  <>
    Σ
    <sub>
      <i>j</i>
    </sub>{" "}
    <i>w</i>
    <sub>
      <i>ij</i>
    </sub>{" "}
    <i>x</i>
    <sub>
      <i>j</i>
    </sub>
  </>
);
export const kSteps: Step[] = [
  {
    name: "Gaussian smoothing",
    changed: "The start: a weighted mean of neighbours.",
    formula: (
      <>
        <i>y</i>
        <sub>
          <i>i</i>
        </sub>{" "}
        = {sum}, &nbsp; <i>w</i>
        <sub>
          <i>ij</i>
        </sub>{" "}
        ∝ exp(−‖<i>p</i>
        <sub>
          <i>i</i>
        </sub>{" "}
        − <i>p</i>
        <sub>
          <i>j</i>
        </sub>
        ‖² / 2σ²)
      </>
    ),
    text: (
      <>
        Each patch becomes a weighted mean of the patches around it. Weights depend on distance alone and are the same
        everywhere: drag the query and the blob moves along unchanged.
      </>
    ),
  },
  {
    name: "Hard dictionary",
    changed: "Weights now depend on content, not on distance.",
    formula: (
      <>
        <i>y</i>
        <sub>
          <i>i</i>
        </sub>{" "}
        = <i>x</i>
        <sub>
          <i>j</i>*
        </sub>
        , &nbsp; <i>j</i>* = arg min
        <sub>
          <i>j</i>
        </sub>{" "}
        ‖<i>x</i>
        <sub>
          <i>i</i>
        </sub>{" "}
        − <i>x</i>
        <sub>
          <i>j</i>
        </sub>
        ‖²
      </>
    ),
    text: (
      <>
        A look-up: the query patch asks for the entry most like it and takes that one alone. Nothing is more like a
        patch than itself, so the answer is the patch again, or shared by its exact copies, as on blank paper. To find
        anything else, queries and keys have to differ: those of step 4 are learned.
      </>
    ),
  },
  {
    name: "Soft dictionary",
    changed: "All entries answer, weighted by how well they match.",
    formula: (
      <>
        <i>w</i>
        <sub>
          <i>ij</i>
        </sub>{" "}
        ∝ exp(−‖<i>x</i>
        <sub>
          <i>i</i>
        </sub>{" "}
        − <i>x</i>
        <sub>
          <i>j</i>
        </sub>
        ‖² / 2τ)
      </>
    ),
    text: (
      <>
        The softmax of similarities. The temperature τ sets how sharp: near 0 it is the hard dictionary again, and a
        large τ gives the mean of the whole picture. In between, patches that look alike answer too, the patch itself
        still the most.
      </>
    ),
  },
  {
    name: "Scaled dot product",
    changed: "Similarity is learned: the query and the keys are projected first.",
    formula: (
      <>
        <i>w</i>
        <sub>
          <i>ij</i>
        </sub>{" "}
        ∝ exp(<i>q</i>
        <sub>
          <i>i</i>
        </sub>{" "}
        · <i>k</i>
        <sub>
          <i>j</i>
        </sub>{" "}
        / √<i>E</i>), &nbsp; <i>q</i> = <i>W</i>
        <sub>Q</sub>
        <i>x</i>, <i>k</i> = <i>W</i>
        <sub>K</sub>
        <i>x</i>
      </>
    ),
    text: (
      <>
        One head of the model's first block. {WQ} says what a patch asks for, {WK} what it offers; they need not be
        alike, so a patch may ask for something that it is not. √E keeps the scores' variance near 1, so that the
        softmax does not saturate.
      </>
    ),
  },
  {
    name: "Several heads",
    changed: "Several such questions at once.",
    formula: (
      <>
        <i>y</i>
        <sub>
          <i>i</i>
        </sub>{" "}
        = <i>W</i>
        <sub>O</sub> [head<sub>1</sub>; …; head<sub>H</sub>]
      </>
    ),
    text: (
      <>
        Each head has its own {WQ}, {WK} and {WV} and asks its own question; their answers are joined and mixed by {WO}.
        This is the attention layer of the model.
      </>
    ),
  },
  {
    name: "Translation",
    changed: "Queries of one sequence, keys and values of another.",
    formula: (
      <>
        <i>A</i> = softmax(<i>Q</i>
        <sub>target</sub> <i>K</i>
        <sub>source</sub>
        <sup>T</sup> / √<i>E</i>)
      </>
    ),
    text: (
      <>
        The text that is written asks the text that is read. Here one can see what its weights are worth: put those of
        an earlier step in their place, and read the sentence.
      </>
    ),
  },
];

function Stepper({ step }: { step: number }) {
  return (
    <nav class="stepper" aria-label="Steps from smoothing to attention">
      <ol>
        {kSteps.map(({ name }, i) => (
          <li key={name}>
            <button
              type="button"
              aria-current={i === step ? "step" : undefined}
              disabled={isKept()}
              onClick={() => set({ step: i })}
            >
              <span>{i + 1}</span>
              {name}
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

export function StepsView({ bench }: { bench: Bench }) {
  const { s } = bench,
    step = kSteps[s.step];
  const title = (
    <Title title="From smoothing to attention">
      <p>
        Six steps, each changing one thing.
        {s.step < 5 && " Drag the query over the picture and watch the weights."}
      </p>
      <Stepper step={s.step} />
    </Title>
  );
  const head = (
    <>
      <section class="step" aria-live="polite">
        <h2>
          {s.step + 1}. {step.name}
        </h2>
        <p class="changed">{step.changed}</p>
        <p class="formula">{step.formula}</p>
        <p>
          {step.text}
          {s.step === 3 && besideFormula(bench.model) && ` ${besideFormula(bench.model)}.`}
        </p>
      </section>
    </>
  );
  const foot = (
    <div class="row spread">
      <button type="button" disabled={s.step === 0 || isKept()} onClick={() => set({ step: s.step - 1 })}>
        ← Back
      </button>
      {s.step < kSteps.length - 1 && (
        <button type="button" class="main" disabled={isKept()} onClick={() => set({ step: s.step + 1 })}>
          Next step →
        </button>
      )}
    </div>
  );
  if (s.step === 5)
    return (
      <div class="layout wide-layout" data-figure>
        {title}
        <div class="body">
          {head}
          <TranslatorStep bench={bench} />
          {foot}
        </div>
      </div>
    );
  return <PatchStep bench={bench} title={title} head={head} foot={foot} />;
}

function PatchStep({
  bench,
  title,
  head,
  foot,
}: {
  bench: Bench;
  title: ComponentChildren;
  head: ComponentChildren;
  foot: ComponentChildren;
}) {
  const { s, model, seen } = bench,
    prefix = model.prefix.length;
  // Steps of single patches have no class token: a patch asks in its place.
  const marked = useMarkedPatch(seen);
  const query =
    bench.query >= prefix
      ? bench.query
      : prefix + (marked ?? Math.floor(model.grid[0] / 2) * model.grid[1] + Math.floor(model.grid[1] / 2));
  const at = [Math.floor((query - prefix) / model.grid[1]), (query - prefix) % model.grid[1]];
  const one = typeof bench.head === "number" ? bench.head : 0;
  const asked = useAnswer(
    "smooth",
    seen && (bench.query >= prefix || marked !== null)
      ? {
          model: seen.model.id,
          image: seen.id,
          query: at,
          step: s.step,
          ...(s.step === 0 ? { sigma: s.sigma } : {}),
          ...(s.step === 2 ? { temperature: s.temperature } : {}),
          ...(s.step === 3 ? { heads: [one] } : {}),
        }
      : null,
  );
  const answered = asked.request?.step === s.step ? asked.answer : null;
  const weights = answered?.arrays.weights,
    mixed = answered?.arrays.mixed;
  const patches = seen ? seen.grid[0] * seen.grid[1] : 0;
  const heads = weights && patches && weights.data.length % patches === 0 ? weights.data.length / patches : 0;
  const valuesOf = (head: number) => {
    const values = new Float32Array(tokensOf(model));
    values.set((weights!.data as Float32Array).subarray(head * patches, (head + 1) * patches), prefix);
    return values;
  };
  const chosen = typeof bench.head === "number" && bench.head < heads ? bench.head : 0;
  const values = heads ? valuesOf(chosen) : null;
  const greatest = values ? values.reduce((a, b) => Math.max(a, b), 0) : 0;
  return (
    <Layout
      bench={{ ...bench, query }}
      overlay={{
        values,
        label: `${kSteps[s.step].name}: weights of ${tokenName(model, query)}`,
        what: "weight",
        patches: true,
        fixed: isKept(),
      }}
    >
      {title}
      {head}
      {s.step === 0 && (
        <Slider
          label="Width σ, in patches"
          value={s.sigma}
          min={0.2}
          max={Math.max(4, model.grid[0] / 2)}
          step={0.1}
          text={s.sigma.toFixed(1)}
          disabled={isKept()}
          onInput={(sigma) => set({ sigma })}
        />
      )}
      {s.step === 2 && (
        <Slider
          label="Temperature τ"
          value={Math.log10(s.temperature)}
          min={-4}
          max={0}
          step={0.05}
          text={s.temperature.toPrecision(2)}
          ends={["sharp", "flat"]}
          disabled={isKept()}
          onInput={(x) => set({ temperature: +(10 ** x).toPrecision(4) })}
        />
      )}
      {s.step === 1 && greatest > 0 && (
        <p class="note">
          {greatest > 0.9
            ? "Here: the patch itself, which has no exact copy."
            : `Here: ${Math.round(1 / greatest)} patches are exactly alike and share the weight.`}
        </p>
      )}
      {s.step === 3 && model.heads > 1 && (
        <Slider
          label="Head of the first block"
          value={one}
          min={0}
          max={model.heads - 1}
          step={1}
          text={String(one)}
          disabled={isKept()}
          onInput={(value) => set({ head: value })}
        />
      )}
      {mixed && seen && (
        <Mixed bench={{ ...bench, query }} mixed={mixed} heads={heads} at={at as [number, number]} chosen={chosen} />
      )}
      {s.step === 4 && seen && heads > 1 && (
        <div class="tiles">
          {Array.from({ length: heads }, (_, h) => (
            <button key={h} type="button" class="tile" aria-pressed={h === chosen} onClick={() => set({ head: h })}>
              <Picture seen={seen} values={valuesOf(h)} query={query} label={`head ${h}`} />
              <span>head {h}</span>
            </button>
          ))}
        </div>
      )}
      {isKept() ? <KeptOnly /> : <Problem error={asked.error} />}
      {foot}
      <More title="What is computed here">
        <p>
          All weights are computed by the engine from this picture, steps 4 and 5 with the weights of the first block of{" "}
          {model.title}. Steps 1 to 3 mix patches as pixels. Steps 4 and 5 mix values, not pixels; the mixed patch shows
          what the same weights would make of pixels.
          {prefix > 0 &&
            " Heads also attend to tokens without a patch, which are left out here, and weights are scaled to sum to 1."}
        </p>
      </More>
    </Layout>
  );
}

// The patch with most ink of a drawing, the middle one of a photo; null until the picture is there.
function useMarkedPatch(seen: Seen | null): number | null {
  const photo = usePhoto(seen?.png, !!seen && !seen.model.photo);
  return useMemo(() => {
    if (!seen || photo?.png !== seen.png) return null;
    const [rows, columns] = seen.grid;
    if (!photo.ink) return Math.floor(rows / 2) * columns + Math.floor(columns / 2);
    const canvas = document.createElement("canvas"),
      [top, left, h, w] = seen.where,
      scale = photo.bitmap.width / seen.photo[1];
    canvas.width = w;
    canvas.height = h;
    const context = canvas.getContext("2d")!;
    context.drawImage(photo.ink, left * scale, top * scale, w * scale, h * scale, 0, 0, w, h);
    const { data } = context.getImageData(0, 0, w, h),
      ink = new Float64Array(rows * columns);
    for (let y = 0; y < h; ++y)
      for (let x = 0; x < w; ++x)
        ink[Math.floor((y * rows) / h) * columns + Math.floor((x * columns) / w)] += data[4 * (y * w + x) + 3];
    return argmax(ink);
  }, [seen, photo]);
}

// The query's patch and what the weighted mean makes of it.
function Mixed({
  bench,
  mixed,
  heads,
  at,
  chosen,
}: {
  bench: Bench;
  mixed: NamedArray;
  heads: number;
  at: [number, number];
  chosen: number;
}) {
  // A hard dictionary that holds the query itself returns it: its patch as the model sees it.
  const { seen } = bench;
  const own = useAnswer("smooth", seen && { model: seen.model.id, image: seen.id, query: at, step: 1 }).answer?.arrays
    .mixed;
  const shape = mixed.shape.slice(-3),
    each = shape.reduce((a, b) => a * b, 1),
    many = mixed.data.length === each * heads;
  return (
    <div class="mixed">
      <figure>
        {own && <Cells data={own.data} offset={0} shape={own.shape.slice(-3)} label="The query's patch" />}
        <figcaption>the query's patch</figcaption>
      </figure>
      <span aria-hidden="true">→</span>
      <figure>
        <Cells data={mixed.data} offset={many ? chosen * each : 0} shape={shape} label="Weighted mean of patches" />
        <figcaption>weighted mean{heads > 1 ? (many ? `, head ${chosen}` : ", all heads") : ""}</figcaption>
      </figure>
    </div>
  );
}

function Cells({
  data,
  offset,
  shape: [h, w],
  label,
}: {
  data: ArrayLike<number>;
  offset: number;
  shape: number[];
  label: string;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    canvas.current!.width = w;
    canvas.current!.height = h;
    canvas.current!.getContext("2d")!.drawImage(rgbCanvas(data, h, w, offset), 0, 0);
  }, [data, offset, h, w]);
  return <canvas ref={canvas} class="pixels" role="img" aria-label={label} />;
}
