// The folder that `make web` wrote, in headless Chromium: served by a plain host, by one that isolates the page (threads,
// if they were built), and from disk. Answers equal the native program's within rounding. Run by node:
//   QKV=build/release/qkv QKV_WEB=build/web node --test tests/web/browser.test.mjs
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { kThreads, offline, onDisk, open, pictures, qkv, root, sentences, start } from "./browser.mjs";
import { distance, rowOf, run, tolerance, translate } from "./native.mjs";

let at;
before(async () => (at = await start()));
after(() => at?.close());

// Digits, with separate, shared and merged queries and keys.
async function readsAsNative({ ask }, model) {
  const path = model === "digits" ? "" : join(root, "models", model);
  const best = run(qkv, path, pictures), baseline = run(qkv, path, pictures, "baseline");
  const passes = [];
  for (let i = 0; i < pictures.length; ++i) {
    const { json: { image } } = await ask("image", { model }, { file: [...readFileSync(pictures[i])] });
    const { json, took, arrays } = await ask("pass", { model, image, blocks: "all" }, { wanted: ["logits"] });
    const [expected, other] = [best, baseline].map(({ logits }) => rowOf(logits, i));
    const off = distance(arrays.logits, expected);
    assert.ok(off <= tolerance(expected, other), `${model}, ${pictures[i]}: logits differ by ${off}`);
    assert.equal(json.top[0].index, expected.indexOf(Math.max(...expected)));
    passes.push(took);
  }
  return passes;
}

async function answersAsNative({ ask, problems, loaded }, t, host) {
  const passes = await readsAsNative({ ask }, "digits");
  for (const twin of ["digits-shared", "digits-merged"]) await readsAsNative({ ask }, twin);
  const expected = translate(qkv, join(root, "models/english-italian"), sentences);
  const written = [], times = [];
  for (const text of sentences) {
    const { json, took } = await ask("translate", { model: "english-italian", text });
    written.push(json.text);
    times.push(took);
  }
  assert.deepEqual(written, expected);
  assert.deepEqual(problems, []);
  const median = (all) => [...all].sort((a, b) => a - b)[all.length >> 1].toFixed(1);
  t.diagnostic(`${host}: ready after ${loaded.toFixed(0)} ms; a digit's pass with all maps ${median(passes)} ms, a sentence ` +
               `${median(times)} ms (medians of ${passes.length} and ${times.length}), 20 digits of 3 models and ` +
               `${sentences.length} sentences as native`);
}

test("on a plain host", async (t) => {
  const opened = await open(at.browser, at.plain);
  assert.equal(await opened.page.evaluate(() => self.crossOriginIsolated), false);
  await answersAsNative(opened, t, "plain host, one thread");
  await opened.page.close();
});

test("on a host that isolates the page", { skip: !kThreads && "no build with threads" }, async (t) => {
  const opened = await open(at.browser, at.isolated);
  assert.equal(await opened.page.evaluate(() => self.crossOriginIsolated), true);
  await answersAsNative(opened, t, "isolated page, threads");
  await opened.page.close();
});

test("on a host that isolates the page, without a build with threads", { skip: kThreads && "there is one" }, async () => {
  const opened = await open(at.browser, at.isolated);
  await readsAsNative(opened, "digits");
  await opened.page.close();
});

test("from disk", async (t) => {
  const opened = await open(at.browser, offline);
  await answersAsNative(opened, t, "from disk");
  await opened.page.close();
});

test("a JPEG, which the browser decodes", async (t) => {
  const { page, ask } = await open(at.browser, at.plain);
  const bytes = await page.evaluate(async () => {
    const canvas = new OffscreenCanvas(96, 64), context = canvas.getContext("2d");
    for (let i = 0; i < 24; ++i) {
      context.fillStyle = `hsl(${i * 47} 70% ${30 + i * 2}%)`;
      context.fillRect((i * 37) % 90, (i * 23) % 60, 9 + i, 31 - i);
    }
    return [...new Uint8Array(await (await canvas.convertToBlob({ type: "image/jpeg", quality: 0.8 })).arrayBuffer())];
  });
  const file = join(at.folder, "picture.jpg");
  writeFileSync(file, Uint8Array.from(bytes));
  const model = join(root, "models/cifar10");
  const [best, baseline] = ["", "baseline"].map((isa) => rowOf(run(qkv, model, [file], isa).logits, 0));
  const { json: { image, photo } } = await ask("image", { model: "cifar10" }, { file: bytes });
  assert.deepEqual(photo, [64, 96]);
  const { arrays } = await ask("pass", { model: "cifar10", image, blocks: [0] }, { wanted: ["logits"] });
  const off = distance(arrays.logits, best);
  assert.ok(off <= tolerance(best, baseline), `logits differ by ${off}: the browser decodes other pixels`);
  t.diagnostic(`logits within ${off.toExponential(1)}: the same pixels as libjpeg-turbo's`);
  await page.close();
});

test("the page itself opens on a digit, from a host and from disk", async () => {
  const page = await at.browser.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(at.plain) && !/^(data|blob):/.test(request.url())) problems.push(request.url());
  });
  for (const url of [at.plain, offline]) {
    await page.goto(url);
    await page.waitForSelector("text=/^Prediction$/", { timeout: 60000 });
    assert.deepEqual(problems.filter((problem) => problem !== url), []);
  }
  await page.close();
});

test("the page opened from disk says why it cannot start, and leads to the one that can", async () => {
  const page = await at.browser.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(onDisk);
  await page.getByRole("alert").filter({ hasText: "Browsers do not start the engine from a folder on disk" }).waitFor();
  await page.getByRole("link", { name: "Open offline.html" }).click();
  await page.waitForSelector("text=/^Prediction$/", { timeout: 60000 });
  assert.equal(page.url(), offline);
  assert.deepEqual(problems, []);
  await page.close();
});
