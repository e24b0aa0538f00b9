// Which engine answers this page: the recording inside it, a server behind it, or WebAssembly beside it.
import { HttpTransport } from "./http";
import { RecordingTransport, recordingOf } from "./recording";
import type { Transport } from "./transport";
import { WasmTransport } from "./wasm";

/** A page of static files says so: <meta name="qkv-engine" content="wasm">. */
export async function chooseTransport(askKey: (rejected: boolean) => Promise<string | null>): Promise<Transport> {
  const recording = recordingOf(document);
  if (recording) return new RecordingTransport(recording);
  const engine = document.querySelector<HTMLMetaElement>("meta[name=qkv-engine]")?.content;
  if (engine === "wasm" || location.protocol === "file:") return new WasmTransport(document.baseURI);
  return new HttpTransport(new URL(".", document.baseURI).href, askKey);
}
