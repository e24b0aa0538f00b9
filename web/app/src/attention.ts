// Attention of a pass: bytes and a scale for each row, decoded a row at a time when a map is drawn.
// weight = scale · (byte / 255)².
import { kAllPatches } from "./model";
import type { Packet } from "./packet";

const square = Float32Array.from({ length: 256 }, (_, i) => (i / 255) ** 2);

export type Head = number | "mean" | "max";

export class Attention {
  readonly blocks: number; // L of the answer
  readonly heads: number;
  readonly rows: number; // queries
  readonly columns: number; // keys
  constructor(
    private readonly bytes: Uint8Array, // [L, H, rows, columns]
    private readonly scales: Float32Array, // [L, H, rows]
    shape: number[],
    /** The model's block of each of the L. */
    readonly which: number[] = Array.from({ length: shape[0] }, (_, i) => i),
    /** Tokens before the patches. */
    private readonly prefix = 0,
    /** The query of the only row, if there is one row of so many tokens. */
    readonly only: number | null = null,
  ) {
    [this.blocks, this.heads, this.rows, this.columns] = shape;
    if (scales.length !== this.blocks * this.heads * this.rows || bytes.length !== scales.length * this.columns) {
      throw new Error(`attention: ${bytes.length} weights and ${scales.length} scales do not fit ${shape}`);
    }
  }

  /** The attention of an answer, or null if it has none. `blocks` are those of the request. */
  static of(answer: Packet, blocks?: number[], prefix = 0): Attention | null {
    const { attention, scales } = answer.arrays;
    if (!attention || !scales) return null;
    return new Attention(attention.data as Uint8Array, scales.data as Float32Array, attention.shape, blocks, prefix);
  }

  has(block: number): boolean {
    return this.which.includes(block);
  }

  /** Adds the row to `to`, or keeps the greater of both. */
  private gather(to: Float32Array, block: number, head: number, query: number, max: boolean): void {
    const row = (block * this.heads + head) * this.rows + query;
    const scale = this.scales[row];
    const from = row * this.columns;
    for (let k = 0; k < this.columns; ++k) {
      const weight = square[this.bytes[from + k]] * scale;
      if (!max) to[k] += weight;
      else if (weight > to[k]) to[k] = weight;
    }
  }

  /**
   * Weights [columns] of a query, of one head or over the heads of a block; of kAllPatches their mean. Zeros if the block
   * is not there.
   */
  row(block: number, head: Head, query: number, to = new Float32Array(this.columns)): Float32Array {
    to.fill(0);
    if (this.only !== null) {
      if (query !== this.only) return to;
      query = 0;
    }
    if (query === kAllPatches) {
      const one = new Float32Array(this.columns),
        patches = this.rows - this.prefix;
      for (let q = this.prefix; q < this.rows; ++q) {
        this.row(block, head, q, one);
        for (let k = 0; k < to.length; ++k) to[k] += one[k] / patches;
      }
      return to;
    }
    const at = this.which.indexOf(block);
    if (at < 0 || query < 0 || query >= this.rows) return to;
    if (typeof head === "number") {
      if (head < this.heads) this.gather(to, at, head, query, false);
      return to;
    }
    for (let h = 0; h < this.heads; ++h) this.gather(to, at, h, query, head === "max");
    if (head === "mean") for (let k = 0; k < to.length; ++k) to[k] /= this.heads;
    return to;
  }

  /** Mean over queries of half the sum of |a − b|: 0 if both attend alike, 1 if to disjoint tokens. */
  drift(other: Attention, block: number, head: number): number {
    const a = new Float32Array(this.columns),
      b = new Float32Array(this.columns);
    let sum = 0;
    for (let q = 0; q < this.rows; ++q) {
      this.row(block, head, q, a);
      other.row(block, head, q, b);
      for (let k = 0; k < a.length; ++k) sum += Math.abs(a[k] - b[k]);
    }
    return sum / 2 / this.rows;
  }

  /** −Σ w log₂ w of a row, in bits. */
  static entropy(row: Float32Array): number {
    let bits = 0;
    for (const w of row) if (w > 0) bits -= w * Math.log2(w);
    return bits;
  }
}
