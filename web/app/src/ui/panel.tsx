// The left side of every view: the picture with what the view lays over it, where it comes from, and the predictions.
import { toChildArray, type ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { editsInWords, type Bench } from "../bench";
import { drawnBoat } from "../draw/boat";
import { empty, type Drawing } from "../drawing";
import { pictureOf, type Seen } from "../image";
import { blockName, headName, kAllPatches, samplesOf, tokenName } from "../model";
import { takeFiles, takePicture, withPaths } from "../own_files";
import { get, set, type State } from "../state";
import { theClient } from "../transport/client";
import { Choice, percent, Select, Slider, Toggle } from "./controls";
import { usePhoto } from "./hooks";
import { Legend } from "./legend";
import { Pad } from "./pad";
import { Picture, type PictureProps } from "./picture";
import { Predictions } from "./predictions";
import { rangeOf } from "../draw/canvas";

export type Overlay = Pick<PictureProps, "values" | "colours" | "range" | "map"> & {
  label: string;
  /** Of the colours' ends; left out, they are percents from 0. */
  ends?: [string, string];
  what?: string; // what the colours are
  free?: boolean; // no query is shown
  all?: boolean; // the mean over all patches may be the query
  patches?: boolean; // the query is a patch
  fixed?: boolean; // the query stays: another one needs the engine
  only?: boolean; // the query stays: there are the weights of no other; the picture is large, and zoomed into
  /** Said of a token that is pointed at; left out, its value in percent. */
  say?(token: number): string;
};

const kFewTokens = 6; // that have a button each

interface Props {
  bench: Bench;
  overlay: Overlay | null;
  chosen?: number;
  children: ComponentChildren;
}

/** A view: its title (the first child), the panel at the left, the view's own part at the right. */
export function Layout({ bench, overlay, chosen, children }: Props) {
  const [title, ...rest] = toChildArray(children);
  return (
    <div class="layout" data-figure={inWords(bench, overlay)}>
      {title}
      <div class="panel">
        <Stage bench={bench} overlay={overlay} />
        <Predictions bench={bench} chosen={chosen} />
        {theClient().transport.kind !== "recording" && <Sources bench={bench} />}
        {overlay && !bench.s.pad && <Display s={bench.s} />}
      </div>
      <div class="body">{rest}</div>
    </div>
  );
}

/** What a kept picture says at its end. */
function inWords({ s, model, block, head, query }: Bench, overlay: Overlay | null): string {
  const edits = editsInWords(s);
  return [
    model.title,
    overlay && !overlay.patches && blockName(model, block),
    overlay &&
      !overlay.patches &&
      !overlay.free &&
      (typeof head === "number" ? headName(model, head) : `${head} of heads`),
    overlay && !overlay.free && `query: ${tokenName(model, query)}`,
    edits && `edited: ${edits}`,
  ]
    .filter(Boolean)
    .join(", ");
}

function Stage({ bench, overlay }: { bench: Bench; overlay: Overlay | null }) {
  const { s, model, seen } = bench;
  const recorded = theClient().transport.kind === "recording";
  const drawn = !model.photo && !recorded;
  return (
    <section aria-label="Picture">
      {drawn && (
        <div class="row spread">
          <Choice
            label="The picture"
            hideLabel
            value={s.pad ? "draw" : "look"}
            options={[
              ["look", "Look"],
              ["draw", "Draw"],
            ]}
            onChange={(mode) => (mode === "draw" ? startDrawing(bench) : set({ pad: false }))}
          />
        </div>
      )}
      {s.pad && drawn ? (
        <Drawer bench={bench} />
      ) : seen ? (
        <Looked bench={bench} seen={seen} overlay={overlay} />
      ) : (
        <div class={`waiting ${pictureOf(bench.catalogue, model, s.picture) ? "" : "none"}`}>
          {!pictureOf(bench.catalogue, model, s.picture) && (
            <div>
              <p>Open, drop or paste an image to begin.</p>
              <button type="button" onClick={() => void drawnBoat().then(takePicture)}>
                Or begin with a drawn boat
              </button>
            </div>
          )}
        </div>
      )}
    </section>
  );
}

function startDrawing({ s, catalogue, model }: Bench): void {
  const current = pictureOf(catalogue, model, s.picture);
  set({
    pad: true,
    picture: current?.kind === "drawn" ? current : { kind: "drawn", drawing: empty(model.input[1], model.input[2]) },
  });
}

function Drawer({ bench }: { bench: Bench }) {
  const { s, model } = bench;
  const blank = () => empty(model.input[1] || 28, model.input[2] || 28);
  const drawing: Drawing = s.picture?.kind === "drawn" ? s.picture.drawing : blank();
  const put = (to: Drawing) => set({ picture: { kind: "drawn", drawing: to } });
  return <Pad drawing={drawing} onDraw={put} onClear={() => put(blank())} />;
}

function Looked({ bench, seen, overlay }: { bench: Bench; seen: Seen; overlay: Overlay | null }) {
  const { s, query } = bench,
    { model } = seen;
  const photo = usePhoto(seen.png, !model.photo);
  const values = overlay?.values,
    prefix = model.prefix.length;
  const range = values ? (overlay?.range ?? { low: 0, high: rangeOf(values, prefix).high }) : null;
  const token = s.held && s.pointed >= 0 ? s.pointed : query;
  // A detector has a hundred tokens before its patches.
  const few = model.prefix.length > kFewTokens ? 1 : model.prefix.length;
  const pointing = s.held && s.pointed >= 0;
  // Of the query itself there is a value only where it is no query: with itself its cosine is 1.
  const value =
    values && (pointing || overlay?.free)
      ? (overlay?.say?.(token) ?? (pointing ? percent(values[s.pointed]) : ""))
      : "";
  const onPick = (picked: number) => {
    if (s.cutting) {
      const cut = s.cutTokens.includes(picked);
      return set({ cutTokens: cut ? s.cutTokens.filter((each) => each !== picked) : [...s.cutTokens, picked] });
    }
    set(s.held && picked === s.query ? { held: false, pointed: -1 } : { held: true, query: picked, pointed: -1 });
  };
  // With the button down the pointer takes the query along, a held one too.
  const onPoint = (token: number, dragged: boolean) =>
    set(dragged ? { query: token, pointed: -1 } : get().held ? { pointed: token } : { query: token });
  const release = () => set({ held: false, pointed: -1 });
  return (
    <>
      <Picture
        seen={seen}
        values={values}
        colours={overlay?.colours}
        range={range ?? undefined}
        map={overlay?.map}
        opacity={s.opacity}
        smooth={s.smooth}
        query={overlay?.free ? -1 : query}
        held={s.held}
        pointed={s.held ? s.pointed : -1}
        crossed={s.cutTokens}
        label={`${overlay?.label ?? "Picture"}`}
        most={photo && photo.bitmap.height > photo.bitmap.width ? 420 : undefined}
        {...(overlay?.fixed
          ? {}
          : overlay?.only
            ? { zooms: true, onPoint: (token: number) => set({ pointed: token }), onLeave: () => set({ pointed: -1 }) }
            : { onPoint, onPick, onLeave: release })}
      />
      {range && (
        <Legend
          low={overlay?.ends?.[0] ?? percent(range.low)}
          high={overlay?.ends?.[1] ?? percent(range.high)}
          map={overlay?.map}
          what={overlay?.what}
        />
      )}
      <p class="said" aria-live="polite">
        {overlay && !overlay.free && (
          <>
            {s.held && !overlay.only ? "Held: " : "Query: "}
            <b>{tokenName(model, query)}</b>
            {s.held && s.pointed >= 0 ? <> → {tokenName(model, token)}</> : null}
            {value && <>: {value}</>}
            {s.held && !overlay.only && (
              <button type="button" class="release" data-not-kept onClick={release}>
                Release
              </button>
            )}
          </>
        )}
        {overlay?.free && value}
      </p>
      {!overlay?.free && !overlay?.patches && !overlay?.only && (
        <div class="row tokens">
          {model.prefix.slice(0, few).map((_, token) => (
            <button
              key={token}
              type="button"
              aria-pressed={query === token}
              onClick={() => set({ query: token, held: false, pointed: -1 })}
            >
              {tokenName(model, token)}
            </button>
          ))}
          {model.prefix.length > few && (
            <Select
              label="Other tokens"
              hideLabel
              value={query >= few && query < model.prefix.length ? String(query) : ""}
              options={[
                ["", "other tokens…", true],
                ...model.prefix
                  .slice(few)
                  .map((_, i): [string, string] => [String(few + i), tokenName(model, few + i)]),
              ]}
              onChange={(token) => set({ query: Number(token), held: false, pointed: -1 })}
            />
          )}
          {overlay?.all && (
            <button
              type="button"
              aria-pressed={query === kAllPatches}
              onClick={() => set({ query: kAllPatches, held: false, pointed: -1 })}
            >
              all patches (mean)
            </button>
          )}
        </div>
      )}
      <p class="note keys">
        {overlay?.fixed ? (
          ""
        ) : overlay?.only ? (
          <>
            Point at a patch to read its weight. Zoom: wheel or <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd>; drag to move.
          </>
        ) : s.cutting ? (
          "Click a patch to hide it or show it again."
        ) : overlay?.free ? (
          overlay.say ? (
            "Point at a patch to read its value."
          ) : (
            ""
          )
        ) : (
          <>
            Point at a patch to ask where it looks; click to hold it. Keys: arrows, <kbd>Enter</kbd>, <kbd>Esc</kbd>.
          </>
        )}
      </p>
    </>
  );
}

// How the colours lie over the picture.
function Display({ s }: { s: State }) {
  return (
    <details class="display">
      <summary>Display</summary>
      <Slider
        label="Strength of the colours"
        value={s.opacity}
        min={0}
        max={1}
        step={0.05}
        text={`${Math.round(100 * s.opacity)} %`}
        onInput={(opacity) => set({ opacity })}
      />
      <Toggle label="Smooth between patches" value={s.smooth} onChange={(smooth) => set({ smooth })} />
    </details>
  );
}

function Sources({ bench }: { bench: Bench }) {
  const { s, model, catalogue } = bench;
  const input = useRef<HTMLInputElement>(null);
  const samples = samplesOf(catalogue, model),
    current = pictureOf(catalogue, model, s.picture);
  return (
    <div class="sources">
      {samples.length > 0 && (
        <div
          class={`row samples ${samples.length <= 10 && samples.every(({ title }) => title.length === 1) ? "short" : ""}`}
          role="group"
          aria-label="Samples"
        >
          {samples.map(({ id, title }) => (
            <button
              key={id}
              type="button"
              aria-pressed={current?.kind === "sample" && current.id === id}
              aria-label={`Sample ${title}`}
              onClick={() => set({ picture: { kind: "sample", id }, pad: false })}
            >
              {title}
            </button>
          ))}
        </div>
      )}
      <div class="row">
        <button type="button" onClick={() => input.current!.click()}>
          Open an image…
        </button>
        <span class="note keys">or drop or paste one</span>
        <input
          ref={input}
          type="file"
          accept="image/*,.heic,.heif,.avif,.tif,.tiff,.bmp,.ppm,.pgm"
          hidden
          aria-label="Image file"
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            if (file) void takeFiles(withPaths([file]));
            event.currentTarget.value = "";
          }}
        />
      </div>
      {s.picture?.kind === "file" && (
        <p class="note">
          {s.picture.name}:{" "}
          {theClient().transport.kind === "server"
            ? "sent to this server only, and never part of a link."
            : "stays in this browser, and is never part of a link."}
        </p>
      )}
    </div>
  );
}
