// How the page reaches the engine. Three ways carry the same packets: a server, WebAssembly in a worker, and the answers
// recorded in an exported page.
import type { Packet } from "../packet";
import type { ViewName } from "../state";

export interface Transport {
  /** "server", "browser" (WebAssembly) or "recording". */
  readonly kind: string;
  /** Of a recording: the views that it holds, if they are several. */
  readonly views?: ViewName[];
  /** Bytes of the request's packet in, the answer's packet out. Throws EngineError. `signal`: nobody waits any more. */
  call(name: string, request: Packet, signal?: AbortSignal): Promise<Packet>;
  /**
   * Opens a model of the reader's own, where the transport can (WebAssembly): its id. Throws EngineError if the engine
   * cannot open it, and then keeps none of its files.
   */
  addModel?(name: string, files: OwnFile[]): Promise<string>;
}

/** A file and its path, which begins with the folder's name if a folder was chosen. */
export interface OwnFile {
  path: string;
  file: File;
}

/** An error of the engine, in its words. */
export class EngineError extends Error {
  constructor(
    message: string,
    readonly type = "",
    readonly status = 0,
    /** Seconds until another try makes sense, as the server says; 0 if it says nothing. */
    readonly retryAfter = 0,
  ) {
    super(message);
  }

  /** Whether the same request may succeed later. */
  get passes(): boolean {
    return this.type === "unreachable" || [429, 502, 503, 504].includes(this.status);
  }
}
