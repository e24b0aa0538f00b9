// A picture to begin with, where a model of photos comes without one: a sailing boat, drawn here.

const kSide = 256;

/** The drawing as a file, as if the reader had opened it. */
export async function drawnBoat(): Promise<File> {
  const canvas = new OffscreenCanvas(kSide, kSide),
    context = canvas.getContext("2d")!;
  const fill = (colour: string | CanvasGradient, ...points: [number, number][]) => {
    context.fillStyle = colour;
    context.beginPath();
    for (const [x, y] of points) context.lineTo(x, y);
    context.fill();
  };
  const shade = (top: number, bottom: number, from: string, to: string) => {
    const colours = context.createLinearGradient(0, top, 0, bottom);
    colours.addColorStop(0, from);
    colours.addColorStop(1, to);
    return colours;
  };
  const horizon = 160;
  fill(shade(0, horizon, "#6fa8dc", "#dcebf5"), [0, 0], [kSide, 0], [kSide, horizon], [0, horizon]);
  fill(shade(horizon, kSide, "#3d7ea6", "#173f5f"), [0, horizon], [kSide, horizon], [kSide, kSide], [0, kSide]);
  fill("#5b3a21", [128, 40], [133, 40], [133, 172], [128, 172]);
  fill("#fbfaf4", [124, 46], [124, 158], [66, 158]);
  fill("#e6e1d3", [137, 54], [137, 158], [188, 158]);
  fill("#8c2f26", [56, 168], [204, 168], [180, 202], [82, 202]);
  return new File([await canvas.convertToBlob()], "Drawn boat", { type: "image/png" });
}
