// Maps of every head in every block: one canvas, with a button over each map.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Attention, Head } from "../attention";
import { sequential } from "../colour/maps";
import { fit, frame, mapCanvas, rangeOf, type Range } from "../draw/canvas";
import type { Seen } from "../image";
import { blockName, headName } from "../model";
import { usePhoto, useWidth } from "./hooks";

const kGap = 4,
  kName = 26; // CSS pixels

interface Props {
  seen: Seen;
  attention: Attention;
  query: number;
  block: number; // chosen
  head: Head;
  blocks?: number[]; // shown; all of the pass
  common?: boolean; // one scale for all maps
  crossed?: string[]; // "block.head" that are out
  most?: number; // greatest side of a map
  onPick(block: number, head: Head): void;
}

export function HeadGrid({
  seen,
  attention,
  query,
  block,
  head,
  blocks = attention.which,
  common,
  crossed = [],
  most = 108,
  onPick,
}: Props) {
  const { model } = seen,
    [rows, columns] = seen.grid,
    prefix = model.prefix.length;
  const photo = usePhoto(seen.png, !model.photo);
  const [element, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const heads: Head[] = attention.heads > 1 ? ["mean", ...Array(attention.heads).keys()] : [0];
  const tile = Math.max(12, Math.min(most, (width - kName - kGap * (heads.length - 1)) / heads.length));
  const tall = (tile * rows) / columns;
  const full = kName + heads.length * (tile + kGap) - kGap,
    height = blocks.length * (tall + kGap) - kGap;

  // Only what is seen in the maps draws them again: the page is rendered at each stroke and each answer.
  useLayoutEffect(() => {
    if (width <= 0) return;
    const context = fit(canvas.current!, full, height);
    let shared: Range | null = null;
    const row = new Float32Array(attention.columns);
    if (common) {
      let high = 0;
      for (const b of blocks)
        for (let h = 0; h < attention.heads; ++h)
          high = Math.max(high, rangeOf(attention.row(b, h, query, row), prefix).high);
      shared = { low: 0, high };
    }
    blocks.forEach((b, i) =>
      heads.forEach((head, j) => {
        const x = kName + j * (tile + kGap),
          y = i * (tall + kGap);
        attention.row(b, head, query, row);
        const out = typeof head === "number" && crossed.includes(`${b}.${head}`);
        context.globalAlpha = out ? 0.25 : 1;
        context.imageSmoothingEnabled = false;
        context.drawImage(
          mapCanvas(row, prefix, rows, columns, shared ?? { low: 0, high: rangeOf(row, prefix).high }, sequential),
          x,
          y,
          tile,
          tall,
        );
        if (photo?.ink && tile > 40) {
          context.globalAlpha = out ? 0.1 : 0.28;
          const [top, left, h, w] = seen.where,
            sx = photo.bitmap.width / seen.photo[1],
            sy = photo.bitmap.height / seen.photo[0];
          context.drawImage(photo.ink, left * sx, top * sy, w * sx, h * sy, x, y, tile, tall);
        }
        context.globalAlpha = 1;
        if (query >= prefix && tile > 20) {
          const at = query - prefix;
          frame(
            context,
            x + ((at % columns) * tile) / columns,
            y + (Math.floor(at / columns) * tall) / rows,
            tile / columns,
            tall / rows,
            1,
          );
        }
      }),
    );
  }, [photo, attention, query, common, crossed.join(), blocks.join(), tile, full, height, seen]);

  const focus = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const at = [blocks.indexOf(block), heads.indexOf(head)];
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const b = blocks[Math.min(blocks.length - 1, Math.max(0, at[0] + step[0]))],
      h = heads[Math.min(heads.length - 1, Math.max(0, at[1] + step[1]))];
    onPick(b, h);
    requestAnimationFrame(() => focus.current?.querySelector<HTMLElement>("[tabindex='0']")?.focus());
  };
  const chosenHead = heads.includes(head) ? head : heads[0];
  return (
    <div class="head-grid" ref={element}>
      <div class="column-names" aria-hidden="true" style={{ marginLeft: `${kName}px` }}>
        {heads.map((h) => (
          <span key={h} style={{ width: `${tile}px`, marginRight: `${kGap}px` }}>
            {h === "mean"
              ? "mean"
              : tile > 58
                ? headName(model, h as number)
                : headName(model, h as number).replace(/^head /, "")}
          </span>
        ))}
      </div>
      <div class="maps" style={{ width: `${full}px`, height: `${height}px` }}>
        <canvas ref={canvas} style={{ width: `${full}px`, height: `${height}px` }} aria-hidden="true" />
        {blocks.map((b, i) => (
          <span
            key={b}
            class="row-name"
            aria-hidden="true"
            style={{ top: `${i * (tall + kGap)}px`, height: `${tall}px`, width: `${kName - 6}px` }}
          >
            {blockName(model, b).replace(/^block /, "")}
          </span>
        ))}
        <div
          ref={focus}
          role="group"
          aria-label="Maps of blocks and heads. Arrow keys move between them."
          onKeyDown={onKeyDown}
        >
          {blocks.map((b, i) =>
            heads.map((h, j) => {
              const chosen = b === block && h === chosenHead;
              return (
                <button
                  key={`${b}.${h}`}
                  type="button"
                  aria-pressed={chosen}
                  tabIndex={chosen || (i === 0 && j === 0 && !blocks.includes(block)) ? 0 : -1}
                  aria-label={`${blockName(model, b)}, ${h === "mean" ? "mean of heads" : headName(model, h as number)}`}
                  class={typeof h === "number" && crossed.includes(`${b}.${h}`) ? "out" : ""}
                  style={{
                    left: `${kName + j * (tile + kGap)}px`,
                    top: `${i * (tall + kGap)}px`,
                    width: `${tile}px`,
                    height: `${tall}px`,
                  }}
                  onClick={() => onPick(b, h)}
                />
              );
            }),
          )}
        </div>
      </div>
    </div>
  );
}
