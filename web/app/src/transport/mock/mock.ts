// The stand-in engine of development and tests: the digit model in plain TypeScript, answers of the protocol's shapes. What
// costs too much here (relevance, translation) is only plausible.
import weightsUrl from "../../../../../models/digits/model.safetensors?url";
import { fromStrokes } from "../../drawing";
import { f32, u8, type Json, type NamedArray, type Packet } from "../../packet";
import { cosine } from "../../vectors";
import { EngineError, type Transport } from "../transport";
import { kDigits } from "./digits";
import { plan } from "./plan";
import { encodePng } from "./png";
import { translate } from "./translate";
import {
  headWeights,
  kBlocks,
  kEach,
  kGrid,
  kHeads,
  kPatch,
  kSide,
  kTokens,
  kWidth,
  readTensors,
  Vit,
  type Edit,
  type Pass,
} from "./vit";

const kN = kTokens;
const base = {
  photo: false,
  input: [1, 28, 28],
  patch: [4, 4],
  grid: [7, 7],
  prefix: ["class"],
  blocks: 4,
  heads: 4,
  head_width: 24,
  directions: 24,
  query_bias: true,
  qk_norm: false,
  positions: ["added"],
  outputs: 10,
  shipped: "",
  width: 96,
  labels: [..."0123456789"],
  classifier: true,
  parameters: 456106,
  kind: "image",
  exact: ["symmetry", "rank", "gauge", "head", "token"],
};
const kModels = [
  { ...base, id: "digits", shipped: "digits", title: "Digits", attention: "separate" },
  { ...base, id: "digits-shared", shipped: "digits-shared", title: "Digits, W_Q = W_K", attention: "shared" },
  { ...base, id: "digits-merged", shipped: "digits-merged", title: "Digits, one matrix", attention: "merged" },
  {
    ...base,
    id: "pair",
    title: "Two towers (stand-in)",
    attention: "separate",
    kind: "towers",
    photo: true,
    classifier: false,
    outputs: kWidth,
    labels: [],
  },
  {
    ...base,
    id: "base",
    title: "As large as ViT-B (random)",
    photo: true,
    attention: "separate",
    input: [3, 224, 224],
    patch: [16, 16],
    grid: [14, 14],
    blocks: 12,
    heads: 12,
    head_width: 64,
    directions: 64,
    outputs: 1000,
    width: 768,
    labels: Array.from({ length: 1000 }, (_, i) => `class of photographs ${i}`),
    parameters: 86_000_000,
  },
  {
    id: "english-italian",
    shipped: "english-italian",
    title: "English to Italian",
    kind: "pair",
    attention: "separate",
    blocks: 3,
    heads: 6,
    head_width: 32,
    width: 192,
    parameters: 1900000,
    exact: [],
    labels: [],
    prefix: [],
    grid: [0, 0],
    input: [],
    patch: [],
    photo: false,
    classifier: false,
  },
];

function softmax(x: Float32Array): Float32Array {
  const most = Math.max(...x),
    e = x.map((v) => Math.exp(v - most)),
    sum = e.reduce((a, b) => a + b);
  return e.map((v) => v / sum);
}

export function pack(weights: Float32Array, columns: number): { bytes: Uint8Array; scales: Float32Array } {
  const bytes = new Uint8Array(weights.length),
    scales = new Float32Array(weights.length / columns);
  for (let r = 0; r < scales.length; ++r) {
    const row = weights.subarray(r * columns, (r + 1) * columns),
      scale = Math.max(...row);
    scales[r] = scale;
    for (let k = 0; k < columns; ++k)
      bytes[r * columns + k] = scale > 0 ? Math.round(255 * Math.sqrt(row[k] / scale)) : 0;
  }
  return { bytes, scales };
}

const numbers = (length: number, f: (i: number) => number) => Float32Array.from({ length }, (_, i) => f(i));

export class MockTransport implements Transport {
  readonly kind = "mock";
  private readonly vit = fetch(weightsUrl)
    .then((r) => r.arrayBuffer())
    .then((buffer) => new Vit(readTensors(buffer)));
  private readonly images = new Map<string, Uint8Array>();

  async call(name: string, { json, arrays }: Packet): Promise<Packet> {
    const vit = await this.vit;
    await new Promise((resolve) => setTimeout(resolve, 1));
    const method = (this as unknown as Record<string, unknown>)[`on_${name}`] as
      ((vit: Vit, json: Json, arrays: Record<string, NamedArray>) => Promise<Packet> | Packet) | undefined;
    if (!method) throw new EngineError(`unknown call ${name}`);
    const answer = await method.call(this, vit, json, arrays);
    return { json: JSON.parse(JSON.stringify(answer.json)), arrays: answer.arrays };
  }

  private pass(vit: Vit, json: Json): Pass {
    const pixels = this.images.get(json.image as string);
    if (!pixels) throw new EngineError("unknown image: send its bytes again", "unknown_image", 404);
    const twin: Edit[] =
      json.model === "digits-shared"
        ? [{ kind: "symmetry", t: 0 }]
        : json.model === "digits-merged"
          ? [{ kind: "rank", rank: 12 }]
          : [];
    return vit.run(pixels, [...twin, ...((json.edits as Edit[]) ?? [])]);
  }

  on_models(): Packet {
    return {
      json: { models: kModels, samples: kDigits.map((_, i) => ({ id: `digit-${i}`, title: String(i) })) },
      arrays: {},
    };
  }

  async on_image(_: Vit, json: Json, arrays: Record<string, NamedArray>): Promise<Packet> {
    let pixels: Uint8Array;
    if (arrays.pixels) pixels = arrays.pixels.data as Uint8Array;
    else if (arrays.file) pixels = await greyOf(arrays.file.data as Uint8Array);
    else {
      const digit = kDigits[Number(String(json.sample).split("-")[1])];
      if (!digit) throw new EngineError(`no sample ${json.sample}`);
      pixels = fromStrokes(digit).pixels;
    }
    const id = `${pixels.reduce((hash, v) => (Math.imul(hash, 31) + v) | 0, 7)}`;
    this.images.set(id, pixels);
    if (json.model === "base") {
      const colours = numbers(320 * 240, (i) => 110 + 60 * Math.sin(i / 900) + 60 * Math.sin((i % 320) / 40));
      return {
        json: { image: id, photo: [240, 320], where: [8, 48, 224, 224], grid: [14, 14] },
        arrays: { png: u8(await encodePng(Uint8Array.from(colours), 240, 320)) },
      };
    }
    return {
      json: { image: id, photo: [kSide, kSide], where: [0, 0, kSide, kSide], grid: [kGrid, kGrid] },
      arrays: { png: u8(await encodePng(pixels, kSide, kSide)) },
    };
  }

  // Blobs that lie elsewhere for each head and query: large maps for the eye, and for the time that drawing them takes.
  private large(): Packet {
    const L = 12,
      H = 12,
      N = 197,
      bytes = new Uint8Array(L * H * N * N);
    for (let lh = 0; lh < L * H; ++lh)
      for (let q = 0; q < N; ++q)
        for (let k = 1; k < N; ++k) {
          const dy = Math.floor((k - 1) / 14) - ((q / 14 + lh) % 14),
            dx = ((k - 1) % 14) - ((q + 5 * lh) % 14);
          bytes[(lh * N + q) * N + k] = 255 * Math.exp(-(dy * dy + dx * dx) / (4 + (lh % 12) * 3));
        }
    const logits = numbers(1000, (i) => 4 * Math.sin(i * i));
    return {
      json: { top: [], milliseconds: 90 },
      arrays: {
        logits: f32(logits),
        scores: f32(softmax(logits)),
        attention: u8(bytes, [L, H, N, N]),
        scales: f32(new Float32Array(L * H * N).fill(0.04), [L, H, N]),
      },
    };
  }

  on_pass(vit: Vit, json: Json): Packet {
    if (json.model === "base") return this.large();
    const started = performance.now(),
      { logits, attention, features } = this.pass(vit, json),
      scores = softmax(logits);
    const blocks = json.blocks === "all" ? [...Array(kBlocks).keys()] : (json.blocks as number[]);
    const chosen = new Float32Array(blocks.length * kHeads * kN * kN);
    blocks.forEach((b, i) =>
      chosen.set(attention.subarray(b * kHeads * kN * kN, (b + 1) * kHeads * kN * kN), i * kHeads * kN * kN),
    );
    const { bytes, scales } = pack(chosen, kN);
    const top = [...scores.keys()]
      .sort((a, b) => scores[b] - scores[a])
      .slice(0, 5)
      .map((index) => ({ index, label: String(index), score: scores[index], logit: logits[index] }));
    return {
      json: { top: json.model === "pair" ? [] : top, milliseconds: performance.now() - started },
      arrays: {
        ...(json.model === "pair"
          ? { embedding: f32(features[kBlocks - 1].slice(0, kWidth)) }
          : { logits: f32(logits), scores: f32(scores) }),
        attention: u8(bytes, [blocks.length, kHeads, kN, kN]),
        scales: f32(scales, [blocks.length, kHeads, kN]),
      },
    };
  }

  private rolled(attention: Float32Array): Float32Array {
    let R = numbers(kN * kN, (i) => +(Math.floor(i / kN) === i % kN));
    for (let l = 0; l < kBlocks; ++l) {
      const A = numbers(kN * kN, (i) => {
        let mean = 0;
        for (let h = 0; h < kHeads; ++h) mean += attention[(l * kHeads + h) * kN * kN + i] / kHeads;
        return 0.5 * mean + (Math.floor(i / kN) === i % kN ? 0.5 : 0);
      });
      const before = R;
      R = numbers(kN * kN, (i) => {
        const q = Math.floor(i / kN),
          k = i % kN;
        let sum = 0;
        for (let j = 0; j < kN; ++j) sum += A[q * kN + j] * before[j * kN + k];
        return sum;
      });
    }
    return R;
  }

  on_rollout(vit: Vit, json: Json): Packet {
    return { json: {}, arrays: { weights: f32(this.rolled(this.pass(vit, json).attention), [kN, kN]) } };
  }

  on_relevance(vit: Vit, json: Json): Packet {
    const { attention, features } = this.pass(vit, json),
      R = this.rolled(attention),
      w = vit.tensors.get("head.weight")!;
    const klass = json.class as number,
      last = features[kBlocks - 2];
    return {
      json: {},
      arrays: {
        relevance: f32(
          numbers(kN, (k) => {
            let dot = 0;
            for (let i = 0; i < kWidth; ++i) dot += last[k * kWidth + i] * w[klass * kWidth + i];
            return R[k] * Math.exp(0.35 * dot);
          }),
        ),
      },
    };
  }

  on_tokens(vit: Vit, json: Json): Packet {
    const x = this.pass(vit, json).features[json.block as number].slice(),
      D = kWidth;
    if (json.what === "similarity") {
      const length = numbers(kN, (q) => Math.hypot(...x.subarray(q * D, (q + 1) * D)));
      return {
        json: {},
        arrays: {
          similarity: f32(
            numbers(kN * kN, (i) => {
              const q = Math.floor(i / kN),
                k = i % kN;
              let dot = 0;
              for (let j = 0; j < D; ++j) dot += x[q * D + j] * x[k * D + j];
              return dot / (length[q] * length[k]);
            }),
            [kN, kN],
          ),
        },
      };
    }
    const n = kN - 1,
      X = x.slice(D),
      colours = new Uint8Array(n * 3),
      shares = new Float32Array(3);
    for (let j = 0; j < D; ++j) {
      let mean = 0;
      for (let i = 0; i < n; ++i) mean += X[i * D + j] / n;
      for (let i = 0; i < n; ++i) X[i * D + j] -= mean;
    }
    const all = X.reduce((sum, v) => sum + v * v, 0);
    for (let c = 0; c < 3; ++c) {
      let v = numbers(D, (j) => Math.sin(j + c + 1)),
        p = new Float32Array(n);
      for (let round = 0; round < 40; ++round) {
        p = numbers(n, (i) => v.reduce((sum, w, j) => sum + w * X[i * D + j], 0)) as Float32Array<ArrayBuffer>;
        v = numbers(D, (j) => p.reduce((sum, w, i) => sum + w * X[i * D + j], 0));
        const length = Math.hypot(...v) || 1;
        v = v.map((w) => w / length);
      }
      p = numbers(n, (i) => v.reduce((sum, w, j) => sum + w * X[i * D + j], 0)) as Float32Array<ArrayBuffer>;
      shares[c] = p.reduce((sum, w) => sum + w * w, 0) / all;
      const sorted = [...p].sort((a, b) => a - b),
        low = sorted[1],
        high = sorted[n - 2];
      for (let i = 0; i < n; ++i) {
        colours[3 * i + c] = 255 * Math.min(1, Math.max(0, (p[i] - low) / (high - low)));
        for (let j = 0; j < D; ++j) X[i * D + j] -= p[i] * v[j];
      }
    }
    return { json: {}, arrays: { colours: u8(colours, [kGrid, kGrid, 3]), shares: f32(shares) } };
  }

  on_heads(vit: Vit): Packet {
    const LH = kBlocks * kHeads,
      symmetry = new Float32Array(LH);
    for (let l = 0; l < kBlocks; ++l)
      for (let h = 0; h < kHeads; ++h) {
        const q = headWeights(vit, l, h, 0),
          k = headWeights(vit, l, h, 1),
          M = new Float32Array(kWidth * kWidth);
        for (let e = 0; e < kEach; ++e)
          for (let i = 0; i < kWidth; ++i)
            for (let j = 0; j < kWidth; ++j) M[i * kWidth + j] += q[e * kWidth + i] * k[e * kWidth + j];
        let all = 0,
          mirrored = 0;
        for (let i = 0; i < M.length; ++i) {
          all += M[i] * M[i];
          mirrored += M[i] * M[(i % kWidth) * kWidth + Math.floor(i / kWidth)];
        }
        symmetry[l * kHeads + h] = mirrored / all;
      }
    const decay = (i: number, flat: number) => 3 * Math.exp(-(i % kEach) / (2 + 1.5 * ((i / kEach) % 4) + flat));
    const rank = (flat: number) => numbers(LH, (i) => 3 + 1.7 * (i % 4) + flat);
    const energies = (flat: number) =>
      numbers(LH * 3, (i) => Math.ceil((2 + (Math.floor(i / 3) % 4) + flat) * (1 + (i % 3))));
    return {
      json: {},
      arrays: {
        singular: f32(
          numbers(LH * kEach, (i) => decay(i, 0)),
          [kBlocks, kHeads, kEach],
        ),
        symmetry: f32(symmetry, [kBlocks, kHeads]),
        effective_rank: f32(rank(0), [kBlocks, kHeads]),
        energy_rank: f32(energies(0), [kBlocks, kHeads, 3]),
        ov_singular: f32(
          numbers(LH * kEach, (i) => decay(i, 4)),
          [kBlocks, kHeads, kEach],
        ),
        ov_symmetry: f32(
          symmetry.map((s) => -s * 3),
          [kBlocks, kHeads],
        ),
        ov_effective_rank: f32(rank(5), [kBlocks, kHeads]),
        ov_energy_rank: f32(energies(3), [kBlocks, kHeads, 3]),
      },
    };
  }

  on_gauge(vit: Vit, json: Json): Packet {
    const { block, head, strength, seed } = json as Record<string, number>;
    const wq = headWeights(vit, block, head, 0),
      wk = headWeights(vit, block, head, 1);
    const random = (i: number) => {
      const s = Math.sin(i * 12.9898 + seed * 78.233) * 43758.5453;
      return s - Math.floor(s) - 0.5;
    };
    const mixed = (w: Float32Array, sign: number) =>
      numbers(w.length, (i) => {
        const e = Math.floor(i / kWidth);
        let sum = (1 - strength) * w[i];
        for (let o = 0; o < kEach; ++o) sum += strength * sign * random(e * kEach + o) * w[o * kWidth + (i % kWidth)];
        return sum;
      });
    const wq2 = mixed(wq, 1),
      wk2 = mixed(wk, -1);
    const change = (a: Float32Array, b: Float32Array) => Math.hypot(...a.map((v, i) => v - b[i])) / Math.hypot(...a);
    const shape = [kEach, kWidth];
    return {
      json: { change: [change(wq, wq2), change(wk, wk2)], product: 3.1e-7, attention: 2.4e-7 },
      arrays: { wq: f32(wq, shape), wk: f32(wk, shape), wq2: f32(wq2, shape), wk2: f32(wk2, shape) },
    };
  }

  on_knockout(vit: Vit, json: Json): Packet {
    const edits = (json.edits as Edit[]) ?? [],
      block = json.block as number,
      klass = json.class as number;
    const whole = this.pass(vit, json),
      before = whole.logits[klass],
      top: Json[] = [];
    const change = numbers(kHeads, (head) => {
      const { logits, features } = this.pass(vit, { ...json, edits: [...edits, { kind: "head", block, head }] });
      if (klass === undefined)
        return cosine(features[kBlocks - 1].subarray(0, kWidth), whole.features[kBlocks - 1].subarray(0, kWidth));
      const index = logits.indexOf(Math.max(...logits));
      top.push({ index, label: String(index), score: softmax(logits)[index] });
      return logits[klass] - before;
    });
    return klass === undefined
      ? { json: {}, arrays: { cosine: f32(change) } }
      : { json: { top }, arrays: { change: f32(change) } };
  }

  on_plan(_: Vit, json: Json): Packet {
    return plan(json.queries);
  }

  on_smooth(vit: Vit, json: Json): Packet {
    const pixels = this.images.get(json.image as string)!,
      [qy, qx] = json.query as [number, number];
    const step = json.step as number,
      sigma = (json.sigma as number) ?? 1,
      temperature = (json.temperature as number) ?? 0.01;
    const n = kGrid * kGrid,
      patch = (p: number) =>
        numbers(
          16,
          (i) => pixels[(Math.floor(p / kGrid) * kPatch + (i >> 2)) * kSide + (p % kGrid) * kPatch + (i & 3)] / 255,
        );
    const query = patch(qy * kGrid + qx),
      heads = step === 4 ? kHeads : 1;
    const similar = numbers(n, (p) => -patch(p).reduce((sum, v, i) => sum + (v - query[i]) ** 2, 0) / 16);
    let weights: Float32Array;
    if (step === 0) {
      weights = numbers(n, (p) =>
        Math.exp(-((Math.floor(p / kGrid) - qy) ** 2 + ((p % kGrid) - qx) ** 2) / (2 * sigma * sigma)),
      );
    } else if (step === 1) {
      const others = (_: number, p: number) => json.own !== false || p !== qy * kGrid + qx;
      const best = Math.max(...similar.filter(others)),
        at = similar.findIndex((s, p) => s === best && others(s, p));
      weights = numbers(n, (p) => +(p === at));
    } else if (step === 2) {
      weights = similar.map((s) => Math.exp(s / (2 * temperature)));
    } else {
      const { attention } = this.pass(vit, { ...json, edits: [] });
      const first = step === 3 ? ((json.heads as number[]) ?? [0])[0] : 0;
      weights = numbers(
        heads * n,
        (i) => attention[((first + ((i / n) | 0)) * kN + 1 + qy * kGrid + qx) * kN + 1 + (i % n)],
      );
    }
    for (let h = 0; h < heads; ++h) {
      const sum = weights.subarray(h * n, (h + 1) * n).reduce((a, b) => a + b, 0);
      for (let p = 0; p < n; ++p) weights[h * n + p] /= sum;
    }
    const sums = new Float32Array(48);
    for (let i = 0; i < heads * n; ++i)
      patch(i % n).forEach((v, at) => {
        for (let c = 0; c < 3; ++c) sums[3 * at + c] += (255 * v * weights[i]) / heads;
      });
    const mixed = Uint8Array.from(sums, Math.round);
    return {
      json: { formula: "", note: "" },
      arrays: { weights: f32(weights, [heads, kGrid, kGrid]), mixed: u8(mixed, [4, 4, 3]) },
    };
  }

  on_translate(_: Vit, json: Json): Packet {
    return translate(String(json.text), String(json.rule ?? ""));
  }

  on_words(_: Vit, json: Json): Packet {
    const pixels = this.images.get(json.image as string)!,
      seed = String(json.text).length;
    const answers = numbers(kGrid * kGrid, (p) => {
      let ink = 0;
      for (let i = 0; i < 16; ++i)
        ink += pixels[(Math.floor(p / kGrid) * 4 + (i >> 2)) * kSide + (p % kGrid) * 4 + (i & 3)] / 255 / 16;
      return 0.12 + 0.2 * ink * (1 + 0.3 * Math.sin(seed + p));
    });
    return { json: { score: 0.27 }, arrays: { answers: f32(answers, [kGrid, kGrid]) } };
  }
}

async function greyOf(file: Uint8Array): Promise<Uint8Array> {
  const bitmap = await createImageBitmap(new Blob([file as BlobPart])).catch(() => {
    throw new EngineError("image: not a PNG, JPEG or WebP file");
  });
  const canvas = new OffscreenCanvas(kSide, kSide),
    context = canvas.getContext("2d")!;
  context.drawImage(bitmap, 0, 0, kSide, kSide);
  const { data } = context.getImageData(0, 0, kSide, kSide);
  return Uint8Array.from(
    { length: kSide * kSide },
    (_, i) => 0.3 * data[4 * i] + 0.59 * data[4 * i + 1] + 0.11 * data[4 * i + 2],
  );
}
