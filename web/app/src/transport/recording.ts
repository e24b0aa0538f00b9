// Answers kept in a page without an engine: the calls that its views make, by name and request.
import { fromBase64 } from "../base64";
import { decode, type Packet } from "../packet";
import type { ViewName } from "../state";
import { EngineError, type Transport } from "./transport";

/** [key, packet in base64] of every call, and the state as an address. */
export interface Recording {
  hash: string;
  title: string;
  calls: [string, string][];
  /** The views whose answers are there, if it is not the one of the address alone. */
  views?: ViewName[];
}

/** Objects with their fields in a fixed order, so that equal requests have equal keys. */
export function stable(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(stable).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${stable(field)}`).join(",")}}`;
}

export const keyOf = (name: string, request: Packet, salt = "") =>
  `${name} ${stable(request.json)}${salt && ` ${salt}`}`;

/** The recording in this page, or null. */
export function recordingOf(document: Document): Recording | null {
  const element = document.getElementById("recording");
  return element?.textContent ? (JSON.parse(element.textContent) as Recording) : null;
}

export class RecordingTransport implements Transport {
  readonly kind = "recording";
  readonly views: ViewName[];
  private readonly calls: Map<string, string>;
  constructor(recording: Recording) {
    this.views = recording.views ?? [];
    this.calls = new Map(recording.calls);
  }
  async call(name: string, request: Packet): Promise<Packet> {
    // The one picture of the file was sent in a way that is not kept: its model finds it.
    const image = `"model":${JSON.stringify(request.json.model)}`;
    const packet =
      name === "image"
        ? [...this.calls].find(([key]) => key.startsWith("image ") && key.includes(image))?.[1]
        : this.calls.get(keyOf(name, request));
    if (packet === undefined)
      throw new EngineError("This page holds no engine: open the explorer for more.", "not_recorded");
    return decode(fromBase64(packet).buffer);
  }
}
