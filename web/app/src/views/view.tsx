// Parts that the views share: a heading with the ways to keep the view, explanations, choices of block and head.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Bench } from "../bench";
import { keep } from "../export/keep";
import { blockName, headName } from "../model";
import { set } from "../state";
import { isKept } from "../transport/client";
import { Choice, Slider } from "../ui/controls";
import { wantsStillness } from "../ui/hooks";
import { DropDown } from "../ui/menu";

interface TitleProps {
  title: string;
  children: ComponentChildren; // what the view shows, in a sentence or two
}

export function Title({ title, children }: TitleProps) {
  return (
    <header class="title">
      <h1 tabIndex={-1}>{title}</h1>
      <KeepMenu title={title} />
      <div class="lead">{children}</div>
    </header>
  );
}

function KeepMenu({ title }: { title: string }) {
  const [said, say] = useState("");
  const run = (how: "html" | "png" | "svg" | "link") => async () => {
    try {
      say(await keep(how, title));
    } catch (error) {
      say((error as Error).message);
    }
  };
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => say(""), 5000);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <div class="keep" data-not-kept>
      <DropDown
        summary="Keep this view"
        items={[
          ...(isKept()
            ? []
            : ([
                ["Copy a link", run("link")],
                ["One HTML file", run("html")],
              ] as [string, () => void][])),
          ["PNG", run("png")],
          ["SVG", run("svg")],
        ]}
      />
      <span role="status">{said}</span>
    </div>
  );
}

export function More({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <details class="explain">
      <summary>{title}</summary>
      <div>{children}</div>
    </details>
  );
}

/** Block and head in words and controls; `play` runs through the blocks. */
export function BlockAndHead({ bench, mean = true, play }: { bench: Bench; mean?: boolean; play?: boolean }) {
  const { model, block, head } = bench;
  const [playing, setPlaying] = useState(false);
  const at = useRef(block);
  at.current = block;
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => set({ block: (at.current + 1) % model.blocks }), 900);
    return () => clearInterval(timer);
  }, [playing, model]);
  return (
    <div class="controls">
      <div class="row stretch">
        {model.blocks > 1 && (
          <Slider
            label="Block"
            value={block}
            min={0}
            max={model.blocks - 1}
            step={1}
            text={blockName(model, block).replace(/^block /, "")}
            onInput={(value) => set({ block: value })}
          />
        )}
        {play && model.blocks > 1 && !wantsStillness() && (
          <button type="button" class="play" aria-pressed={playing} onClick={() => setPlaying(!playing)}>
            {playing ? "Stop" : "Play"}
          </button>
        )}
      </div>
      {mean && model.heads > 1 && (
        <Choice
          label="Heads"
          value={typeof head === "number" ? "one" : head}
          options={[
            ["mean", "mean"],
            ["max", "greatest"],
            ["one", typeof head === "number" ? headName(model, head) : "one head"],
          ]}
          onChange={(value) =>
            set({ head: value === "one" ? (typeof head === "number" ? head : 0) : (value as "mean" | "max") })
          }
        />
      )}
    </div>
  );
}

export const headText = (bench: Bench) =>
  typeof bench.head === "number"
    ? headName(bench.model, bench.head)
    : bench.head === "mean"
      ? "mean of heads"
      : "greatest of heads";
