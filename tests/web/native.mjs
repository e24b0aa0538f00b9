// What the native program answers, to compare with: by `qkv run` and `qkv translate`.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Tensors of a safetensors file: {name: {shape, data}}; float32 only. */
function readTensors(path) {
  const bytes = readFileSync(path);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + length));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    if (dtype !== "F32") continue;
    const [begin, end] = data_offsets;
    const part = Uint8Array.from(bytes.subarray(8 + length + begin, 8 + length + end));
    tensors[name] = { shape, data: new Float32Array(part.buffer) };
  }
  return tensors;
}

/** Logits [images, C] and attention.L [images, H, N, N] of pictures by the instruction set `isa` (empty: the best). */
export function run(qkv, model, files, isa = "") {
  const folder = mkdtempSync(join(tmpdir(), "qkv-web-"));
  try {
    const out = join(folder, "out.safetensors");
    const named = model ? ["-m", model] : [];
    execFileSync(qkv, ["run", ...named, "--attention", "all", "-o", out, ...files],
                 { env: { ...process.env, QKV_ISA: isa }, stdio: ["ignore", "pipe", "pipe"] });
    return readTensors(out);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The translations of these sentences, one each. */
export function translate(qkv, model, sentences, rule = "") {
  const ruled = rule ? ["--cross-weights", rule] : [];
  const out = execFileSync(qkv, ["translate", "-q", "-m", model, ...ruled, "-"],
                           { input: sentences.join("\n") + "\n", stdio: ["pipe", "pipe", "pipe"] });
  return out.toString("utf8").trimEnd().split("\n");
}

/** Row `index` of a tensor's first axis. */
export function rowOf({ shape, data }, index) {
  const size = data.length / shape[0];
  return data.subarray(index * size, (index + 1) * size);
}

export function largest(a) {
  return a.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
}

/** Greatest difference of two arrays; NaN if they are not of one length. */
export function distance(a, b) {
  if (a.length !== b.length) return NaN;
  let most = 0;
  for (let i = 0; i < a.length; ++i) most = Math.max(most, Math.abs(a[i] - b[i]));
  return most;
}

/**
 * The greatest difference that rounding explains: four times that of two native instruction sets on the same picture,
 * whose sums are in different orders and with and without fused multiply-adds, and a unit in the last place.
 */
export function tolerance(best, baseline) {
  return 4 * distance(best, baseline) + 2 ** -23 * largest(best);
}
