// A module of the engine in node, as the page's worker has it in a browser.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { decode, encode } from "./packet.mjs";

export class Engine {
  /** folder: what `make web` wrote. */
  static async start(folder) {
    const createQkv = createRequire(import.meta.url)(resolve(folder, "qkv.js"));
    const engine = new Engine();
    engine.module = await createQkv({ wasmBinary: readFileSync(join(folder, "qkv.wasm")), printErr: () => {} });
    engine.module.FS.mkdir("/models");
    return engine;
  }

  /** Puts a model's files in place and offers it. */
  add(id, folder, files, title = id) {
    this.module.FS.mkdir(`/models/${id}`);
    for (const name of files) this.module.FS.writeFile(`/models/${id}/${name}`, readFileSync(join(folder, name)));
    this.call("add", { models: [{ id, title }] });
  }

  /** {json, arrays}. Throws the engine's error. */
  call(name, json, arrays = {}) {
    return decode(this.bytes(name, encode(json, arrays)));
  }

  bytes(name, packet) {
    const { module } = this;
    const length = module.lengthBytesUTF8(name) + 1;
    const at = module._malloc(length + packet.length);
    module.stringToUTF8(name, at, length);
    module.HEAPU8.set(packet, at + length);
    const size = module._qkv_call(at, at + length, packet.length);
    module._free(at);
    const answer = module._qkv_answer() >>> 0;
    return module.HEAPU8.slice(answer, answer + size);
  }
}

/** An array of a packet: the bytes of a file. */
export const fileArray = (path) => {
  const data = new Uint8Array(readFileSync(path));
  return { file: { dtype: "u8", shape: [data.length], data } };
};
