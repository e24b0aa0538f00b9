// A picture with a value or a colour for each patch, and a query that pointer and arrow keys move.
import { useLayoutEffect, useRef } from "preact/hooks";
import { sequential } from "../colour/maps";
import { fit, frame, mapCanvas, rangeOf, rgbCanvas, type Range } from "../draw/canvas";
import type { Seen } from "../image";
import { tokenName } from "../model";
import { usePhoto, useWidth } from "./hooks";
import { kZoomStep, useZoom } from "./zoom";

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
  zooms?: boolean; // the wheel, keys and buttons magnify, and dragging moves
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
    zooms = false,
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
  const zoom = useZoom(Math.max(8, rows / 8, columns / 8)),
    { z, x: partX, y: partY } = zoom.part;
  const canvas = { current: null as HTMLCanvasElement | null };
  useLayoutEffect(() => {
    canvas.current = element.current!.querySelector("canvas");
    if (!photo || width <= 0) return;
    const context = fit(canvas.current!, width, height);
    const sx = photo.bitmap.width / pw,
      sy = photo.bitmap.height / ph; // pixels of the bitmap for one of the photo
    const scale = width / pw,
      [top, left, h, w] = where.map((side) => side * scale);
    context.save();
    context.scale(z, z);
    context.translate(-partX * width, -partY * height);
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
    context.restore();
    const cell = (token: number): [number, number, number, number] => {
      const i = token - prefix;
      return [
        z * (left + ((i % columns) * w) / columns - partX * width),
        z * (top + (Math.floor(i / columns) * h) / rows - partY * height),
        (z * w) / columns,
        (z * h) / rows,
      ];
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
    z,
    partX,
    partY,
  ]);

  // Where the button went down, and whether the pointer has left that patch since: then its release is no click.
  const press = useRef({ token: -1, dragged: false, x: 0, y: 0 });
  // Shares of what is seen.
  const placeOf = (event: MouseEvent): [number, number] => {
    const box = element.current!.querySelector("canvas")!.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const tokenAt = (event: MouseEvent): number => {
    const [u, v] = placeOf(event);
    const y = ((partY + v / z) * ph - where[0]) / where[2],
      x = ((partX + u / z) * pw - where[1]) / where[3];
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
      if (row >= 0 && row < rows && column >= 0 && column < columns) {
        props.onPoint?.(prefix + row * columns + column, false);
        zoom.show(
          (where[1] + ((column + 0.5) * where[3]) / columns) / pw,
          (where[0] + ((row + 0.5) * where[2]) / rows) / ph,
        );
      }
    } else if (zooms && "+=-0".includes(event.key)) {
      event.preventDefault();
      if (event.key === "0") zoom.reset();
      else zoom.by(event.key === "-" ? 1 / kZoomStep : kZoomStep);
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
        style={{
          width: "100%",
          aspectRatio: `${pw} / ${ph}`,
          ...(zooms && z > 1 ? { touchAction: "none", cursor: "grab" } : {}),
        }}
        role={live ? "application" : "img"}
        aria-roledescription={live ? "picture with patches" : undefined}
        aria-label={
          live
            ? `${label}. Arrow keys move the query; now ${tokenName(model, current === -1 ? 0 : current, seen.grid)}.`
            : label
        }
        tabIndex={live ? 0 : undefined}
        onWheel={
          zooms
            ? (event) => {
                if (event.deltaY > 0 && z === 1) return; // the page scrolls on
                event.preventDefault();
                zoom.by(Math.exp(-event.deltaY / 400), ...placeOf(event));
              }
            : undefined
        }
        onPointerMove={(event) => {
          if (event.pointerType === "touch" && !event.isPrimary) return;
          if (zooms && z > 1 && event.buttons & 1) {
            const [u, v] = placeOf(event);
            zoom.move(u - press.current.x, v - press.current.y);
            [press.current.x, press.current.y] = [u, v];
            return;
          }
          const token = tokenAt(event),
            down = (event.buttons & 1) !== 0;
          if (token < 0) return;
          if (down && token !== press.current.token) press.current.dragged = true;
          props.onPoint?.(token, down && press.current.dragged);
        }}
        onPointerDown={(event) => {
          const token = tokenAt(event),
            [x, y] = placeOf(event);
          press.current = { token, dragged: false, x, y };
          if (zooms && z > 1) event.currentTarget.setPointerCapture(event.pointerId);
          if (token >= 0 && event.pointerType !== "mouse") props.onPoint?.(token, false);
        }}
        onClick={(event) => {
          const token = tokenAt(event);
          if (token >= 0 && !press.current.dragged) props.onPick?.(token);
        }}
        onKeyDown={live ? onKeyDown : undefined}
      />
      {zooms && (
        <div class="row" role="group" aria-label="Zoom" data-not-kept>
          <button type="button" aria-label="Zoom in" onClick={() => zoom.by(kZoomStep)}>
            +
          </button>
          <button type="button" aria-label="Zoom out" disabled={z === 1} onClick={() => zoom.by(1 / kZoomStep)}>
            −
          </button>
          <button type="button" disabled={z === 1} onClick={zoom.reset}>
            Whole picture
          </button>
          <span class="note">{z.toFixed(1)} ×</span>
        </div>
      )}
    </div>
  );
}
