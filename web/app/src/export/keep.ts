// Keeps the shown view: a link, one HTML file, PNG or SVG.
import { toHash } from "../hash";
import { get } from "../state";
import { viewAsPage } from "./page";
import { viewAsSvg } from "./svg";

const kPngScale = 2;

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function rasterised({ svg, width, height }: { svg: string; width: number; height: number }): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * kPngScale;
  canvas.height = height * kPngScale;
  const context = canvas.getContext("2d")!;
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error("The browser made no PNG.");
  return blob;
}

/** Keeps the view and says what was done. */
export async function keep(how: "html" | "png" | "svg" | "link", title: string): Promise<string> {
  const state = get();
  const hash = toHash({ ...state, tour: -1 });
  if (how === "link") {
    const link = location.href.replace(/#.*$/, "") + hash;
    const own = state.picture?.kind === "file" ? " Your picture is not part of it." : "";
    await navigator.clipboard.writeText(link);
    return `Link copied.${own}`;
  }
  const name = `qkv-${state.view}.${how}`;
  if (how === "html") {
    save(new Blob([viewAsPage(title, hash)], { type: "text/html" }), name);
  } else {
    const root = document.querySelector("[data-figure]");
    if (!root) throw new Error("There is nothing to keep yet.");
    const picture = viewAsSvg(root, title);
    save(how === "svg" ? new Blob([picture.svg], { type: "image/svg+xml" }) : await rasterised(picture), name);
  }
  return `Kept as ${name}.`;
}
