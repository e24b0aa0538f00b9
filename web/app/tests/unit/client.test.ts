import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Packet } from "../../src/packet";
import { Client } from "../../src/transport/client";

const answer: Packet = { json: { right: true }, arrays: {} };
const request = { name: "pass", json: { image: "a" } };

// A call that ends when the test says so, or with its signal.
function slow() {
  const signals: AbortSignal[] = [],
    ends: (() => void)[] = [];
  const call = (_name: string, _request: Packet, signal?: AbortSignal) =>
    new Promise<Packet>((resolve, reject) => {
      signals.push(signal!);
      ends.push(() => resolve(answer));
      signal!.addEventListener("abort", () => reject(new Error("aborted")));
    });
  return { client: new Client({ kind: "server", call }), signals, ends };
}

describe("a call that nobody waits for", () => {
  beforeEach(() => vi.stubGlobal("document", { body: { dataset: {} } }));
  afterEach(() => vi.unstubAllGlobals());

  it("ends, and the next one is a new call", async () => {
    const { client, signals, ends } = slow(),
      view = new AbortController();
    const first = client.ask(request, view.signal);
    view.abort();
    await expect(first).rejects.toThrow("aborted");
    expect(signals[0].aborted).toBe(true);
    const second = client.ask(request);
    ends[1]();
    expect((await second).json).toEqual({ right: true });
  });

  it("goes on while another view waits for it", async () => {
    const { client, signals, ends } = slow(),
      view = new AbortController();
    const both = [client.ask(request, view.signal), client.ask(request)];
    view.abort();
    expect(signals.length).toBe(1);
    expect(signals[0].aborted).toBe(false);
    ends[0]();
    expect((await both[1]).json).toEqual({ right: true });
    await both[0];
  });
});
