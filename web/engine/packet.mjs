// Packets of the explorer's protocol in node: JSON and named arrays as bytes.
const types = { u8: Uint8Array, f32: Float32Array, i32: Int32Array };
const padded = (bytes) => Math.ceil(bytes / 8) * 8;

/** arrays: {name: {dtype, shape, data}}. */
export function encode(json, arrays = {}) {
  const table = {};
  let offset = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(arrays)) {
    table[name] = { dtype, shape, offset, bytes: data.byteLength };
    offset += padded(data.byteLength);
  }
  const text = new TextEncoder().encode(JSON.stringify({ ...json, arrays: table }));
  const start = padded(4 + text.length);
  const bytes = new Uint8Array(start + offset);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  for (const [name, { data }] of Object.entries(arrays)) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), start + table[name].offset);
  }
  return bytes;
}

/** {json, arrays: {name: {shape, data}}}. Throws the engine's own error. */
export function decode(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const json = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  if (json.error) throw new Error(json.error.message);
  const start = padded(4 + length);
  const arrays = {};
  for (const [name, { dtype, shape, offset, bytes: size }] of Object.entries(json.arrays ?? {})) {
    const part = bytes.slice(start + offset, start + offset + size);
    arrays[name] = { shape, data: new types[dtype](part.buffer) };
  }
  return { json, arrays };
}
