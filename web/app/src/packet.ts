// Packets of the explorer's protocol, as web/engine reads and writes them.
import { encode as pack, unpack, type NamedArray, type Packet } from "../../engine/packet.mjs";

export type { Data, DType, Json, NamedArray, Packet } from "../../engine/packet.mjs";

export const u8 = (data: Uint8Array, shape = [data.length]): NamedArray => ({ dtype: "u8", shape, data });
export const f32 = (data: Float32Array, shape = [data.length]): NamedArray => ({ dtype: "f32", shape, data });

/** The bytes of a packet. Throws if a shape does not fit its data. */
export const encode = ({ json, arrays }: Packet) => pack(json, arrays);

/** The packet in these bytes; its arrays are views of the buffer. Throws if the bytes are not a packet. */
export const decode: (buffer: ArrayBuffer) => Packet = unpack;
