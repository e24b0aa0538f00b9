// The engine behind a server: POST explore/NAME beside this page.
import { decode, encode, type Packet } from "../packet";
import { EngineError, type Transport } from "./transport";

const kKeyName = "qkv-api-key"; // of sessionStorage: the key is forgotten with the tab

function storedKey(): string | null {
  try {
    return sessionStorage.getItem(kKeyName);
  } catch {
    return null;
  }
}

export class HttpTransport implements Transport {
  readonly kind = "server";
  private key = storedKey();
  private asking: Promise<string | null> | null = null;

  /** `askKey` shows a prompt and gives the key, or null if the reader gave none. */
  constructor(
    private readonly base: string,
    private readonly askKey: (rejected: boolean) => Promise<string | null>,
  ) {}

  async call(name: string, request: Packet, signal?: AbortSignal): Promise<Packet> {
    for (;;) {
      const used = this.key;
      const response = await this.send(name, request, used, signal);
      if (response.ok) return decode(await response.arrayBuffer());
      // Another call may have got a key in the meantime.
      if (response.status === 401 && (this.key !== used || (await this.askOnce(used !== null)))) continue;
      throw await errorOf(response);
    }
  }

  private async send(name: string, request: Packet, key: string | null, signal?: AbortSignal): Promise<Response> {
    const plain = Object.keys(request.arrays).length === 0;
    const headers: Record<string, string> = { "Content-Type": plain ? "application/json" : "application/octet-stream" };
    if (key) headers.Authorization = `Bearer ${key}`;
    try {
      return await fetch(`${this.base}explore/${name}`, {
        method: "POST",
        headers,
        body: plain ? JSON.stringify(request.json) : encode(request),
        cache: "no-store",
        signal: signal ?? null,
      });
    } catch {
      if (signal?.aborted) throw new EngineError("This is not asked any more.", "left");
      throw new EngineError("The server does not answer. Is it still running?", "unreachable");
    }
  }

  // Several calls that meet a 401 share one prompt.
  private async askOnce(rejected: boolean): Promise<boolean> {
    this.asking ??= this.askKey(rejected).finally(() => (this.asking = null));
    const key = await this.asking;
    if (!key) return false;
    this.key = key;
    try {
      sessionStorage.setItem(kKeyName, key);
    } catch {
      // Kept in memory only.
    }
    return true;
  }
}

async function errorOf(response: Response): Promise<EngineError> {
  let message = `The server answered ${response.status} ${response.statusText}`,
    type = "";
  try {
    const { error } = await response.json();
    if (typeof error === "string") message = error;
    else if (error?.message) ({ message, type = "" } = error);
  } catch {
    // Not JSON: a proxy's page.
  }
  const seconds = Number(response.headers.get("Retry-After")); // the form with a date is none of qkv's
  return new EngineError(message, type, response.status, Number.isFinite(seconds) ? seconds : 0);
}
