// The engine in this browser: a worker that loads qkv.js and qkv.wasm and speaks packets. Everything that depends on the
// module's interface is in this file.
//
// Messages to the worker: {id, name, packet: ArrayBuffer} and {id, model, files: [{path, file}]}; from it: {id, packet} or
// {id, error}, and {ready} or {failed} once. Buffers are transferred, never copied.
import { decode, encode, type Packet } from "../packet";
import { EngineError, type OwnFile, type Transport } from "./transport";

// The worker's text. qkv.js (emscripten, MODULARIZE) defines createQkv; the module exports, with plain pointers,
//   int qkv_call(const char* name, const uint8_t* request, int bytes)   // answer kept by the module; its length
//   const uint8_t* qkv_answer()
// The worker is qkv-worker.js beside the page, since a strict Content-Security-Policy allows no blob.
const kWorker = "qkv-worker.js";

// Of index.html, opened from disk: Chromium refuses the worker at once, Firefox does not load it. offline.html has it inside.
function notStarted(why: string, refused: boolean): EngineError {
  return refused && location.protocol === "file:"
    ? new EngineError(
        "Browsers do not start the engine from a folder on disk. Open offline.html, which lies beside this page, or serve the folder: python3 -m http.server.",
        "from_disk",
      )
    : new EngineError(`The engine could not start: ${why || "qkv-worker.js did not load"}`, "unreachable");
}

interface Waiting {
  resolve(packet: Packet): void;
  reject(error: Error): void;
}

export class WasmTransport implements Transport {
  readonly kind = "browser";
  private readonly worker: Worker;
  private readonly waiting = new Map<number, Waiting>();
  private next = 1;
  readonly ready: Promise<void>;

  constructor(base: string) {
    try {
      this.worker = new Worker(new URL(kWorker, base));
    } catch (error) {
      throw notStarted((error as Error).message, true);
    }
    this.ready = new Promise((resolve, reject) => {
      this.worker.onerror = ({ message }) => reject(notStarted(message, !message));
      this.worker.onmessage = ({ data }) => {
        if (data.ready) resolve();
        else if (data.failed) reject(new EngineError(String(data.failed), "unreachable"));
        else this.receive(data);
      };
    });
  }

  async call(name: string, request: Packet): Promise<Packet> {
    await this.ready;
    const packet = encode(request).buffer;
    return this.post({ name, packet }, [packet]);
  }

  /** The worker reads the files and puts them into the module's file system. */
  async addModel(name: string, files: OwnFile[]): Promise<string> {
    await this.ready;
    const { json } = await this.post({ model: name, files }, []);
    return String(json.model ?? name);
  }

  private post(message: object, transfer: Transferable[]): Promise<Packet> {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, ...message }, transfer);
    });
  }

  private receive({ id, packet, error }: { id: number; packet?: ArrayBuffer; error?: string }): void {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    if (!waiting) return;
    if (!packet) return waiting.reject(new EngineError(error ?? "The engine stopped."));
    try {
      const answer = decode(packet);
      const failed = answer.json.error as { message?: string; type?: string } | undefined;
      if (failed) waiting.reject(new EngineError(failed.message ?? "The engine failed.", failed.type));
      else waiting.resolve(answer);
    } catch (problem) {
      waiting.reject(problem as Error);
    }
  }
}
