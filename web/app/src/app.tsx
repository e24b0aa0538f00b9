// The page: header, menu of views, the view, and what is common to all of them.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { blockOf, editsInWords, fitting, headOf, queryOf, usePass, type Bench } from "./bench";
import { useImage } from "./image";
import { catalogueOf, isImage, labelOf, samplesOf, type Catalogue, type Model } from "./model";
import { dropped, takeFiles, withPaths } from "./own_files";
import { editsOf, get, kNoEdits, nothingDrawn, set, useStore, type Picture, type State, type ViewName } from "./state";
import { startTour, Tour } from "./tour";
import { isKept, keptViews, theClient, useAnswer } from "./transport/client";
import { EngineError } from "./transport/transport";
import { percent, plain, Problem, Select } from "./ui/controls";
import { DropDown } from "./ui/menu";
import { argmax } from "./ui/predictions";
import { ThemeButton } from "./ui/theme";
import { cosine } from "./vectors";
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
  if (parsed) return <Chosen s={s} catalogue={parsed} />;
  if (catalogue.error) return <NotStarted error={catalogue.error} />;
  return (
    <main class="start">
      <h1>qkv explorer</h1>
      <p role="status">Starting the engine…</p>
    </main>
  );
}

/** Why there is no engine, in place of the page. */
export function NotStarted({ error }: { error: Error }) {
  return (
    <main class="start">
      <h1>qkv explorer</h1>
      <Problem error={error} alone />
      {error instanceof EngineError && error.type === "from_disk" ? (
        <a href="offline.html">Open offline.html</a>
      ) : (
        <button type="button" onClick={() => location.reload()}>
          Try again
        </button>
      )}
    </main>
  );
}

// The model of the address, or the first that can be opened.
function Chosen({ s, catalogue }: { s: State; catalogue: Catalogue }) {
  const { models } = catalogue;
  const images = models.filter(isImage),
    asked = models.find(({ id }) => id === s.model);
  const model = images.find(({ id }) => id === s.model) ?? images[0];
  const missing = s.model !== "" && !!model && model.id !== s.model;
  useEffect(() => {
    if (!missing) return;
    const why = asked?.error
      ? `${asked.title || asked.id} cannot be opened: ${asked.error}.`
      : `${asked ? `${asked.title} takes no pictures` : `There is no model “${s.model.slice(0, 60)}” here`}.`;
    set({ model: "", notice: `${get().notice} ${why} This is ${model.title}.`.trim(), ...kNoEdits });
  }, [missing]);
  if (model) return <Explorer s={s} catalogue={catalogue} model={model} />;
  return (
    <main class="start">
      <h1>qkv explorer</h1>
      <p class="problem">No model of pictures is open. Start the explorer with one: qkv explore -m FOLDER</p>
      {models
        .filter(({ error }) => error)
        .map(({ id, title, error }) => (
          <p key={id} class="problem">
            {title || id}: {error}
          </p>
        ))}
    </main>
  );
}

function Explorer({ s: state, catalogue, model: chosen }: { s: State; catalogue: Catalogue; model: Model }) {
  const image = useImage(catalogue, chosen, state.picture),
    { seen } = image;
  // A file that is no picture leaves the picture before, and what is said of it, in place.
  const good = useRef<Picture | null>(null);
  if (seen && !image.error && !image.busy) good.current = state.picture;
  const s = image.error && seen ? { ...state, picture: good.current } : state;
  const model = seen?.model ?? chosen;
  const wanted = useMemo(
    () => editsOf(fitting(model, s).state),
    [model, s.t, s.rank, s.rankBy, s.cutHeads, s.cutTokens],
  );
  // A link may name heads and tokens of another model; what else it names is looked at once, when it is opened.
  const link = useLink(),
    checked = useRef(-1);
  useEffect(() => {
    if (!seen) return;
    const { state, left } = fitting(
      seen.model,
      get(),
      checked.current === link ? null : samplesOf(catalogue, seen.model),
    );
    checked.current = link;
    if (left.length) set({ ...state, notice: `Left out of the link, since this model has none: ${left.join(", ")}.` });
  }, [seen?.model, link, s.rank, s.cutHeads, s.cutTokens, s.klass]);
  // An edit that this model cannot have is left out, and the view says so.
  const edits = useMemo(() => wanted.filter(({ kind }) => model.exact.includes(kind)), [wanted, model]);
  const block = blockOf(model, s.block);
  const asked = usePass(seen, edits, block),
    base = usePass(seen, kNone, block);
  // The engine reads a blank pad too, but nobody asked it anything.
  const blank = nothingDrawn(s);
  const pass = blank ? { ...asked, attention: null } : asked;
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
  const recorded = isKept();
  useDrops(!recorded);
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
        {recorded && !keptViews().length ? <div /> : <Menu view={s.view} model={model} />}
        <main id="main" tabIndex={-1}>
          <Tour />
          {s.lost && (
            <p class="edited" role="alert" data-not-kept>
              <span>The server does not answer. Is it still running? This page asks again until it does.</span>
            </p>
          )}
          {s.notice && (
            <p class="edited" role="status" data-not-kept>
              <span>{s.notice}</span>{" "}
              <button type="button" onClick={() => set({ notice: "" })}>
                Dismiss
              </button>
            </p>
          )}
          {(edits.length > 0 || (kEditing.includes(s.view) && !recorded)) && <Edited bench={bench} />}
          <Problem
            error={image.error}
            of={state.picture?.kind === "file" && !recorded ? state.picture.name : undefined}
          />
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
              recording: keptViews().length ? "kept views, without an engine" : "a kept view, without an engine",
            }[theClient().transport.kind]
          }
        </span>
      </footer>
    </>
  );
}
const kNone: [] = [];
// There the line about edits is always shown, so that the first edit moves nothing.
const kEditing: ViewName[] = ["symmetry", "rank", "knockout"];

/** Counts the addresses that were opened in this page. */
function useLink(): number {
  const [link, count] = useState(0);
  useEffect(() => {
    const opened = () => count((n) => n + 1);
    addEventListener("hashchange", opened);
    return () => removeEventListener("hashchange", opened);
  }, []);
  return link;
}

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
  // Those that cannot be opened are listed, with the reason.
  const listed = catalogue.models.filter((each) => each.error || isImage(each));
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
      {listed.length > 1 && !recorded ? (
        <Select
          label="Model"
          hideLabel
          value={model.id}
          options={listed.map(({ id, title, error }) =>
            error ? [id, `${title || id}: ${error}`.slice(0, 100), true] : [id, title],
          )}
          onChange={(id) =>
            set({
              model: id,
              query: -1,
              held: false,
              pointed: -1,
              klass: -1,
              block: -1,
              head: "mean",
              pad: false,
              notice: "",
              ...kNoEdits,
            })
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

// A model of the reader's own, where the engine runs in this browser. A browser's dialog chooses a folder or files.
function OpenModel() {
  const folder = useRef<HTMLInputElement>(null),
    files = useRef<HTMLInputElement>(null);
  if (!theClient().transport.addModel) return null;
  const onChange = (event: { currentTarget: HTMLInputElement }) => {
    const chosen = withPaths(event.currentTarget.files ?? []);
    event.currentTarget.value = "";
    if (chosen.length) void takeFiles(chosen);
  };
  return (
    <div class="keep left">
      <DropDown
        title="config.json and weights; they never leave this browser"
        summary={
          <>
            Open<span class="word"> a model</span>…
          </>
        }
        items={[
          ["A model's folder", () => folder.current?.click()],
          ["Its files", () => files.current?.click()],
        ]}
      />
      <input
        ref={folder}
        type="file"
        {...{ webkitdirectory: true }}
        hidden
        aria-label="Folder of a model"
        onChange={onChange}
      />
      <input ref={files} type="file" multiple hidden aria-label="Files of a model" onChange={onChange} />
    </div>
  );
}

/** Why a view has nothing to show of this model, in the fewest words; empty if it has. */
export function lackOf(view: ViewName, model: Model): string {
  if (view === "relevance" && !model.classifier) return "no classifier";
  if (view === "words") return model.kind === "towers" ? "" : "no text tower";
  // Gradients are those of passes that heads can be taken from.
  const edit = { gauge: "gauge", symmetry: "symmetry", rank: "rank", knockout: "head", relevance: "head" }[
    view as string
  ];
  return !edit || model.exact.includes(edit) ? "" : "not of this model";
}

function Menu({ view, model }: { view: ViewName; model: Model }) {
  const nav = useRef<HTMLElement>(null),
    kept = keptViews();
  const menu = kMenu
    .map(([group, views]): (typeof kMenu)[number] => [group, views.filter(([n]) => !kept.length || kept.includes(n))])
    .filter(([, views]) => views.length);
  useEffect(() => {
    // On a narrow screen the menu is one line that scrolls.
    const current = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current && current && nav.current.scrollWidth > nav.current.clientWidth)
      nav.current.scrollLeft = current.offsetLeft - nav.current.clientWidth / 2 + current.offsetWidth / 2;
  }, [view]);
  return (
    <nav class="menu-of-views" aria-label="Views" ref={nav}>
      {menu.map(([group, views]) => (
        <div key={group}>
          <h2>{group}</h2>
          <ul>
            {views.map(([name, title]) => (
              <li key={name}>
                <a
                  class={lackOf(name, model) && "lacking"}
                  href={`#view=${name}`}
                  aria-current={view === name ? "page" : undefined}
                  onClick={(event) => {
                    event.preventDefault();
                    set({ view: name, ...(name === "attention" ? {} : { pad: false }) });
                  }}
                >
                  {title}
                  {lackOf(name, model) && <small> {lackOf(name, model)}</small>}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function Edited({ bench: { s, edits, model, pass, base } }: { bench: Bench }) {
  const now = pass.scores ? argmax(pass.scores) : -1,
    was = base.scores ? argmax(base.scores) : -1;
  return (
    <p class={`edited ${edits.length ? "now" : "none"}`} data-not-kept={edits.length ? undefined : ""}>
      {edits.length ? (
        <span>
          <span class="broad">The model is edited: </span>
          {editsInWords(s)}.
          {now >= 0 && was >= 0 && !nothingDrawn(s) && (
            <span class="narrow">
              {" "}
              <b>{labelOf(model, now)}</b> {percent(pass.scores![now])}, as trained{" "}
              {now === was ? "" : labelOf(model, was)} {percent(base.scores![was])}
            </span>
          )}
          {pass.embedding && base.embedding && (
            <span class="narrow">
              {" "}
              Embedding: cosine <b>{plain(cosine(pass.embedding, base.embedding), 4)}</b> with that as trained
            </span>
          )}
        </span>
      ) : (
        <span>The model is as trained.</span>
      )}{" "}
      <button type="button" disabled={!edits.length || isKept()} onClick={() => set(kNoEdits)}>
        As trained
      </button>
    </p>
  );
}

// Pictures and models dropped on the page, pictures pasted into it.
function useDrops(taken: boolean): void {
  useEffect(() => {
    if (!taken) return;
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files")) {
        event.preventDefault();
        document.body.classList.add("dropping");
      }
    };
    const leave = (event: DragEvent) => event.relatedTarget || document.body.classList.remove("dropping");
    const drop = (event: DragEvent) => {
      document.body.classList.remove("dropping");
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      void takeFiles(dropped(event.dataTransfer));
    };
    const paste = (event: ClipboardEvent) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length) void takeFiles(withPaths(files));
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
  }, [taken]);
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
