import { describe, expect, it } from "vitest";
import { decode, encode, f32, u8, type Packet } from "../../src/packet";

const packet: Packet = {
  json: { model: "digits", text: "città" },
  arrays: {
    bytes: u8(Uint8Array.of(1, 2, 3)),
    floats: f32(Float32Array.of(0.5, -2, 3, 4, 5, 6), [2, 3]),
    counts: { dtype: "i32", shape: [2], data: Int32Array.of(-7, 9) },
  },
};

// A packet whose JSON is what the test says.
function raw(json: unknown, room = 64): ArrayBuffer {
  const text = new TextEncoder().encode(JSON.stringify(json)),
    start = Math.ceil((4 + text.length) / 8) * 8;
  const bytes = new Uint8Array(start + room);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  return bytes.buffer;
}
const entry = (change: object) => raw({ arrays: { a: { dtype: "f32", shape: [2], offset: 0, bytes: 8, ...change } } });

describe("packet", () => {
  it("survives a round trip", () => {
    const { json, arrays } = decode(encode(packet).buffer);
    expect(json).toEqual(packet.json);
    expect(arrays).toEqual(packet.arrays);
  });
  it("aligns arrays to 8 bytes", () => {
    const bytes = encode(packet),
      length = new DataView(bytes.buffer).getUint32(0, true);
    const table = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))).arrays;
    expect(Object.values<{ offset: number }>(table).map(({ offset }) => offset)).toEqual([0, 8, 32]);
    expect(bytes.length % 8).toBe(0);
  });
  it("encodes a view of a larger buffer", () => {
    const part = new Float32Array([1, 2, 3, 4]).subarray(1, 3);
    expect(decode(encode({ json: {}, arrays: { part: f32(part) } }).buffer).arrays.part.data).toEqual(
      Float32Array.of(2, 3),
    );
  });
  it("takes an empty array", () => {
    expect(
      decode(encode({ json: {}, arrays: { none: f32(new Float32Array(), [0, 4]) } }).buffer).arrays.none.shape,
    ).toEqual([0, 4]);
  });
  it("refuses a shape that does not fit", () => {
    expect(() => encode({ json: {}, arrays: { a: f32(new Float32Array(3), [2, 2]) } })).toThrow(/shape/);
  });
  it.each([
    ["nothing", new ArrayBuffer(0)],
    ["a length beyond the end", Uint32Array.of(1000, 0).buffer],
    ["no JSON", raw(undefined, 8)],
    ["an unknown type", entry({ dtype: "f64" })],
    ["a type of Object.prototype", entry({ dtype: "toString" })],
    ["a negative side", entry({ shape: [-2] })],
    ["a side that is no number", entry({ shape: ["2"] })],
    ["an offset beyond the end", entry({ offset: 64 })],
    ["an odd offset", entry({ offset: 4 })],
    ["a negative offset", entry({ offset: -8 })],
    ["too few bytes", entry({ bytes: 4 })],
    ["a huge shape", entry({ shape: [2 ** 40, 2 ** 40], bytes: 8 })],
    ["too many sides", entry({ shape: Array(9).fill(1), bytes: 4 })],
    ["an entry that is null", raw({ arrays: { a: null } })],
  ])("refuses %s", (_, buffer) => {
    expect(() => decode(buffer)).toThrow();
  });
});
