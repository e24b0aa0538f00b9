// The folder that `make web` wrote, in headless Chromium: served by a plain host, by one that isolates the page (threads,
// if they were built), and from disk. Answers equal the native program's within rounding. Run by node:
//   QKV=build/release/qkv QKV_WEB=build/web node --test tests/web/browser.test.mjs
// playwright-core is that of web/app (npm ci there), or lies in QKV_PLAYWRIGHT.
import assert from "node:assert/strict";
import { createReadStream, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, extname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { distance, rowOf, run, tolerance, translate } from "./native.mjs";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const qkv = process.env.QKV ?? join(root, "build/release/qkv");
const web = resolve(process.env.QKV_WEB ?? join(root, "build/web"));
const { chromium } = createRequire(process.env.QKV_PLAYWRIGHT ?? join(root, "web/app/package.json"))("playwright-core");
const packets = readFileSync(join(root, "web/engine/packet.mjs"), "utf8").replace(/^export /gm, "");
const types = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm", ".json": "application/json" };

function serve(headers) {
  const server = createServer((request, response) => {
    const path = join(web, decodeURIComponent(new URL(request.url, "http://x").pathname).replace(/\/$/, "/index.html"));
    if (!path.startsWith(web) || !existsSync(path) || !statSync(path).isFile()) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": types[extname(path)] ?? "application/octet-stream", ...headers });
    createReadStream(path).pipe(response);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

let browser;
let profile;
let plain;
let isolated;
before(async () => {
  profile = mkdtempSync(join(tmpdir(), "qkv-web-"));
  plain = await serve({});
  isolated = await serve({ "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" });
  browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync"],
  });
});
after(async () => {
  await browser?.close();
  for (const server of [plain, isolated]) server?.close();
  rmSync(profile, { recursive: true, force: true });
});

const addressOf = (server) => `http://127.0.0.1:${server.address().port}/`;

// The page's own worker, asked as the page asks it.
async function open(url) {
  const page = await browser.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(url);
  // Not as a script of the page, whose Content-Security-Policy refuses others than its own.
  await page.evaluate(`{ ${packets}; self.encode = encode; self.decode = decode; }`);
  const loaded = await page.evaluate(() => {
    const waiting = new Map();
    const worker = new Worker(new URL("qkv-worker.js", document.baseURI));
    let next = 1;
    const start = performance.now();
    const ready = new Promise((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message));
      worker.onmessage = ({ data }) => {
        if (data.ready) return resolve(performance.now() - start);
        if (data.failed) return reject(new Error(data.failed));
        const { resolve: answer, reject: fail } = waiting.get(data.id);
        waiting.delete(data.id);
        if (data.error) fail(new Error(data.error));
        else answer(new Uint8Array(data.packet));
      };
    });
    const post = (message, transfer) => {
      const id = next++;
      const answer = new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
      worker.postMessage({ id, ...message }, transfer);
      return answer;
    };
    // Arrays come back as lists of numbers: only those that are named.
    self.ask = async (name, json, { file, wanted = [] } = {}) => {
      const data = file && new Uint8Array(file);
      const packet = encode(json, data ? { file: { dtype: "u8", shape: [data.length], data } } : {}).buffer;
      const sent = performance.now();
      const { json: answer, arrays } = decode(await post({ name, packet }, [packet]));
      const took = performance.now() - sent;
      return { json: answer, took, arrays: Object.fromEntries(wanted.map((name) => [name, [...arrays[name].data]])) };
    };
    self.addModel = async (model, files) => decode(await post({ model, files }, [])).json.model;
    return ready;
  });
  return { page, problems, loaded, ask: (...request) => page.evaluate((request) => self.ask(...request), request) };
}

const digits = join(root, "examples/digits");
const files = readdirSync(digits).filter((name) => name.endsWith(".png")).sort().map((name) => join(digits, name));
const sentences = readFileSync(join(root, "tests/web/sentences.txt"), "utf8").trim().split("\n");

async function answersAsNative({ ask, problems, loaded }, t, host) {
  const best = run(qkv, "", files), baseline = run(qkv, "", files, "baseline");
  const passes = [];
  for (let i = 0; i < files.length; ++i) {
    const { json: { image } } = await ask("image", { model: "digits" }, { file: [...readFileSync(files[i])] });
    const { json, took, arrays } = await ask("pass", { model: "digits", image, blocks: "all" }, { wanted: ["logits"] });
    const [expected, other] = [best, baseline].map(({ logits }) => rowOf(logits, i));
    const off = distance(arrays.logits, expected);
    assert.ok(off <= tolerance(expected, other), `${files[i]}: logits differ by ${off}`);
    assert.equal(json.top[0].index, expected.indexOf(Math.max(...expected)));
    passes.push(took);
  }
  const expected = translate(qkv, join(root, "models/english-italian"), sentences);
  const written = [], times = [];
  for (const text of sentences) {
    const { json, took } = await ask("translate", { model: "english-italian", text });
    written.push(json.text);
    times.push(took);
  }
  assert.deepEqual(written, expected);
  assert.deepEqual(problems, []);
  const median = (all) => all.toSorted((a, b) => a - b)[all.length >> 1].toFixed(1);
  t.diagnostic(`${host}: ready after ${loaded.toFixed(0)} ms; a digit's pass with all maps ${median(passes)} ms, a sentence ` +
               `${median(times)} ms (medians of ${passes.length} and ${times.length}), 20 digits and ${sentences.length} sentences as native`);
}

test("on a plain host", async (t) => {
  const opened = await open(addressOf(plain));
  assert.equal(await opened.page.evaluate(() => self.crossOriginIsolated), false);
  await answersAsNative(opened, t, "plain host, one thread");
  await opened.page.close();
});

test("on a host that isolates the page", { skip: !existsSync(join(web, "qkv-threads.wasm")) && "no build with threads" }, async (t) => {
  const opened = await open(addressOf(isolated));
  assert.equal(await opened.page.evaluate(() => self.crossOriginIsolated), true);
  await answersAsNative(opened, t, "isolated page, threads");
  await opened.page.close();
});

test("from disk", async (t) => {
  const opened = await open(pathToFileURL(join(web, "offline.html")).href);
  await answersAsNative(opened, t, "from disk");
  await opened.page.close();
});

test("a model of one's own, which is not sent anywhere", async () => {
  const { page, ask } = await open(addressOf(plain));
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  const folder = join(root, "models/cifar10");
  const contents = ["config.json", "model.safetensors"].map((path) => [path, readFileSync(join(folder, path)).toString("base64")]);
  const id = await page.evaluate((contents) => self.addModel("mine", contents.map(([path, text]) =>
    ({ path, bytes: Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer }))), contents);
  const { json: { models } } = await ask("models", {});
  assert.equal(models.at(-1).id, id);
  assert.equal(models.at(-1).title, "mine");
  assert.equal(models.at(-1).labels.length, 10);
  const { json: { image } } = await ask("image", { model: id }, { file: [...readFileSync(files[0])] });
  const { arrays } = await ask("pass", { model: id, image, blocks: [0] }, { wanted: ["logits"] });
  assert.equal(arrays.logits.length, 10);
  assert.deepEqual(asked, []);
  await page.close();
});

test("a JPEG, which the browser decodes", async (t) => {
  const { page, ask } = await open(addressOf(plain));
  const bytes = await page.evaluate(async () => {
    const canvas = new OffscreenCanvas(96, 64), context = canvas.getContext("2d");
    for (let i = 0; i < 24; ++i) {
      context.fillStyle = `hsl(${i * 47} 70% ${30 + i * 2}%)`;
      context.fillRect((i * 37) % 90, (i * 23) % 60, 9 + i, 31 - i);
    }
    return [...new Uint8Array(await (await canvas.convertToBlob({ type: "image/jpeg", quality: 0.8 })).arrayBuffer())];
  });
  const file = join(profile, "picture.jpg");
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
  const page = await browser.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => { if (!request.url().startsWith(addressOf(plain)) && !/^(data|blob):/.test(request.url())) problems.push(request.url()); });
  for (const url of [addressOf(plain), pathToFileURL(join(web, "offline.html")).href]) {
    await page.goto(url);
    await page.waitForSelector("text=/^Prediction$/", { timeout: 60000 });
    assert.deepEqual(problems.filter((problem) => problem !== url), []);
  }
  await page.close();
});
