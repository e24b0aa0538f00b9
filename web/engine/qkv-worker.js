// The engine in a worker of the page, so that the page never waits for it. Messages in: {id, name, packet} and {id, model,
// files: [{path, bytes or file}]}; out: {ready} or {failed} once, then {id, packet} or {id, error}. Packets are ArrayBuffers,
// see docs/web.md. Nothing is sent anywhere: files are read from the page's own folder, or from the page itself if it has
// them in `qkvEmbedded` (name to base64), as the page that runs from disk does. tools/web_folder.py puts packet.mjs in front.
const embedded = self.qkvEmbedded ?? null;

let module = null;
let index = { models: [] };  // models/index.json: models beside the page, as the engine describes them
const fetched = new Set();  // those whose files are in the module's file system
let own = 0;  // models of the reader's

async function read(path) {
  if (embedded) {
    if (!(path in embedded)) throw new Error(`${path} is not in this page`);
    const text = atob(embedded[path]);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
    delete embedded[path];  // read once
    return bytes;
  }
  const answer = await fetch(new URL(path, self.location.href));
  if (!answer.ok) throw new Error(`${path}: the host answers ${answer.status} ${answer.statusText}`);
  return new Uint8Array(await answer.arrayBuffer());
}

// The module's script; its name. Threads need memory that workers share, which browsers give to isolated pages alone.
function load() {
  if (embedded) return "qkv";
  if (self.crossOriginIsolated === true) {
    try {
      importScripts("qkv-threads.js");
      return "qkv-threads";
    } catch {  // `make web` builds it only with --threads
    }
  }
  importScripts("qkv.js");
  return "qkv";
}

async function start() {
  const name = load();
  const wasmBinary = await read(`${name}.wasm`);
  module = await createQkv({
    wasmBinary,
    locateFile: (file) => (embedded ? file : new URL(file, self.location.href).href),
    mainScriptUrlOrBlob: embedded ? undefined : new URL(`${name}.js`, self.location.href).href,
    print: () => {},
    printErr: (text) => console.warn(text),
  });
  module.FS.mkdir("/models");
  index = JSON.parse(new TextDecoder().decode(await read("models/index.json")));
}

// Has the engine open a model whose files are in place: its folder, or a file in it.
function offer(id, title, file) {
  decode(call("add", encode({ models: [{ id, title, file }] })));
}

// Bytes in, bytes out.
function call(name, packet) {
  const length = module.lengthBytesUTF8(name) + 1;
  const at = module._malloc(length + packet.byteLength);
  if (!at) throw new Error("the browser gives no more memory");
  module.stringToUTF8(name, at, length);
  module.HEAPU8.set(new Uint8Array(packet), at + length);
  try {
    const bytes = module._qkv_call(at, at + length, packet.byteLength);
    const answer = module._qkv_answer() >>> 0;
    return module.HEAPU8.slice(answer, answer + bytes).buffer;
  } finally {
    module._free(at);
  }
}

function write(id, files) {
  const folder = `/models/${id}`;
  for (const { path, bytes } of files) {
    module.FS.mkdirTree(`${folder}/${path}`.replace(/\/[^/]*$/, ""));
    // The array itself becomes the file: it is not copied.
    module.FS.writeFile(`${folder}/${path}`, bytes, { canOwn: true });
  }
}

function remove(path) {
  const { FS } = module;
  if (!FS.analyzePath(path).exists) return;
  if (!FS.isDir(FS.stat(path).mode)) return FS.unlink(path);
  for (const name of FS.readdir(path)) if (name !== "." && name !== "..") remove(`${path}/${name}`);
  FS.rmdir(path);
}

// Fetches a model's files when it is first asked for.
async function ensure(id) {
  const model = index.models.find((model) => model.id === id);
  if (!model || fetched.has(id)) return;
  const files = await Promise.all(model.files.map(async (path) => ({ path, bytes: await read(`models/${id}/${path}`) })));
  write(id, files);
  offer(id, model.title);
  fetched.add(id);
}

async function answer({ name, packet, model, files }) {
  if (files) return add(model, files);
  const request = unpack(packet);
  if (typeof request.json.model === "string") await ensure(request.json.model);
  if (name === "models") return models(packet);
  return call(name, name === "image" ? await decoded(packet, request) : packet);
}

// Those that are not fetched yet are described as they were when the page was built.
function models(packet) {
  const bytes = call("models", packet);
  const { json } = unpack(bytes);
  if (json.error) return bytes;
  const opened = new Map(json.models.map((model) => [model.id, model]));
  const beside = index.models.map(({ id, described }) => ({ ...(opened.get(id) ?? described), shipped: id }));
  const ids = new Set(index.models.map(({ id }) => id));
  const others = json.models.filter(({ id }) => !ids.has(id));
  json.models = [...others.filter(({ id }) => !id.startsWith("own-")), ...beside, ...others.filter(({ id }) => id.startsWith("own-"))];
  return encode(json).buffer;
}

// A picture in a format that the engine leaves to browsers, as pixels; any other request as it is.
async function decoded(packet, { json, arrays }) {
  if (!arrays.file) return packet;
  const bytes = arrays.file.data;
  const begins = String.fromCharCode(...bytes.subarray(0, 2));
  if (begins === "\x89P" || begins === "BM" || /^P[1-6]$/.test(begins)) return packet;
  let bitmap;
  try {
    // As the engine decodes: upright, colours as they are in the file.
    bitmap = await createImageBitmap(new Blob([bytes]),
                                     { imageOrientation: "from-image", colorSpaceConversion: "none", premultiplyAlpha: "none" });
  } catch {
    return packet;  // the engine says what it is not
  }
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  const { data } = context.getImageData(0, 0, width, height);
  const pixels = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; to < pixels.length; from += 4) {
    pixels[to++] = data[from];
    pixels[to++] = data[from + 1];
    pixels[to++] = data[from + 2];
  }
  return encode(json, { pixels: { dtype: "u8", shape: [height, width, 3], data: pixels } }).buffer;
}

// A model of the reader's: the files of its folder, or one file of weights, perhaps with its config.json. They stay in this
// worker; those of a model that cannot be opened are removed again.
async function add(name, files) {
  const { folder, members } = membersOf(files);
  if (!members.length) throw new Error(`${name || "model"}: no files of a model`);
  const weights = members.filter(({ path }) => kWeights.test(path) && !path.includes("/"));
  // The engine takes the names that libraries give to weights; one file by another name is what is meant.
  const file = weights.length === 1 && !kUsualNames.test(weights[0].path) ? weights[0].path : undefined;
  const title = folder || name || weights[0]?.path.replace(/\.[^.]*$/, "") || "model";
  const id = `own-${++own}`;
  try {
    write(id, await contentsOf(members));
    offer(id, title, file);
  } catch (error) {
    remove(`/models/${id}`);
    throw new Error(String(error?.message ?? error).replaceAll(`/models/${id}`, title));
  }
  return encode({ model: id, title }).buffer;
}

const kWeights = /\.(safetensors|bin|pth?|ckpt)$/i;
const kUsualNames = /^((open_clip_)?model\.safetensors|(open_clip_)?pytorch_model\.bin)$/;
// Weights for other programs, and what else lies in a model's folder that the engine does not read.
const kUnread = /\.(onnx|onnx_data|h5|keras|msgpack|gguf|tflite|pb|ot|mlmodel|index|npz|zip|gz|md|png|jpe?g|gif|webp|mp4)$/i;
const kMostBytes = 2 ** 31;  // the module's memory is 4 GB, and has the weights twice while it builds a model

// Paths within the model's folder, without hidden files, and that folder's name if the paths have it.
function membersOf(files) {
  const members = files.filter(({ path }) => path && !path.split("/").some((part) => part.startsWith(".")));
  const [first] = (members[0]?.path ?? "").split("/");
  if (!members.every(({ path }) => path.startsWith(`${first}/`))) return { folder: "", members };
  return { folder: first, members: members.map((file) => ({ ...file, path: file.path.slice(first.length + 1) })) };
}

// What the engine reads, as bytes; other files are there by name alone, so that it can say what it found instead.
async function contentsOf(members) {
  const beside = members.some(({ path }) => path.endsWith(".safetensors"));
  const wanted = ({ path }) => !kUnread.test(path) && !(beside && kWeights.test(path) && !path.endsWith(".safetensors"));
  const total = members.filter(wanted).reduce((sum, { bytes, file }) => sum + (file?.size ?? bytes.byteLength), 0);
  if (total > kMostBytes) {
    throw new Error(`the model has ${(total / 1e9).toFixed(1)} GB; a page can open models of up to 2 GB: use \`qkv explore -m\` instead`);
  }
  return Promise.all(members.map(async (member) => {
    const { path, bytes, file } = member;
    return { path, bytes: new Uint8Array(wanted(member) ? bytes ?? (await file.arrayBuffer()) : 0) };
  }));
}

// One after the other: the engine is called by one thread at a time.
let last = start().then(
  () => self.postMessage({ ready: true }),
  (error) => {
    self.postMessage({ failed: String(error?.message ?? error) });
    throw error;
  });
last.catch(() => {});
self.onmessage = ({ data }) => {
  last = last.then(async () => {
    try {
      const packet = await answer(data);
      self.postMessage({ id: data.id, packet }, [packet]);
    } catch (error) {
      self.postMessage({ id: data.id, error: String(error?.message ?? error) });
    }
  });
  last.catch(() => {});
};
