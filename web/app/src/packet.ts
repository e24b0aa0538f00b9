// Packets of the explorer's protocol: JSON and arrays in one run of bytes, the same over HTTP and in WebAssembly.
// uint32 little-endian length of the JSON, the JSON in UTF-8, zeros up to a multiple of 8, then the arrays, each padded
// to 8. "arrays" of the JSON says where each array lies, counted from the end of the padded JSON.

export type DType = "u8" | "f32" | "i32";
export type Data = Uint8Array | Float32Array | Int32Array;
export interface NamedArray {
  dtype: DType;
  shape: number[];
  data: Data;
}
export type Json = Record<string, unknown>;
export interface Packet {
  json: Json;
  arrays: Record<string, NamedArray>;
}

const kWidth = { u8: 1, f32: 4, i32: 4 } as const;
// Deeper arrays than any that the engine sends.
const kMaxRank = 8;
const padded = (bytes: number) => Math.ceil(bytes / 8) * 8;
const product = (shape: number[]) => shape.reduce((all, side) => all * side, 1);

export const u8 = (data: Uint8Array, shape = [data.length]): NamedArray => ({ dtype: "u8", shape, data });
export const f32 = (data: Float32Array, shape = [data.length]): NamedArray => ({ dtype: "f32", shape, data });

/** The bytes of a packet. Throws if a shape does not fit its data. */
export function encode({ json, arrays }: Packet): Uint8Array<ArrayBuffer> {
  const table: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(arrays)) {
    if (product(shape) !== data.length)
      throw new Error(`packet: array ${name} has ${data.length} values for the shape ${shape}`);
    table[name] = { dtype, shape, offset, bytes: data.byteLength };
    offset += padded(data.byteLength);
  }
  const text = new TextEncoder().encode(JSON.stringify({ ...json, arrays: table }));
  const start = padded(4 + text.length);
  const bytes = new Uint8Array(start + offset);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  let at = start;
  for (const { data } of Object.values(arrays)) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += padded(data.byteLength);
  }
  return bytes;
}

function view(buffer: ArrayBuffer, dtype: DType, at: number, count: number): Data {
  if (dtype === "u8") return new Uint8Array(buffer, at, count);
  return dtype === "f32" ? new Float32Array(buffer, at, count) : new Int32Array(buffer, at, count);
}

function decodeArray(buffer: ArrayBuffer, start: number, name: string, entry: unknown): NamedArray {
  const { dtype, shape, offset, bytes } = (entry ?? {}) as {
    dtype: DType;
    shape: number[];
    offset: number;
    bytes: number;
  };
  const fail = (what: string): never => {
    throw new Error(`packet: array ${name}: ${what}`);
  };
  if (!Object.hasOwn(kWidth, dtype)) fail(`unknown type ${dtype}`);
  if (!Array.isArray(shape) || shape.length > kMaxRank || !shape.every((n) => Number.isSafeInteger(n) && n >= 0))
    fail("bad shape");
  if (!Number.isSafeInteger(offset) || offset < 0 || offset % 8) fail("bad offset");
  const count = product(shape);
  if (bytes !== count * kWidth[dtype] || start + offset + bytes > buffer.byteLength) fail("does not fit the packet");
  return { dtype, shape, data: view(buffer, dtype, start + offset, count) };
}

/** The packet in these bytes; its arrays are views of the buffer. Throws if the bytes are not a packet. */
export function decode(buffer: ArrayBuffer): Packet {
  if (buffer.byteLength < 4) throw new Error("packet: too short");
  const length = new DataView(buffer).getUint32(0, true);
  const start = padded(4 + length);
  if (4 + length > buffer.byteLength) throw new Error("packet: its JSON does not fit");
  const { arrays: table, ...json } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Json;
  const arrays: Record<string, NamedArray> = {};
  for (const [name, entry] of Object.entries((table ?? {}) as Json))
    arrays[name] = decodeArray(buffer, start, name, entry);
  return { json, arrays };
}
