// The page: header, menu of views, the view, and what is common to all of them.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { blockOf, headOf, queryOf, usePass, type Bench } from "./bench";
import { useImage } from "./image";
import { catalogueOf, isImage, type Catalogue, type Model } from "./model";
import { editsOf, kNoEdits, set, useStore, type State, type ViewName } from "./state";
import { startTour, Tour } from "./tour";
import { theClient, useAnswer } from "./transport/client";
import { Problem, Select } from "./ui/controls";
import { takeFile } from "./ui/panel";
import { ThemeButton } from "./ui/theme";
import { AttentionView } from "./views/attention";
import { RankView, SymmetryView } from "./views/edit";
import { GaugeView } from "./views/gauge";
import { HeadsView } from "./views/heads";
import { KnockoutView } from "./views/knockout";
import { ColoursView, RelevanceView, RolloutView, SimilarityView } from "./views/look";
import { PlannerView } from "./views/planner";
import { StepsView } from "./views/steps";
import { TwinsView } from "./views/twins";
import { WordsView } from "./views/words";

type View = (props: { bench: Bench }) => ComponentChildren;
const kMenu: [string, [ViewName, string, View][]][] = [
  [
    "Look",
    [
      ["attention", "Attention", AttentionView],
      ["rollout", "Rollout", RolloutView],
      ["relevance", "Relevance", RelevanceView],
      ["similarity", "Similarity", SimilarityView],
      ["colours", "Colours", ColoursView],
    ],
  ],
  [
    "Take apart",
    [
      ["heads", "Heads", HeadsView],
      ["gauge", "Gauge", GaugeView],
      ["symmetry", "Symmetry", SymmetryView],
      ["rank", "Rank", RankView],
      ["knockout", "Knock out", KnockoutView],
      ["twins", "Twins", TwinsView],
    ],
  ],
  [
    "Understand",
    [
      ["steps", "From smoothing to attention", StepsView],
      ["words", "Words on pictures", WordsView],
      ["planner", "Planner", PlannerView],
    ],
  ],
];
const kViewOf = new Map(kMenu.flatMap(([, views]) => views.map(([name, , view]): [ViewName, View] => [name, view])));

// Keeps one failing view from taking the page with it.
class Boundary extends Component<{ children: ComponentChildren; on: string }, { error: Error | null; on: string }> {
  override state = { error: null as Error | null, on: this.props.on };
  static getDerivedStateFromProps(props: { on: string }, state: { on: string }) {
    return props.on === state.on ? null : { error: null, on: props.on };
  }
  override componentDidCatch(error: Error) {
    console.error(error);
    this.setState({ error });
  }
  render() {
    return this.state.error ? (
      <p class="problem" role="alert">
        This view failed: {this.state.error.message}
      </p>
    ) : (
      this.props.children
    );
  }
}

export function App() {
  const catalogue = useAnswer("models", {});
  const parsed = useMemo(() => catalogue.answer && catalogueOf(catalogue.answer), [catalogue.answer]);
  const s = useStore();
  if (!parsed) {
    return (
      <main class="start">
        <h1>qkv explorer</h1>
        {catalogue.error ? (
          <>
            <Problem error={catalogue.error} />
            <button type="button" onClick={() => location.reload()}>
              Try again
            </button>
          </>
        ) : (
          <p role="status">Starting the engine…</p>
        )}
      </main>
    );
  }
  const images = parsed.models.filter(isImage);
  const model = images.find(({ id }) => id === s.model) ?? images[0];
  if (!model)
    return (
      <main class="start">
        <h1>qkv explorer</h1>
        <p class="problem">No model of pictures is open. Start the explorer with one: qkv explore -m FOLDER</p>
      </main>
    );
  return <Explorer s={s} catalogue={parsed} model={model} />;
}

function Explorer({ s, catalogue, model: chosen }: { s: State; catalogue: Catalogue; model: Model }) {
  const image = useImage(catalogue, chosen, s.picture),
    { seen } = image;
  const model = seen?.model ?? chosen;
  const wanted = useMemo(() => editsOf(s), [s.t, s.rank, s.rankBy, s.cutHeads, s.cutTokens]);
  // An edit that this model cannot have is left out, and the view says so.
  const edits = useMemo(() => wanted.filter(({ kind }) => model.exact.includes(kind)), [wanted, model]);
  const block = blockOf(model, s.block);
  const pass = usePass(seen, edits, block),
    base = usePass(seen, kNone, block);
  const bench: Bench = {
    s,
    catalogue,
    model,
    seen,
    pass,
    base,
    edits,
    query: queryOf(model, s.query),
    block,
    head: headOf(model, s.head),
  };
  const View = kViewOf.get(s.view) ?? AttentionView;
  const recorded = theClient().transport.kind === "recording";
  useDrops();
  useViewFocus(s.view);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector<HTMLElement>("#main")?.focus();
        }}
      >
        Skip to the view
      </a>
      <Header s={s} catalogue={catalogue} model={chosen} recorded={recorded} />
      {(image.busy || pass.busy) && <div class="progress" role="progressbar" aria-label="The model is computing" />}
      <div class="columns">
        {recorded ? <div /> : <Menu view={s.view} />}
        <main id="main" tabIndex={-1}>
          {edits.length > 0 && <Edited bench={bench} />}
          <Problem error={image.error} />
          <Boundary on={s.view}>
            <View key={s.view} bench={bench} />
          </Boundary>
        </main>
      </div>
      <footer>
        <span>qkv {__VERSION__}</span>
        {pass.milliseconds > 0 && !recorded && (
          <span title="Time of one pass in the engine, and from the request to its answer">
            pass {pass.milliseconds.toFixed(pass.milliseconds < 10 ? 1 : 0)} ms
            {pass.answer && pass.answer.took > 0 ? `, answer ${pass.answer.took.toFixed(0)} ms` : ""}
          </span>
        )}
        <span>
          {
            {
              server: "computed by the server",
              browser: "computed in this browser",
              recording: "a kept view, without an engine",
              mock: "stand-in engine",
            }[theClient().transport.kind]
          }
        </span>
      </footer>
      <Tour />
    </>
  );
}
const kNone: [] = [];

function Header({
  s,
  catalogue,
  model,
  recorded,
}: {
  s: State;
  catalogue: Catalogue;
  model: Model;
  recorded: boolean;
}) {
  const images = catalogue.models.filter(isImage);
  return (
    <header class="top">
      <a
        class="brand"
        href="#"
        onClick={(event) => {
          event.preventDefault();
          set({ view: "attention" });
        }}
      >
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M1 1h4v4H1zM6 6h4v4H6zM11 11h4v4h-4z" />
          <path class="pale" d="M6 1h4v4H6zM11 6h4v4h-4z" />
        </svg>
        <b>qkv</b> explorer
      </a>
      {images.length > 1 && !recorded ? (
        <Select
          label="Model"
          hideLabel
          value={model.id}
          options={images.map(({ id, title }) => [id, title])}
          onChange={(id) =>
            set({ model: id, query: -1, held: false, pointed: -1, klass: -1, block: -1, pad: false, ...kNoEdits })
          }
        />
      ) : (
        <span class="note">{model.title}</span>
      )}
      {!recorded && <OpenModel />}
      <span class="space" />
      {!recorded && !model.photo && (
        <button type="button" class="tour-start" onClick={startTour}>
          Tour
        </button>
      )}
      <ThemeButton theme={s.theme} />
    </header>
  );
}

// A model of the reader's own, where the engine runs in this browser.
function OpenModel() {
  const input = useRef<HTMLInputElement>(null);
  const [error, setError] = useState<Error | null>(null);
  const { transport } = theClient();
  if (!transport.addModel) return null;
  const open = async (files: File[]) => {
    try {
      const id = await transport.addModel!(files[0].webkitRelativePath.split("/")[0] || "model", files);
      theClient().forget("models");
      set({ model: id, query: -1, ...kNoEdits });
      setError(null);
    } catch (problem) {
      setError(problem as Error);
    }
  };
  return (
    <>
      <button
        type="button"
        title="config.json and model.safetensors; they never leave this browser"
        onClick={() => input.current!.click()}
      >
        Open a model…
      </button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files of a model"
        onChange={(event) => void open([...(event.currentTarget.files ?? [])])}
      />
      <Problem error={error} />
    </>
  );
}

function Menu({ view }: { view: ViewName }) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a narrow screen the menu is one line that scrolls.
    const current = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current && current && nav.current.scrollWidth > nav.current.clientWidth)
      nav.current.scrollLeft = current.offsetLeft - nav.current.clientWidth / 2 + current.offsetWidth / 2;
  }, [view]);
  return (
    <nav class="menu-of-views" aria-label="Views" ref={nav}>
      {kMenu.map(([group, views]) => (
        <div key={group}>
          <h2>{group}</h2>
          <ul>
            {views.map(([name, title]) => (
              <li key={name}>
                <a
                  href={`#view=${name}`}
                  aria-current={view === name ? "page" : undefined}
                  onClick={(event) => {
                    event.preventDefault();
                    set({ view: name, ...(name === "attention" ? {} : { pad: false }) });
                  }}
                >
                  {title}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function Edited({ bench: { s, edits } }: { bench: Bench }) {
  const parts = [
    s.rank > 0 && `rank ${s.rank}`,
    s.t !== 1 && `symmetry t = ${s.t.toFixed(2).replace("-", "−")}`,
    s.cutHeads.length > 0 && `${s.cutHeads.length} ${s.cutHeads.length > 1 ? "heads" : "head"} out`,
    s.cutTokens.length > 0 && `${s.cutTokens.length} ${s.cutTokens.length > 1 ? "tokens" : "token"} hidden`,
  ].filter(Boolean);
  return (
    <p class="edited" data-not-kept={edits.length ? undefined : ""}>
      <span>The model is edited: {parts.join(", ")}.</span>{" "}
      <button type="button" onClick={() => set(kNoEdits)}>
        As trained
      </button>
    </p>
  );
}

// Images dropped on the page or pasted into it.
function useDrops(): void {
  useEffect(() => {
    const imageOf = (files: FileList | undefined | null) =>
      [...(files ?? [])].find((file) => file.type.startsWith("image/"));
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files")) {
        event.preventDefault();
        document.body.classList.add("dropping");
      }
    };
    const leave = (event: DragEvent) => event.relatedTarget || document.body.classList.remove("dropping");
    const drop = (event: DragEvent) => {
      document.body.classList.remove("dropping");
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
      const file = imageOf(event.dataTransfer?.files);
      if (file) void takeFile(file);
    };
    const paste = (event: ClipboardEvent) => {
      const file = imageOf(event.clipboardData?.files);
      if (file) void takeFile(file);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    addEventListener("paste", paste);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
      removeEventListener("paste", paste);
    };
  }, []);
}

// After a change of view the heading has the focus, so that a screen reader says it and Tab goes on from there.
function useViewFocus(view: ViewName): void {
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else if (!document.body.classList.contains("touring"))
      document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
    document.title = `${document.querySelector("main h1")?.textContent ?? "qkv"} – qkv explorer`;
  }, [view]);
}
