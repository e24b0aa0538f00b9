// A plain Vision Transformer of the digit model, for the stand-in engine of development and tests. The engine proper is C++.

export type Edit = { kind: string; t?: number; rank?: number; block?: number; head?: number; token?: number };
type Tensors = Map<string, Float32Array>;
export const kBlocks = 4,
  kHeads = 4,
  kWidth = 96,
  kEach = 24,
  kTokens = 50,
  kSide = 28,
  kPatch = 4,
  kGrid = 7,
  kClasses = 10;

/** float32 tensors of a safetensors file. */
export function readTensors(buffer: ArrayBuffer): Tensors {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors: Tensors = new Map();
  for (const [name, entry] of Object.entries<{ data_offsets: number[] }>(header)) {
    if (name === "__metadata__") continue;
    const [from, to] = entry.data_offsets;
    tensors.set(name, new Float32Array(buffer.slice(8 + length + from, 8 + length + to)));
  }
  return tensors;
}

// y [rows, outputs] = x [rows, inputs] wᵀ + b
function linear(x: Float32Array, w: Float32Array, b: Float32Array | null, inputs: number): Float32Array {
  const rows = x.length / inputs,
    outputs = w.length / inputs,
    y = new Float32Array(rows * outputs);
  for (let r = 0; r < rows; ++r) {
    for (let o = 0; o < outputs; ++o) {
      let sum = b ? b[o] : 0;
      for (let i = 0, p = r * inputs, q = o * inputs; i < inputs; ++i) sum += x[p + i] * w[q + i];
      y[r * outputs + o] = sum;
    }
  }
  return y;
}

function norm(x: Float32Array, gamma: Float32Array, beta: Float32Array): Float32Array {
  const width = gamma.length,
    y = new Float32Array(x.length);
  for (let r = 0; r < x.length; r += width) {
    let mean = 0,
      square = 0;
    for (let i = 0; i < width; ++i) mean += x[r + i] / width;
    for (let i = 0; i < width; ++i) square += (x[r + i] - mean) ** 2 / width;
    for (let i = 0; i < width; ++i) y[r + i] = ((x[r + i] - mean) / Math.sqrt(square + 1e-6)) * gamma[i] + beta[i];
  }
  return y;
}

function erf(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const y =
    1 -
    ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x);
  return x < 0 ? -y : y;
}

// The best rank-r part of S [n, n], by subspace iteration.
function truncated(S: Float32Array, n: number, rank: number): Float32Array {
  let basis: Float64Array[] = Array.from({ length: rank }, (_, r) =>
    Float64Array.from({ length: n }, (_, i) => Math.sin(1 + i * (r + 1) * 1.7 + r)),
  );
  const times = (v: Float64Array, transposed: boolean) =>
    Float64Array.from({ length: n }, (_, i) => {
      let sum = 0;
      for (let j = 0; j < n; ++j) sum += (transposed ? S[j * n + i] : S[i * n + j]) * v[j];
      return sum;
    });
  const orthogonal = (columns: Float64Array[]): Float64Array[] => {
    for (let a = 0; a < columns.length; ++a) {
      for (let b = 0; b < a; ++b) {
        const dot = columns[a].reduce((sum, x, i) => sum + x * columns[b][i], 0);
        for (let i = 0; i < n; ++i) columns[a][i] -= dot * columns[b][i];
      }
      const length = Math.hypot(...columns[a]) || 1;
      for (let i = 0; i < n; ++i) columns[a][i] /= length;
    }
    return columns;
  };
  for (let round = 0; round < 3; ++round) {
    basis = orthogonal(basis.map((v) => times(v, false)));
    if (round < 2) basis = orthogonal(basis.map((v) => times(v, true)));
  }
  const rows = basis.map((v) => times(v, true));
  const out = new Float32Array(n * n);
  for (let r = 0; r < rank; ++r)
    for (let i = 0; i < n; ++i) for (let j = 0; j < n; ++j) out[i * n + j] += basis[r][i] * rows[r][j];
  return out;
}

export interface Pass {
  logits: Float32Array;
  attention: Float32Array; // [L, H, N, N]
  scores: Float32Array;
  features: Float32Array[]; // after each block, [N, D]
}

export class Vit {
  constructor(readonly tensors: Tensors) {}
  private of = (name: string) => this.tensors.get(name)!;

  tokens(pixels: Uint8Array): Float32Array {
    const x = new Float32Array(kTokens * kWidth),
      w = this.of("patch_embed.proj.weight"),
      b = this.of("patch_embed.proj.bias");
    const positions = this.of("pos_embed");
    x.set(this.of("cls_token"));
    for (let p = 0; p < kGrid * kGrid; ++p) {
      for (let o = 0; o < kWidth; ++o) {
        let sum = b[o];
        for (let i = 0; i < 16; ++i) {
          const at = (Math.floor(p / kGrid) * kPatch + (i >> 2)) * kSide + (p % kGrid) * kPatch + (i & 3);
          sum += w[o * 16 + i] * ((pixels[at] / 255 - 0.1307) / 0.3081);
        }
        x[(p + 1) * kWidth + o] = sum;
      }
    }
    for (let i = 0; i < x.length; ++i) x[i] += positions[i];
    return x;
  }

  run(pixels: Uint8Array, edits: Edit[] = []): Pass {
    const x = this.tokens(pixels),
      N = kTokens;
    const attention = new Float32Array(kBlocks * kHeads * N * N),
      allScores = attention.slice(),
      features: Float32Array[] = [];
    for (let l = 0; l < kBlocks; ++l) {
      const at = (part: string) => this.of(`blocks.${l}.${part}`);
      const qkv = linear(
        norm(x, at("norm1.weight"), at("norm1.bias")),
        at("attn.qkv.weight"),
        at("attn.qkv.bias"),
        kWidth,
      );
      const joined = new Float32Array(N * kWidth);
      for (let h = 0; h < kHeads; ++h) {
        let S = new Float32Array(N * N);
        for (let q = 0; q < N; ++q) {
          for (let k = 0; k < N; ++k) {
            let sum = 0;
            for (let e = 0; e < kEach; ++e) sum += qkv[q * 288 + h * kEach + e] * qkv[k * 288 + kWidth + h * kEach + e];
            S[q * N + k] = sum / Math.sqrt(kEach);
          }
        }
        for (const { kind, t = 1, rank = kEach } of edits) {
          if (kind === "symmetry")
            S = S.map((s, i) => ((1 + t) / 2) * s + ((1 - t) / 2) * S[(i % N) * N + Math.floor(i / N)]);
          if (kind === "rank" && rank < kEach) S = truncated(S, N, rank) as Float32Array<ArrayBuffer>;
        }
        const hidden = edits.filter(({ kind }) => kind === "token").map(({ token }) => token);
        const cut = edits.some(({ kind, block, head }) => kind === "head" && block === l && head === h);
        for (let q = 0; q < N; ++q) {
          const row = S.subarray(q * N, q * N + N);
          for (const token of hidden) if (token !== q) row[token!] = -Infinity;
          const greatest = Math.max(...row),
            sum = row.reduce((all, s) => all + Math.exp(s - greatest), 0);
          for (let k = 0; k < N; ++k) {
            const w = Math.exp(row[k] - greatest) / sum,
              i = ((l * kHeads + h) * N + q) * N + k;
            attention[i] = w;
            allScores[i] = row[k];
            if (!cut)
              for (let e = 0; e < kEach; ++e)
                joined[q * kWidth + h * kEach + e] += w * qkv[k * 288 + 2 * kWidth + h * kEach + e];
          }
        }
      }
      const added = linear(joined, at("attn.proj.weight"), at("attn.proj.bias"), kWidth);
      for (let i = 0; i < x.length; ++i) x[i] += added[i];
      const hidden = linear(
        norm(x, at("norm2.weight"), at("norm2.bias")),
        at("mlp.fc1.weight"),
        at("mlp.fc1.bias"),
        kWidth,
      );
      for (let i = 0; i < hidden.length; ++i) hidden[i] *= 0.5 * (1 + erf(hidden[i] / Math.SQRT2));
      const more = linear(hidden, at("mlp.fc2.weight"), at("mlp.fc2.bias"), 4 * kWidth);
      for (let i = 0; i < x.length; ++i) x[i] += more[i];
      features.push(x.slice());
    }
    const last = norm(x.slice(0, kWidth), this.of("norm.weight"), this.of("norm.bias"));
    return {
      logits: linear(last, this.of("head.weight"), this.of("head.bias"), kWidth),
      attention,
      scores: allScores,
      features,
    };
  }
}

/** Projections of a head, [E, D]. */
export function headWeights(vit: Vit, block: number, head: number, part: 0 | 1 | 2): Float32Array {
  const all = vit.tensors.get(`blocks.${block}.attn.qkv.weight`)!;
  return all.slice((part * kWidth + head * kEach) * kWidth, (part * kWidth + (head + 1) * kEach) * kWidth);
}
