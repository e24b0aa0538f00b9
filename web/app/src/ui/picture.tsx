// A picture with a value or a colour for each patch, and a query that pointer and arrow keys move.
import { useLayoutEffect, useRef } from "preact/hooks";
import { sequential } from "../colour/maps";
import { fit, frame, mapCanvas, rangeOf, rgbCanvas, type Range } from "../draw/canvas";
import type { Seen } from "../image";
import { tokenName } from "../model";
import { usePhoto, useWidth } from "./hooks";

export interface PictureProps {
  seen: Seen;
  values?: ArrayLike<number> | null; // a value for each token, from the prefix on
  colours?: ArrayLike<number> | null; // [gh, gw, 3]
  range?: Range;
  map?: Uint8Array;
  opacity?: number;
  smooth?: boolean;
  query?: number; // token framed
  pointed?: number; // second token framed
  crossed?: number[]; // tokens crossed out
  label: string;
  most?: number; // greatest width in CSS pixels
  /** Without handlers the picture is an image. */
  onPoint?(token: number, dragged: boolean): void; // the pointer or a key moved to this token
  onPick?(token: number): void; // click, Enter or space
  onLeave?(): void; // Escape
  held?: boolean; // and it lets go of a held query
}

export function Picture(props: PictureProps) {
  const {
    seen,
    values,
    colours,
    range,
    map = sequential,
    opacity = 1,
    smooth = false,
    query = -1,
    pointed = -1,
    crossed = [],
    label,
  } = props;
  const {
    model,
    where,
    photo: [ph, pw],
  } = seen;
  const photo = usePhoto(seen.png, !model.photo);
  const [element, width] = useWidth<HTMLDivElement>();
  const height = (width * ph) / pw;
  const [rows, columns] = seen.grid,
    prefix = model.prefix.length;
  const canvas = { current: null as HTMLCanvasElement | null };
  useLayoutEffect(() => {
    canvas.current = element.current!.querySelector("canvas");
    if (!photo || width <= 0) return;
    const context = fit(canvas.current!, width, height);
    const sx = photo.bitmap.width / pw,
      sy = photo.bitmap.height / ph; // pixels of the bitmap for one of the photo
    const scale = width / pw,
      [top, left, h, w] = where.map((side) => side * scale);
    context.imageSmoothingEnabled = photo.bitmap.width > 200;
    context.drawImage(photo.bitmap, 0, 0, width, height);
    if (h < height - 0.5 || w < width - 0.5) {
      context.fillStyle = "rgba(0, 0, 0, .6)";
      context.fillRect(0, 0, width, height);
      context.drawImage(photo.bitmap, where[1] * sx, where[0] * sy, where[3] * sx, where[2] * sy, left, top, w, h);
    }
    const over = colours
      ? rgbCanvas(colours, rows, columns)
      : values
        ? mapCanvas(values, prefix, rows, columns, range ?? { low: 0, high: rangeOf(values, prefix).high }, map)
        : null;
    if (over) {
      context.save();
      if (photo.ink) {
        context.fillStyle = "#000";
        context.fillRect(left, top, w, h);
      } else {
        context.globalCompositeOperation = "saturation";
        context.fillStyle = "#888";
        context.fillRect(left, top, w, h);
        context.globalCompositeOperation = "source-over";
      }
      context.globalAlpha = opacity;
      context.imageSmoothingEnabled = smooth;
      context.imageSmoothingQuality = "high";
      context.drawImage(over, left, top, w, h);
      if (photo.ink) {
        context.globalAlpha = Math.max(colours ? 0.22 : 0.42, 1 - opacity);
        context.imageSmoothingEnabled = false;
        context.drawImage(photo.ink, where[1] * sx, where[0] * sy, where[3] * sx, where[2] * sy, left, top, w, h);
      }
      context.restore();
    }
    const cell = (token: number): [number, number, number, number] => {
      const i = token - prefix;
      return [left + ((i % columns) * w) / columns, top + (Math.floor(i / columns) * h) / rows, w / columns, h / rows];
    };
    for (const token of crossed) {
      if (token < prefix) continue;
      const [x, y, cw, ch] = cell(token);
      context.fillStyle = "rgba(0, 0, 0, .65)";
      context.fillRect(x, y, cw, ch);
      for (const [style, line] of [
        ["#000", 4],
        ["#fff", 2],
      ] as const) {
        context.strokeStyle = style;
        context.lineWidth = line;
        context.beginPath();
        context.moveTo(x + cw * 0.2, y + ch * 0.2);
        context.lineTo(x + cw * 0.8, y + ch * 0.8);
        context.moveTo(x + cw * 0.8, y + ch * 0.2);
        context.lineTo(x + cw * 0.2, y + ch * 0.8);
        context.stroke();
      }
    }
    const line = width > 200 ? 2.5 : 1.5;
    if (pointed >= prefix && pointed !== query) frame(context, ...cell(pointed), 1);
    if (query >= prefix) frame(context, ...cell(query), line);
  }, [
    photo,
    values,
    colours,
    range?.low,
    range?.high,
    map,
    opacity,
    smooth,
    query,
    pointed,
    crossed.join(),
    width,
    seen,
  ]);

  // Where the button went down, and whether the pointer has left that patch since: then its release is no click.
  const press = useRef({ token: -1, dragged: false });
  const tokenAt = (event: PointerEvent | MouseEvent): number => {
    const box = element.current!.querySelector("canvas")!.getBoundingClientRect(),
      scale = pw / box.width;
    const y = ((event.clientY - box.top) * scale - where[0]) / where[2],
      x = ((event.clientX - box.left) * scale - where[1]) / where[3];
    return y < 0 || y >= 1 || x < 0 || x >= 1 ? -1 : prefix + Math.floor(y * rows) * columns + Math.floor(x * columns);
  };
  const current = pointed >= 0 ? pointed : query;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (step) {
      event.preventDefault();
      const i = Math.max(0, current - prefix);
      const row = Math.floor(i / columns) + (current < prefix ? 0 : step[0]),
        column = (i % columns) + (current < prefix ? 0 : step[1]);
      if (row >= 0 && row < rows && column >= 0 && column < columns)
        props.onPoint?.(prefix + row * columns + column, false);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (current >= 0) props.onPick?.(current);
    } else if (event.key === "Escape") {
      if (props.held) event.preventDefault();
      props.onLeave?.();
    }
  };
  const live = props.onPoint || props.onPick;
  return (
    <div class="picture" ref={element} style={{ maxWidth: props.most ? `${props.most}px` : undefined }}>
      <canvas
        style={{ width: "100%", aspectRatio: `${pw} / ${ph}` }}
        role={live ? "application" : "img"}
        aria-roledescription={live ? "picture with patches" : undefined}
        aria-label={
          live
            ? `${label}. Arrow keys move the query; now ${tokenName(model, current === -1 ? 0 : current, seen.grid)}.`
            : label
        }
        tabIndex={live ? 0 : undefined}
        onPointerMove={(event) => {
          if (event.pointerType === "touch" && !event.isPrimary) return;
          const token = tokenAt(event),
            down = (event.buttons & 1) !== 0;
          if (token < 0) return;
          if (down && token !== press.current.token) press.current.dragged = true;
          props.onPoint?.(token, down && press.current.dragged);
        }}
        onPointerDown={(event) => {
          const token = tokenAt(event);
          press.current = { token, dragged: false };
          if (token >= 0 && event.pointerType !== "mouse") props.onPoint?.(token, false);
        }}
        onClick={(event) => {
          const token = tokenAt(event);
          if (token >= 0 && !press.current.dragged) props.onPick?.(token);
        }}
        onKeyDown={live ? onKeyDown : undefined}
      />
    </div>
  );
}
