// Hooks that several components use.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { inkOf } from "../draw/canvas";

/** The width of an element in CSS pixels, followed as it changes. */
export function useWidth<T extends HTMLElement>(): [{ current: T | null }, number] {
  const element = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!element.current) return;
    const measure = () => element.current && setWidth(Math.floor(element.current.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

export interface Photo {
  bitmap: ImageBitmap;
  ink: HTMLCanvasElement | null; // of drawings
  png: Uint8Array;
}

const decoded = new WeakMap<Uint8Array, Photo>();

/** The decoded photo; the previous one until it is ready. */
export function usePhoto(png: Uint8Array | undefined, drawing: boolean): Photo | null {
  const [photo, setPhoto] = useState<Photo | null>(null);
  const known = png && decoded.get(png);
  useLayoutEffect(() => {
    if (!png || known) return;
    let dropped = false;
    const type = png[0] === 0x52 ? "image/webp" : "image/png"; // "RIFF"
    createImageBitmap(new Blob([png as BlobPart], { type })).then(
      (bitmap) => {
        const made = { bitmap, ink: drawing ? inkOf(bitmap) : null, png };
        decoded.set(png, made);
        if (!dropped) setPhoto(made);
      },
      () => {},
    );
    return () => void (dropped = true);
  }, [png, drawing]);
  return known ?? photo;
}

/** True where the reader asked for little motion. */
export const wantsStillness = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;
