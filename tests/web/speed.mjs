// How long the page without a server takes, in headless Chromium, beside the native engine on one thread: what docs/web.md
// has. Run as browser.test.mjs: node tests/web/speed.mjs [times]
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { decode, encode } from "../../web/engine/packet.mjs";
import { kThreads, offline, open, pictures, qkv, root, start } from "./browser.mjs";

const kTimes = Number(process.argv[2] ?? 50);
const kText = "This package contains the documentation.";
const kPhoto = process.env.QKV_OWN; // a model's folder, to be timed too: config.json and model.safetensors

const p = (times, share) => [...times].sort((a, b) => a - b)[Math.floor(share * (times.length - 1))];
const show = (times) => `${p(times, 0.5).toFixed(1)} / ${p(times, 0.9).toFixed(1)}`;

// The native engine, by the server's calls: `milliseconds` of an answer is the engine's own, without HTTP.
async function native() {
  const models = ["-m", `cifar10=${join(root, "models/cifar10")}`, ...(kPhoto ? ["-m", `own=${kPhoto}`] : [])];
  const server = spawn(qkv, ["explore", "--no-browser", "--port", "0", "--threads", "1", ...models], { stdio: ["ignore", "pipe", "ignore"] });
  const url = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data).trim())));
  const ask = async (name, json, file) => {
    const data = file && new Uint8Array(readFileSync(file));
    const body = encode(json, data ? { file: { dtype: "u8", shape: [data.length], data } } : {});
    const answer = await fetch(new URL(`/explore/${name}`, url), { method: "POST", body, headers: { "Content-Type": "application/octet-stream" } });
    return decode(new Uint8Array(await answer.arrayBuffer())).json;
  };
  return { ask, close: () => server.kill() };
}

// Engine's milliseconds of passes and of translations; `ask` as the native one's.
async function engineTimes(ask, own) {
  const times = {};
  for (const [name, model] of [["digits", "digits"], ["cifar10", "cifar10"], ["own", own]]) {
    if (!model) continue;
    const { image } = await ask("image", { model }, pictures[0]);
    times[name] = [];
    for (let i = 0; i < (name === "own" ? Math.ceil(kTimes / 5) : kTimes); ++i) {
      times[name].push((await ask("pass", { model, image, blocks: name === "own" ? [0] : "all" })).milliseconds);
    }
    times[name].shift();
  }
  times.sentence = [];
  for (let i = 0; i < kTimes; ++i) times.sentence.push((await ask("translate", { model: "english-italian", text: kText })).milliseconds);
  times.sentence.shift();
  return times;
}

// From a pointer's move on the pad to the frame that shows the prediction after it.
async function strokes(browser, url) {
  const page = await browser.newPage();
  await page.goto(url);
  await page.getByRole("radio", { name: "Draw" }).check();
  await page.waitForSelector(".predictions");
  await page.evaluate(() => {
    let moved = 0;
    self.took = [];
    addEventListener("pointermove", () => (moved ||= performance.now()), true);
    new MutationObserver(() => {
      const from = moved;
      moved = 0;
      if (from) requestAnimationFrame(() => setTimeout(() => self.took.push(performance.now() - from)));
    }).observe(document.querySelector(".predictions"), { subtree: true, childList: true, attributes: true, characterData: true });
  });
  const box = await page.locator(".pad canvas").first().boundingBox();
  const at = (i) => [box.x + box.width * (0.5 + 0.3 * Math.cos(i / 4)), box.y + box.height * (0.5 + 0.35 * Math.sin(i / 4) * Math.cos(i / 40))];
  await page.mouse.move(...at(0));
  await page.mouse.down();
  for (let i = 1; i <= kTimes; ++i) {
    const before = await page.evaluate(() => self.took.length);
    await page.mouse.move(...at(i));
    await page.waitForFunction((before) => self.took.length > before, before, { timeout: 2000, polling: 10 }).catch(() => {});
    await page.waitForTimeout(60); // later answers of the same move
  }
  await page.mouse.up();
  const took = await page.evaluate(() => self.took);
  await page.close();
  return took.slice(3);
}

const at = await start();
const server = await native();
const ownFiles = kPhoto && ["config.json", "model.safetensors"].map((name) => [name, readFileSync(join(kPhoto, name))]);
try {
  const one = await engineTimes(server.ask, kPhoto && "own");
  console.log(`medians and 90 % of ${kTimes}, in milliseconds`);
  for (const [name, times] of Object.entries(one)) console.log(`native, 1 thread: ${name}: ${show(times)}`);
  for (const [host, url] of [["1 thread", at.plain], ["threads", kThreads && at.isolated], ["from disk", offline]]) {
    if (!url) continue;
    const { page, ask, add, loaded } = await open(at.browser, url);
    const own = ownFiles && (await add("own", ownFiles)).model;
    const times = await engineTimes(async (name, json, file) => (await ask(name, json, file ? { file: [...readFileSync(file)] } : {})).json, own);
    await page.close();
    console.log(`browser, ${host}: ready after ${loaded.toFixed(0)}`);
    for (const [name, mine] of Object.entries(times)) {
      console.log(`browser, ${host}: ${name}: ${show(mine)}, ${(p(mine, 0.5) / p(one[name], 0.5)).toFixed(2)} of native`);
    }
    console.log(`browser, ${host}: stroke to prediction: ${show(await strokes(at.browser, url))}`);
  }
} finally {
  server.close();
  await at.close();
}
