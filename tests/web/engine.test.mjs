// The engine in WebAssembly answers as the native program, within rounding. Run by node:
//   QKV=build/release/qkv QKV_WEB=build/web node --test tests/web/engine.test.mjs
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Engine, fileArray } from "../../web/engine/node.mjs";
import { distance, largest, rowOf, run, tolerance, translate } from "./native.mjs";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const qkv = process.env.QKV ?? join(root, "build/release/qkv");
const web = process.env.QKV_WEB ?? join(root, "build/web");
const translator = join(root, "models/english-italian");
const kTranslatorFiles = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                          "tokenizer_config.json"];
let engine;
let folder;
before(async () => {
  engine = await Engine.start(web);
  folder = mkdtempSync(join(tmpdir(), "qkv-web-"));
});
after(() => rmSync(folder, { recursive: true }));

// A byte b of attention stands for scale · (b/255)², and b is rounded: half a step beside b is at most
// scale · (255 + ¼) / 255² of the weight.
const kStep = 255.25 / 255 ** 2;

function compare(model, path, files) {
  const best = run(qkv, path, files), baseline = run(qkv, path, files, "baseline");
  const worst = { logits: 0, weights: 0, identical: 0 };
  files.forEach((file, i) => {
    const { json: { image } } = engine.call("image", { model }, fileArray(file));
    const { json, arrays: { logits, attention, scales } } = engine.call("pass", { model, image, blocks: "all" });
    const [expected, other] = [best, baseline].map(({ logits }) => rowOf(logits, i));
    const allowed = tolerance(expected, other), off = distance(logits.data, expected);
    assert.ok(off <= allowed, `${file}: logits differ by ${off}, at most ${allowed} is rounding`);
    assert.equal(json.top[0].index, expected.indexOf(Math.max(...expected)));
    worst.logits = Math.max(worst.logits, off / largest(expected));
    worst.identical += distance(logits.data, other) === 0;

    const [L, H, N] = attention.shape;
    for (let l = 0; l < L; ++l) {
      const [maps, others] = [best, baseline].map((tensors) => rowOf(tensors[`attention.${l}`], i));
      const rounding = tolerance(maps, others);
      for (let row = 0; row < H * N; ++row) {
        const scale = scales.data[l * H * N + row];
        for (let k = 0; k < N; ++k) {
          const weight = scale * (attention.data[(l * H * N + row) * N + k] / 255) ** 2;
          const difference = Math.abs(weight - maps[row * N + k]);
          assert.ok(difference <= kStep * scale + rounding, `${file}: block ${l}, row ${row}: a weight differs by ${difference}`);
          worst.weights = Math.max(worst.weights, difference / scale);
        }
        const off = Math.abs(scale - largest(maps.subarray(row * N, (row + 1) * N)));
        assert.ok(off <= rounding, `${file}: block ${l}, row ${row}: its greatest weight differs by ${off}`);
      }
    }
  });
  return worst;
}

const digits = join(root, "examples/digits");
const digitFiles = readdirSync(digits).filter((name) => name.endsWith(".png")).sort().map((name) => join(digits, name));
assert.equal(digitFiles.length, 20);

test("digits: logits and maps", (t) => {
  const { logits, weights, identical } = compare("digits", "", digitFiles);
  t.diagnostic(`20 digits: logits within ${logits.toExponential(1)} of the greatest, ${identical} equal the native baseline's ` +
               `to the bit; weights within ${weights.toFixed(4)} of the row's greatest (half a step: ${kStep.toFixed(4)})`);
});

test("their twins with shared and with merged queries and keys", () => {
  for (const twin of ["digits-shared", "digits-merged"]) {
    const path = join(root, "models", twin);
    engine.add(twin, path, ["config.json", "model.safetensors"]);
    compare(twin, path, digitFiles.slice(0, 4));
  }
});

test("CIFAR-10: logits and maps", (t) => {
  engine.add("cifar10", join(root, "models/cifar10"), ["config.json", "model.safetensors"]);
  const files = [1, 2, 3, 4].map((seed) => {
    const pixels = new Uint8Array(32 * 32 * 3);
    for (let i = 0, x = seed * 2654435761; i < pixels.length; ++i) pixels[i] = (x = (x * 1664525 + 1013904223) % 2 ** 32) / 2 ** 24;
    const file = join(folder, `noise-${seed}.ppm`);
    writeFileSync(file, Buffer.concat([Buffer.from("P6 32 32 255\n"), pixels]));
    return file;
  });
  const { logits } = compare("cifar10", join(root, "models/cifar10"), files);
  t.diagnostic(`4 pictures: logits within ${logits.toExponential(1)} of the greatest`);
});

test("the translator writes what the program writes", (t) => {
  engine.add("english-italian", translator, kTranslatorFiles);
  const lines = readFileSync(join(root, "tests/web/sentences.txt"), "utf8").trim().split("\n");
  for (const rule of ["", "softmax=2", "hard", "gaussian=2:0.3,1.0"]) {
    const expected = translate(qkv, translator, lines, rule);
    const written = lines.map((text) => engine.call("translate", { model: "english-italian", text, ...(rule && { rule }) }).json.text);
    assert.deepEqual(written, expected, rule || "softmax");
  }
  t.diagnostic(`${lines.length} sentences under 4 rules are equal`);
});

test("every other call answers", () => {
  const model = "digits";
  const { json: { image, grid } } = engine.call("image", { model, sample: "digit-8" });
  const { json: { models } } = engine.call("models", {});
  assert.deepEqual(models.map(({ id }) => id), ["digits", "digits-shared", "digits-merged", "cifar10", "english-italian"]);
  const { blocks, heads } = models[0];
  const N = models[0].prefix.length + grid[0] * grid[1];
  assert.deepEqual(engine.call("rollout", { model, image }).arrays.weights.shape, [N, N]);
  assert.deepEqual(engine.call("relevance", { model, image, class: 8 }).arrays.relevance.shape, [N]);
  assert.deepEqual(engine.call("tokens", { model, image, block: 1, what: "pca" }).arrays.colours.shape, [...grid, 3]);
  assert.deepEqual(engine.call("heads", { model }).arrays.symmetry.shape, [blocks, heads]);
  assert.ok(engine.call("gauge", { model, block: 0, head: 0, strength: 0.5, seed: 1, image }).json);
  assert.deepEqual(engine.call("knockout", { model, image, class: 8, block: 0 }).arrays.change.shape, [heads]);
  assert.ok(engine.call("plan", { model }).json);
  for (let step = 0; step <= 4; ++step) assert.ok(engine.call("smooth", { model, image, query: [2, 2], step }).json);
  const edited = engine.call("pass", { model, image, edits: [{ kind: "symmetry", t: -1, blocks: "all", heads: "all" }], blocks: [0] });
  assert.deepEqual(edited.arrays.attention.shape, [1, heads, N, N]);
});

test("bad requests are answered with what is wrong", () => {
  const models = () => engine.call("models", {}).json.models.length;
  const before = models();
  for (const [id, message] of [["a/b", /no name of a folder/], ["..", /no name of a folder/], ["cifar10", /two models/],
                               ["nobody", /no such file/]]) {
    assert.throws(() => engine.call("add", { models: [{ id }] }), message);
  }
  assert.throws(() => engine.call("add", { models: [{ id: "x", file: "../y" }] }), /no name of a file/);
  assert.throws(() => engine.call("add", { models: "x" }), /is a list/);
  assert.equal(models(), before);
  assert.throws(() => engine.call("pass", { model: "nobody" }), /no model is called "nobody"/);
  assert.throws(() => engine.call("pass", { model: "digits", image: "none" }), /send its bytes again/);
  assert.throws(() => engine.call("image", { model: "digits" }, fileArray(join(root, "README.md"))), /no JPEG, PNG/);
  assert.throws(() => engine.call("nothing", {}), /no call/);
  for (let length = 0; length < 40; ++length) {
    const answer = engine.bytes("pass", new Uint8Array(length).fill(255));
    assert.ok(answer.length > 4, "an answer to bytes that are no packet");
  }
  assert.equal(engine.call("image", { model: "digits", sample: "digit-3" }).json.grid.length, 2);
});

test("speed", (t) => {
  const median = (work, times) => {
    const took = Array.from({ length: times }, () => {
      const start = performance.now();
      work();
      return performance.now() - start;
    });
    return took.sort((a, b) => a - b)[times >> 1].toFixed(1);
  };
  const model = "digits";
  const { json: { image } } = engine.call("image", { model, sample: "digit-5" });
  const pass = median(() => engine.call("pass", { model, image, blocks: "all" }), 21);
  const text = "This package contains the documentation.";
  const sentence = median(() => engine.call("translate", { model: "english-italian", text }), 7);
  t.diagnostic(`a digit's pass with all maps: ${pass} ms; a sentence of 6 words: ${sentence} ms (medians)`);
});
