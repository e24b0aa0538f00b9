// The scale of a colour map, with the values of its ends.
import { useEffect, useRef } from "preact/hooks";
import { sequential } from "../colour/maps";

export function Legend({
  low,
  high,
  map = sequential,
  what,
}: {
  low: string;
  high: string;
  map?: Uint8Array;
  what?: string;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current!.getContext("2d")!,
      image = context.createImageData(256, 1);
    for (let i = 0; i < 256; ++i) for (let c = 0; c < 4; ++c) image.data[4 * i + c] = c < 3 ? map[3 * i + c] : 255;
    context.putImageData(image, 0, 0);
  }, [map]);
  return (
    <div class="legend">
      {what && <span class="what">{what}</span>}
      <span>{low}</span>
      <canvas ref={canvas} width={256} height={1} aria-hidden="true" />
      <span>{high}</span>
    </div>
  );
}
