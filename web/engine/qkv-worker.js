// The engine in a worker of the page, so that the page never waits for it. Messages in: {id, name, packet} and {id, model,
// files: [{path, bytes}]}; out: {ready} or {failed} once, then {id, packet} or {id, error}. Packets are ArrayBuffers, see
// docs/web.md. Nothing is sent anywhere: files are read from the page's own folder, or from the page itself if it has
// them in `qkvEmbedded` (name to base64), as the page that runs from disk does.
"use strict";

const embedded = self.qkvEmbedded ?? null;
// Threads need memory that workers share, which browsers give to isolated pages alone.
const threaded = !embedded && self.crossOriginIsolated === true;

let module = null;
let index = { models: [] };  // models/index.json: models beside the page, with the engine's own description of each
const present = new Set(["digits"]);  // models whose files are in the module's file system, or built in
const own = [];  // ids of the reader's models

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

async function start() {
  const name = threaded ? "qkv-threads" : "qkv";
  if (!embedded) importScripts(`${name}.js`);
  const wasmBinary = await read(`${name}.wasm`);
  module = await createQkv({
    wasmBinary,
    locateFile: (file) => new URL(file, self.location.href).href,
    mainScriptUrlOrBlob: embedded ? undefined : new URL(`${name}.js`, self.location.href).href,
    print: () => {},
    printErr: (text) => console.warn(text),
  });
  module.FS.mkdir("/models");
  index = JSON.parse(new TextDecoder().decode(await read("models/index.json")));
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

function jsonOf(packet) {
  const length = new DataView(packet).getUint32(0, true);
  return JSON.parse(new TextDecoder().decode(new Uint8Array(packet, 4, length)));
}

function packetOf(json) {
  const text = new TextEncoder().encode(JSON.stringify(json));
  const bytes = new Uint8Array(Math.ceil((4 + text.length) / 8) * 8);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  return bytes.buffer;
}

function write(id, files) {
  const folder = `/models/${id}`;
  if (!module.FS.analyzePath(folder).exists) module.FS.mkdir(folder);
  // The array itself becomes the file: it is not copied.
  for (const { path, bytes } of files) module.FS.writeFile(`${folder}/${path}`, bytes, { canOwn: true });
  present.add(id);
}

// Fetches a model's files when it is first asked for.
async function ensure(id) {
  const model = index.models.find((model) => model.id === id);
  if (!model || present.has(id)) return;
  const files = await Promise.all(model.files.map(async (path) => ({ path, bytes: await read(`models/${id}/${path}`) })));
  write(id, files);
}

async function answer({ name, packet, model, files }) {
  if (files) return add(model, files);
  const request = jsonOf(packet);
  if (typeof request.model === "string") await ensure(request.model);
  return call(name, packet);
}

async function add(title, files) {
  const id = `own-${own.length + 1}`;
  write(id, files.map(({ path, bytes }) => ({ path: path.split("/").pop(), bytes: new Uint8Array(bytes) })));
  own.push(id);
  return packetOf({ model: id });
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
