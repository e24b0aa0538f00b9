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
export function encode(json: Json, arrays?: Record<string, NamedArray>): Uint8Array<ArrayBuffer>;
export function unpack(buffer: ArrayBuffer | Uint8Array): Packet;
export function decode(buffer: ArrayBuffer | Uint8Array): Packet;
