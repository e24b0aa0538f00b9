// The page of `qkv slide heatmap --page`: a slide to zoom into, with the scores of its tiles over it.
import { render } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useStore } from "../state";
import { Choice, percent, Slider } from "../ui/controls";
import { Legend } from "../ui/legend";
import { ThemeButton } from "../ui/theme";
import { kKinds, readPage, type Kind, type Page } from "./facts";
import { scaleBar } from "./scale";
import { SlideViewer, type View } from "./viewer";
import "../style.css";
import "./slide.css";

const kScaleBar = 160; // screen pixels at most
const kMaps: [Kind, string][] = [
  ["raw", "Raw"],
  ["ranked", "Ranked"],
  ["blurred", "Blurred"],
];

const number = (x: number) => (x !== 0 && Math.abs(x) < 1e-3 ? x.toExponential(2) : String(+x.toPrecision(3)));

/** What the tiles at a point say. */
function valueText(page: Page, point: [number, number]): string {
  const tiles = page.tilesAt(...point);
  if (!tiles.length) return "no tile";
  return tiles
    .slice(0, 2)
    .map((i) => `${number(page.scores[i])}, above ${percent(page.ranks[i] - 1 / page.scores.length)} of tiles`)
    .join("; ");
}

function Top({ page, at, onGo }: { page: Page; at: number; onGo(index: number): void }) {
  return (
    <section class="strip" aria-label={`Tiles with the highest ${page.facts.what}`}>
      <ol>
        {page.facts.top.map(({ tile, picture }, i) => (
          <li key={tile}>
            <button type="button" aria-pressed={i === at} onClick={() => onGo(i)}>
              <span class="hidden">Zoom to tile {i + 1} of the highest: </span>
              {picture ? (
                <img src={`data:image/webp;base64,${picture}`} alt="" />
              ) : (
                <span class="unread">not readable</span>
              )}
              <small>{number(page.scores[tile])}</small>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Damaged({ page }: { page: Page }) {
  const { damaged } = page.facts;
  if (!damaged.length) return null;
  return (
    <details class="damaged">
      <summary>
        {damaged.length === 1 ? "A part" : `${damaged.length} parts`} of the slide cannot be read, shown grey
      </summary>
      <ul>
        {damaged.slice(0, 50).map(({ x, y, width, height, why }) => (
          <li key={`${x} ${y}`}>
            {x}, {y}, {width} × {height}: {why}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Keys() {
  return (
    <details class="keys">
      <summary>Keys on the slide</summary>
      <p>
        <kbd>←</kbd> <kbd>→</kbd> <kbd>↑</kbd> <kbd>↓</kbd> move, <kbd>+</kbd> <kbd>−</kbd> zoom, <kbd>0</kbd> the whole
        slide, <kbd>1</kbd> <kbd>2</kbd> <kbd>3</kbd> the map, <kbd>[</kbd> <kbd>]</kbd> its opacity, <kbd>n</kbd>{" "}
        <kbd>p</kbd> next and previous of the highest tiles.
      </p>
    </details>
  );
}

function Panel({ page, kind, opacity, set }: PanelProps) {
  const { facts } = page,
    raw = kind === "raw";
  return (
    <section class="settings" aria-label="Map">
      <Choice label="Map" value={kind} options={kMaps} onChange={(kind) => set({ kind })} />
      <Slider
        label="Opacity"
        value={opacity}
        min={0}
        max={1}
        step={0.05}
        text={`${Math.round(100 * opacity)} %`}
        onInput={(opacity) => set({ opacity })}
      />
      <p class="note legend-name">
        {raw ? facts.what : `Rank of a tile's ${facts.what}${kind === "blurred" ? ", smoothed" : ""}`}
      </p>
      <Legend low={raw ? number(facts.ends[0]) : "lowest"} high={raw ? number(facts.ends[1]) : "highest"} />
      {facts.answers.length > 0 && (
        <dl class="answers">
          {facts.answers.map(([name, share]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{percent(share)}</dd>
            </div>
          ))}
        </dl>
      )}
      <Damaged page={page} />
      <Keys />
    </section>
  );
}

interface Settings {
  kind: Kind;
  opacity: number;
}
interface PanelProps extends Settings {
  page: Page;
  set(change: Partial<Settings>): void;
}

function SlidePage({ page }: { page: Page }) {
  const s = useStore(),
    { facts } = page,
    element = useRef<HTMLDivElement>(null),
    viewer = useRef<SlideViewer | null>(null),
    [settings, setSettings] = useState<Settings>({ kind: facts.show, opacity: facts.opacity }),
    [view, setView] = useState<View | null>(null),
    [point, setPoint] = useState<[number, number] | null>(null),
    [failure, setFailure] = useState(""),
    [at, setAt] = useState(-1);
  const change = useCallback((change: Partial<Settings>) => setSettings((before) => ({ ...before, ...change })), []);
  useEffect(() => {
    viewer.current = new SlideViewer(page, element.current!, setView, setPoint, setFailure);
    return () => viewer.current?.destroy();
  }, []);
  useEffect(() => viewer.current?.show(settings.kind, settings.opacity), [settings]);
  const go = (index: number) => {
    const tile = facts.top[index]?.tile;
    if (tile === undefined) return;
    setAt(index);
    viewer.current?.goTo(tile);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const map = kKinds[Number(event.key) - 1];
    if (map) change({ kind: map });
    else if (event.key === "[") change({ opacity: Math.max(0, settings.opacity - 0.05) });
    else if (event.key === "]") change({ opacity: Math.min(1, settings.opacity + 0.05) });
    else if (event.key === "n") go(Math.min(facts.top.length - 1, at + 1));
    else if (event.key === "p") go(Math.max(0, at - 1));
    else if (event.key === "0") (setAt(-1), viewer.current?.home());
  };
  const bar = view && scaleBar(view.pixel, facts.mpp, kScaleBar),
    shown = point ?? view?.centre;
  return (
    <>
      <header class="top">
        <h1 class="brand">{facts.title}</h1>
        <span class="note">
          {facts.what} of {page.scores.length} tiles
        </span>
        <span class="space" />
        <ThemeButton theme={s.theme} />
      </header>
      <main id="main" class="slide" tabIndex={-1}>
        <div class="stage">
          <div class="viewer" ref={element} onKeyDown={onKey} />
          <div class="buttons">
            <button type="button" aria-label="Zoom in" onClick={() => viewer.current?.zoom(2)}>
              +
            </button>
            <button type="button" aria-label="Zoom out" onClick={() => viewer.current?.zoom(0.5)}>
              −
            </button>
            <button
              type="button"
              aria-label="The whole slide"
              onClick={() => {
                setAt(-1);
                viewer.current?.home();
              }}
            >
              ⤢
            </button>
          </div>
          {bar && (
            <div class="scale">
              <ScaleBar width={bar.width} />
              {bar.text}
            </div>
          )}
          {shown && (
            <p class="value">
              {point ? "Here" : "Centre"}: {valueText(page, shown)}
            </p>
          )}
        </div>
        <Panel page={page} {...settings} set={change} />
        <Top page={page} at={at} onGo={go} />
        {failure && (
          <p class="problem" role="alert">
            {failure}
          </p>
        )}
      </main>
      <footer>
        <span>qkv {__VERSION__}</span>
        <span>For research. Not for diagnosis.</span>
      </footer>
    </>
  );
}

// Its width is set by a property: the page's policy refuses style attributes.
function ScaleBar({ width }: { width: number }) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => void (bar.current!.style.width = `${width}px`), [width]);
  return <i ref={bar} aria-hidden="true" />;
}

const page = readPage(document);
document.title = page.facts.title;
render(<SlidePage page={page} />, document.getElementById("app")!);
