// The page's client: one transport, a cache of answers, and a hook that gives a view the newest answer. While a call runs,
// later requests of the same view replace each other; the last one is sent when it ends, so that a slider shows
// intermediate results and never lags behind by more than one call.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { toBase64 } from "../base64";
import { encode, type Json, type NamedArray, type Packet } from "../packet";
import type { ViewName } from "../state";
import { keyOf } from "./recording";
import { EngineError, type Transport } from "./transport";

const kCacheBytes = 192 << 20;
const kMostTries = 8; // of a request that a busy server refuses
const kLongestWait = 15_000; // milliseconds between two of them
const kKnock = [1000, 2000, 5000]; // milliseconds between questions whether the server is back; the last one goes on

export interface Answer extends Packet {
  /** From the call to its answer, in milliseconds; 0 from the cache. */
  took: number;
}

function bytesOf(packet: Packet): number {
  let bytes = 512;
  for (const { data } of Object.values(packet.arrays)) bytes += data.byteLength;
  return bytes;
}

export class Client {
  private readonly cache = new Map<string, Packet>(); // oldest first
  private cached = 0;
  private readonly running = new Map<string, { call: Promise<Answer>; waiting: number; end: AbortController }>();
  /** Sends the image again when the engine has forgotten it; set by useImage(). */
  remind: ((image: string) => Promise<void>) | null = null;

  /** `onLost` hears that the server does not answer, and that it does again. */
  constructor(
    readonly transport: Transport,
    private readonly onLost: (lost: boolean) => void = () => {},
  ) {}

  private knocking = false;
  /** Asks until the server answers, then repeats what failed. */
  private async knock(): Promise<void> {
    if (this.knocking || this.transport.kind !== "server") return;
    this.knocking = true;
    this.onLost(true);
    for (let i = 0; this.knocking; ++i) {
      await new Promise((resolve) => setTimeout(resolve, kKnock[Math.min(i, kKnock.length - 1)]));
      try {
        await this.transport.call("models", { json: {}, arrays: {} });
        break;
      } catch (error) {
        if ((error as EngineError).type !== "unreachable") break;
      }
    }
    this.knocking = false;
    this.onLost(false);
    askAgain();
  }

  peek(request: Request): Answer | null {
    const key = keyOfRequest(request);
    const found = this.cache.get(key);
    if (!found) return null;
    this.cache.delete(key);
    this.cache.set(key, found);
    return { ...found, took: 0 };
  }

  /**
   * The answer to a request; equal requests share a call, and later ones find its answer. The call ends when `left` of
   * all who wait for it says that they are gone.
   */
  async ask(request: Request, left?: AbortSignal): Promise<Answer> {
    document.body.dataset.calls = String(++this.calls);
    try {
      return await this.find(request, left);
    } finally {
      document.body.dataset.calls = String(--this.calls);
    }
  }
  private calls = 0; // under way; on the page, for tests

  private async find(request: Request, left?: AbortSignal): Promise<Answer> {
    const found = this.peek(request);
    if (found) return found;
    const key = keyOfRequest(request);
    let running = this.running.get(key);
    if (!running) {
      const end = new AbortController();
      const call = this.send(request, end.signal)
        .then((answer) => {
          this.keep(key, answer);
          return answer;
        })
        .finally(() => {
          if (this.running.get(key)?.end === end) this.running.delete(key);
        });
      running = { call, waiting: 0, end };
      this.running.set(key, running);
    }
    const own = running;
    ++own.waiting;
    const leave = () => {
      if (--own.waiting > 0 || this.running.get(key) !== own) return;
      this.running.delete(key);
      own.end.abort();
    };
    left?.addEventListener("abort", leave);
    try {
      return await own.call;
    } finally {
      left?.removeEventListener("abort", leave);
    }
  }

  /** Asks anew what has changed; views that show the answer follow. */
  async renew(request: Request): Promise<void> {
    const key = keyOfRequest(request),
      old = this.cache.get(key);
    if (old) {
      this.cache.delete(key);
      this.cached -= bytesOf(old);
    }
    const answer = await this.ask(request);
    for (const [slot, redraw] of live) {
      if (slot.wanted !== key) continue;
      slot.shown = { answer, request: request.json, error: null, busy: false };
      redraw();
    }
  }

  private async send({ name, json, arrays = {} }: Request, signal: AbortSignal): Promise<Answer> {
    const started = performance.now();
    const finish = (packet: Packet): Answer => ({ ...packet, took: performance.now() - started });
    try {
      return finish(await this.transport.call(name, { json, arrays }, signal));
    } catch (error) {
      if ((error as EngineError).type === "unreachable") void this.knock();
      const forgotten =
        typeof json.image === "string" &&
        ((error as { type?: string }).type === "unknown_image" || /not kept any more/.test((error as Error).message));
      if (!forgotten || !this.remind) throw error;
      await this.remind(json.image as string);
      return finish(await this.transport.call(name, { json, arrays }, signal));
    }
  }

  private keep(key: string, packet: Packet): void {
    this.cache.set(key, packet);
    this.cached += bytesOf(packet);
    for (const [oldest, dropped] of this.cache) {
      if (this.cached <= kCacheBytes || oldest === key) break;
      this.cache.delete(oldest);
      this.cached -= bytesOf(dropped);
    }
  }

  /** Calls that the shown view rests on, for an export: those whose keys are in use. */
  record(): [string, string][] {
    const used = new Set(inUse.values());
    // Knock-outs are asked one after another, by no hook: those of the pictures in use.
    const imageOf = (key: string) => /"image":"[^"]*"/.exec(key)?.[0] ?? "";
    const images = new Set([...used].map(imageOf));
    const calls: [string, string][] = [];
    for (const [key, packet] of this.cache) {
      if (used.has(key) || key.startsWith("models ") || (key.startsWith("knockout ") && images.has(imageOf(key))))
        calls.push([key, toBase64(encode({ json: packet.json, arrays: packet.arrays }))]);
    }
    return calls;
  }
}

let client: Client;
export const theClient = (): Client => client;
export const setClient = (to: Client) => (client = to);
/** The views of a page without an engine, if it holds several. */
export const keptViews = (): ViewName[] => client.transport.views ?? [];
/** Whether this page is a kept view, or several, without an engine. */
export const isKept = (): boolean => client.transport.kind === "recording";

// The keys that the views on the page show, one for each use of the hook.
const inUse = new Map<object, string>();
export interface Request {
  name: string;
  json: Json;
  arrays?: Record<string, NamedArray>;
  /** Tells the arrays from others; needed if there are any. */
  salt?: string;
}
export interface Asked {
  answer: Answer | null; // the newest; older than the request while `busy`
  request: Json | null; // of the answer
  error: Error | null;
  busy: boolean;
}

interface Slot {
  wanted: string | null; // key of what the view asks for
  request: Request | null;
  sent: string | null; // key of the call under way
  shownKey: string | null;
  shown: Asked;
  tries: number; // that a busy server refused
  left: AbortController; // the view is gone
}
const kNothing: Asked = { answer: null, request: null, error: null, busy: false };
const keyOfRequest = ({ name, json, arrays = {}, salt }: Request) => keyOf(name, { json, arrays }, salt);

// Slots of the views on the page, and how each is drawn again.
const live = new Map<Slot, () => void>();
// Those with an error that may pass.
const failed = new Map<Slot, () => void>();

/** Sends again what failed for a reason that may have passed. */
export function askAgain(): void {
  for (const [slot, redraw] of [...failed]) {
    failed.delete(slot);
    if (slot.wanted === null || !slot.shown.error) continue;
    slot.shown = { ...slot.shown, busy: true, error: null };
    slot.tries = 0;
    redraw();
    pump(slot, redraw);
  }
}

// Sends what the slot wants, unless a call is under way: then its end does.
function pump(slot: Slot, redraw: () => void): void {
  if (slot.sent !== null || slot.wanted === null || !slot.request || !slot.shown.busy) return;
  const key = (slot.sent = slot.wanted);
  const request = slot.request;
  const done = (shown: Asked) => {
    slot.sent = null;
    const newest = slot.wanted === key;
    slot.tries = 0;
    // An answer that is no longer the newest is shown too, an error only if it is.
    if (newest || (slot.shown.busy && slot.wanted !== null && !shown.error)) {
      slot.shown = { ...shown, busy: !newest };
      slot.shownKey = shown.error ? null : key;
      if (shown.error instanceof EngineError && shown.error.passes) failed.set(slot, redraw);
      else failed.delete(slot);
      redraw();
    }
    pump(slot, redraw);
  };
  theClient()
    .ask(request, slot.left.signal)
    .then(
      (answer) => done({ answer, request: request.json, error: null, busy: false }),
      (error: Error) => {
        const passes = error instanceof EngineError && error.passes;
        // A model whose files cannot be opened is no busy server, though it answers 503 too.
        if (passes && error.type !== "model_error" && error.retryAfter > 0 && slot.tries < kMostTries) {
          ++slot.tries;
          // What is wanted by then is sent, so that a busy server gets one request of a view.
          setTimeout(
            () => {
              slot.sent = null;
              pump(slot, redraw);
            },
            Math.min(kLongestWait, 1000 * error.retryAfter),
          );
          return;
        }
        // The last picture stays while the server is away, and in a kept page, which has no other.
        const stays = passes || (error instanceof EngineError && error.type === "not_recorded");
        const { answer, request: of } = stays ? slot.shown : { answer: null, request: request.json };
        done({ answer, request: of, error, busy: false });
      },
    );
}

/** The newest answer to a request, which may change at any time; null asks nothing. */
export function useCall(request: Request | null): Asked {
  const key = request && keyOfRequest(request);
  const [, redraw] = useState(0);
  const { current: slot } = useRef<Slot>({
    wanted: null,
    request: null,
    sent: null,
    shownKey: null,
    shown: kNothing,
    tries: 0,
    left: new AbortController(),
  });
  if (slot.wanted !== key) {
    slot.wanted = key;
    slot.request = request;
    const known = request && theClient().peek(request);
    if (request && !known) {
      slot.shown = { ...slot.shown, busy: true, error: null };
    } else {
      slot.shown = known ? { answer: known, request: request.json, error: null, busy: false } : kNothing;
      slot.shownKey = key;
    }
  }
  // Before the frame is painted: an ordinary effect would wait for it, at each of the calls that follow from another.
  useLayoutEffect(() => pump(slot, () => redraw((n) => n + 1)), [key]);
  useEffect(() => {
    if (slot.shownKey !== null) inUse.set(slot, slot.shownKey);
    return () => void inUse.delete(slot);
  }, [slot.shownKey]);
  useLayoutEffect(() => {
    live.set(slot, () => redraw((n) => n + 1));
    return () => {
      slot.wanted = null;
      slot.left.abort();
      failed.delete(slot);
      live.delete(slot);
    };
  }, []);
  return slot.shown;
}

/** useCall() for requests without arrays. */
export const useAnswer = (name: string, json: Json | null): Asked => useCall(json && { name, json });
