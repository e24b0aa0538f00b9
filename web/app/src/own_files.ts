// Files of the reader's own, chosen or dropped: a picture, or a model's folder.
import { kNoEdits, set } from "./state";
import { theClient } from "./transport/client";
import type { OwnFile } from "./transport/transport";
import { EngineError } from "./transport/transport";

const kMostFiles = 2000; // of a dropped folder
const kWeights = /\.(safetensors|bin|pth?|ckpt)$/i;

/** Whether these files are a model rather than a picture. */
export const isModel = (files: OwnFile[]) =>
  files.some(({ path }) => kWeights.test(path) || /(^|\/)config\.json$/.test(path));

/** Files with the path that a folder's picker gives them, else their name. */
export const withPaths = (files: Iterable<File>): OwnFile[] =>
  [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

/** What was dropped, folders with all that is in them. */
export async function dropped(data: DataTransfer): Promise<OwnFile[]> {
  // Entries are there only while the event is handled.
  const entries = [...data.items]
    .filter(({ kind }) => kind === "file")
    .map((item) => item.webkitGetAsEntry?.() ?? null)
    .filter((entry): entry is FileSystemEntry => entry !== null);
  if (!entries.some(({ isDirectory }) => isDirectory)) return withPaths(data.files);
  const files: OwnFile[] = [];
  for (const entry of entries) await collect(entry, files);
  return files;
}

async function collect(entry: FileSystemEntry, to: OwnFile[]): Promise<void> {
  if (to.length >= kMostFiles) throw new Error(`This folder has more than ${kMostFiles} files: drop a model's own.`);
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    to.push({ path: entry.fullPath.replace(/^\//, ""), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A reader gives some entries at a time, and none at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const each of some) await collect(each, to);
  }
}

let pictures = 0;
/** Shows a picture; whether it is one, the engine says. */
export async function takePicture(file: File): Promise<void> {
  set({
    picture: { kind: "file", name: file.name, bytes: new Uint8Array(await file.arrayBuffer()), key: ++pictures },
    pad: false,
    query: -1,
    held: false,
    notice: "",
  });
}

/** Opens a model where the engine runs in this browser; else says how it is opened. */
export async function takeModel(files: OwnFile[]): Promise<void> {
  const { transport } = theClient();
  const name = nameOf(files);
  if (!transport.addModel) {
    return set({ notice: `${name} is a model, which is opened when the explorer starts: qkv explore -m FOLDER` });
  }
  set({ notice: `Opening ${name}…` });
  const model = await transport.addModel(name, files);
  await theClient().renew({ name: "models", json: {} });
  set({ model, query: -1, block: -1, klass: -1, held: false, pointed: -1, notice: "", ...kNoEdits });
}

/** The folder that all files are in, else the file of weights. */
export function nameOf(files: OwnFile[]): string {
  const [folder] = files[0]?.path.split("/") ?? [];
  if (folder && files.every(({ path }) => path.startsWith(`${folder}/`))) return folder;
  return (
    files
      .find(({ path }) => kWeights.test(path))
      ?.path.split("/")
      .pop()!
      .replace(/\.[^.]*$/, "") ?? "model"
  );
}

/** Takes what was dropped, pasted or chosen, and says in the page what went wrong. */
export async function takeFiles(wanted: OwnFile[] | Promise<OwnFile[]>): Promise<void> {
  let name = "";
  try {
    const files = await wanted;
    name = isModel(files) ? nameOf(files) : (files[0]?.path ?? "");
    if (isModel(files)) return await takeModel(files);
    if (files.length === 1) return await takePicture(files[0].file);
    const picture = files.find(({ file }) => file.type.startsWith("image/"));
    if (picture) return await takePicture(picture.file);
    if (files.length) {
      const more = files.length > 2 ? ` and ${files.length - 2} more` : "",
        names = files.slice(0, 2).map(({ path }) => path);
      set({ notice: `Neither a picture nor a model: ${names.join(", ")}${more}.` });
    }
  } catch (error) {
    // The engine names the model too.
    const message = (error as Error).message,
      why = message.startsWith(`${name}: `) ? message.slice(name.length + 2) : message;
    set({ notice: error instanceof EngineError ? `${name} cannot be opened: ${why}` : name ? `${name}: ${why}` : why });
  }
}
