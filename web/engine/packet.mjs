// Packets of the explorer's protocol (docs/explore_protocol.md): JSON and named arrays in one run of bytes, the same over HTTP
// and in WebAssembly. uint32 little-endian length of the JSON, the JSON in UTF-8, zeros up to a multiple of 8, then the
// arrays, each padded to 8. "arrays" of the JSON says where each array lies, counted from the end of the padded JSON.
// Types: packet.d.mts. No import is made, so that a classic worker may have this text too.
const kTypes = { u8: Uint8Array, f32: Float32Array, i32: Int32Array };
// Deeper arrays than any that the engine sends.
const kMaxRank = 8;
const paddedTo8 = (bytes) => Math.ceil(bytes / 8) * 8;
const productOf = (shape) => shape.reduce((all, side) => all * side, 1);

/** The bytes of a packet. arrays: {name: {dtype, shape, data}}. Throws if a shape does not fit its data. */
export function encode(json, arrays = {}) {
  const table = {};
  let offset = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(arrays)) {
    if (productOf(shape) !== data.length) throw new Error(`packet: array ${name} has ${data.length} values for the shape ${shape}`);
    table[name] = { dtype, shape, offset, bytes: data.byteLength };
    offset += paddedTo8(data.byteLength);
  }
  const text = new TextEncoder().encode(JSON.stringify({ ...json, arrays: table }));
  const start = paddedTo8(4 + text.length);
  const bytes = new Uint8Array(start + offset);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  for (const [name, { data }] of Object.entries(arrays)) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), start + table[name].offset);
  }
  return bytes;
}

function arrayOf(bytes, start, name, entry) {
  const { dtype, shape, offset, bytes: size } = entry ?? {};
  const fail = (what) => {
    throw new Error(`packet: array ${name}: ${what}`);
  };
  if (!Object.hasOwn(kTypes, dtype)) fail(`unknown type ${dtype}`);
  if (!Array.isArray(shape) || shape.length > kMaxRank || !shape.every((n) => Number.isSafeInteger(n) && n >= 0)) fail("bad shape");
  if (!Number.isSafeInteger(offset) || offset < 0 || offset % 8) fail("bad offset");
  const count = productOf(shape), Type = kTypes[dtype];
  if (size !== count * Type.BYTES_PER_ELEMENT || start + offset + size > bytes.length) fail("does not fit the packet");
  const at = bytes.byteOffset + start + offset;
  // Views of the bytes, but for bytes that do not begin at a multiple of 8.
  const data = at % 8 ? new Type(bytes.slice(start + offset, start + offset + size).buffer) : new Type(bytes.buffer, at, count);
  return { dtype, shape, data };
}

/** {json, arrays} of an ArrayBuffer or a Uint8Array, an engine's error included. Throws if the bytes are no packet. */
export function unpack(buffer) {
  const bytes = buffer instanceof Uint8Array ? buffer : new Uint8Array(buffer);
  if (bytes.length < 4) throw new Error("packet: too short");
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const start = paddedTo8(4 + length);
  if (4 + length > bytes.length) throw new Error("packet: its JSON does not fit");
  const { arrays: table, ...json } = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const arrays = {};
  for (const [name, entry] of Object.entries(table ?? {})) arrays[name] = arrayOf(bytes, start, name, entry);
  return { json, arrays };
}

/** unpack(), but throws the engine's own error. */
export function decode(buffer) {
  const packet = unpack(buffer);
  if (packet.json.error) throw new Error(packet.json.error.message);
  return packet;
}
