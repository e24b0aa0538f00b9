// The drawing pad: pointer strokes, or a pen that keys move.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { fit, rgbCanvas } from "../draw/canvas";
import { stroke, type Drawing } from "../drawing";
import { useWidth } from "./hooks";
import { Toggle } from "./controls";

interface Props {
  drawing: Drawing;
  onDraw(drawing: Drawing): void;
  onClear(): void;
}

export function Pad({ drawing, onDraw, onClear }: Props) {
  const [element, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [erase, setErase] = useState(false);
  const [pen, setPen] = useState<{ at: [number, number]; down: boolean; shown: boolean }>({
    at: [drawing.width / 2, drawing.height / 2],
    down: false,
    shown: false,
  });
  const latest = useRef(drawing);
  latest.current = drawing;
  const last = useRef<[number, number] | null>(null);
  const height = (width * drawing.height) / drawing.width;

  useLayoutEffect(() => {
    if (width <= 0) return;
    const context = fit(canvas.current!, width, height),
      { width: columns, height: rows, pixels } = drawing;
    const cell = width / columns,
      colours = new Uint8Array(3 * pixels.length);
    pixels.forEach((value, i) => colours.fill(value, 3 * i, 3 * i + 3));
    context.imageSmoothingEnabled = false;
    context.drawImage(rgbCanvas(colours, rows, columns), 0, 0, width, height);
    if (pixels.every((value) => !value) && !pen.shown) {
      context.fillStyle = "#9aa4ae";
      context.font = "15px system-ui, sans-serif";
      context.textAlign = "center";
      context.fillText("Draw a digit here", width / 2, height / 2 + 5);
    }
    if (pen.shown) {
      for (const [colour, line] of [
        ["#000", 4],
        ["#4cc2ff", 2],
      ] as const) {
        context.strokeStyle = colour;
        context.lineWidth = line;
        context.beginPath();
        context.arc(pen.at[0] * cell, pen.at[1] * cell, 1.6 * cell, 0, 7);
        context.stroke();
      }
      if (pen.down) {
        context.fillStyle = "#4cc2ff";
        context.beginPath();
        context.arc(pen.at[0] * cell, pen.at[1] * cell, 0.6 * cell, 0, 7);
        context.fill();
      }
    }
  });

  const draw = (from: [number, number], to: [number, number]) => {
    latest.current = stroke(latest.current, from, to, erase);
    onDraw(latest.current);
  };
  const pointOf = (event: PointerEvent): [number, number] => {
    const box = canvas.current!.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * drawing.width,
      ((event.clientY - box.top) / box.height) * drawing.height,
    ];
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (step) {
      event.preventDefault();
      const at: [number, number] = [
        Math.min(drawing.width - 1, Math.max(1, pen.at[0] + step[0])),
        Math.min(drawing.height - 1, Math.max(1, pen.at[1] + step[1])),
      ];
      if (pen.down) draw(pen.at, at);
      setPen({ ...pen, at, shown: true });
    } else if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      if (!pen.down) draw(pen.at, pen.at);
      setPen({ ...pen, down: !pen.down, shown: true });
    } else if (event.key === "Delete" || event.key === "Backspace") {
      onClear();
    }
  };
  return (
    <div class="pad" ref={element}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="drawing pad"
        aria-label={`Drawing pad. Arrow keys move the pen, space lowers and lifts it, Delete clears. The pen is ${pen.down ? "down" : "up"}, column ${Math.round(pen.at[0])}, row ${Math.round(pen.at[1])}.`}
        style={{ width: "100%", aspectRatio: `${drawing.width} / ${drawing.height}`, touchAction: "none" }}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          canvas.current!.setPointerCapture(event.pointerId);
          last.current = pointOf(event);
          setPen({ ...pen, shown: false, down: false });
          draw(last.current, last.current);
        }}
        onPointerMove={(event) => {
          if (!last.current) return;
          // A screen may report several points at once.
          const points = event.getCoalescedEvents?.() ?? [];
          for (const each of points.length ? points : [event]) {
            const to = pointOf(each);
            latest.current = stroke(latest.current, last.current, to, erase);
            last.current = to;
          }
          onDraw(latest.current);
        }}
        onPointerUp={() => (last.current = null)}
        onPointerCancel={() => (last.current = null)}
        onKeyDown={onKeyDown}
        onBlur={() => setPen({ ...pen, shown: false, down: false })}
      />
      <div class="row">
        <button type="button" onClick={onClear}>
          Clear
        </button>
        <Toggle label="Eraser" value={erase} onChange={setErase} />
      </div>
      <p class="note keys">
        Keys: arrows move the pen, <kbd>Space</kbd> lowers and lifts it, <kbd>Delete</kbd> clears.
      </p>
    </div>
  );
}
