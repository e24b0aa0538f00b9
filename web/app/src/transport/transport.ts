// How the page reaches the engine. Three ways carry the same packets: a server, WebAssembly in a worker, and the answers
// recorded in an exported page.
import type { Packet } from "../packet";

export interface Transport {
  /** "server", "browser" (WebAssembly), "recording" or "mock". */
  readonly kind: string;
  /** Bytes of the request's packet in, the answer's packet out. Throws EngineError. */
  call(name: string, request: Packet): Promise<Packet>;
  /** Models and files of the reader's own, where the transport takes them (WebAssembly). */
  addModel?(name: string, files: File[]): Promise<string>;
}

/** An error of the engine, in its words. */
export class EngineError extends Error {
  constructor(
    message: string,
    readonly type = "",
    readonly status = 0,
  ) {
    super(message);
  }
}
