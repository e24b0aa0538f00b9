// A model of the reader's own in the page without a server: its answers are the native program's, none of its bytes leaves
// the browser, and one that cannot be opened leaves nothing behind. Run as browser.test.mjs.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { kThreads, offline, open, qkv, root, start } from "./browser.mjs";
import { distance, rowOf, run, tolerance } from "./native.mjs";

let at;
let folder; // a ViT as transformers has it
let picture;
before(async () => {
  at = await start();
  folder = join(at.folder, "my-vit");
  execFileSync(qkv, ["convert", "-m", join(root, "models/cifar10"), "-o", folder, "--layout", "timm", "--dtype", "fp16"], { stdio: "pipe" });
  picture = join(at.folder, "noise.ppm");
  const pixels = Uint8Array.from({ length: 3 * 40 * 48 }, (_, i) => (i * 7919 + (i * i) % 251) % 256);
  writeFileSync(picture, Buffer.concat([Buffer.from("P6 48 40 255\n"), pixels]));
});
after(() => at?.close());

const contents = () => readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]);

async function answersAsNative(ask, id) {
  const [best, baseline] = ["", "baseline"].map((isa) => rowOf(run(qkv, folder, [picture], isa).logits, 0));
  const { json: { image } } = await ask("image", { model: id }, { file: [...readFileSync(picture)] });
  const { arrays } = await ask("pass", { model: id, image, blocks: "all" }, { wanted: ["logits"] });
  const off = distance(arrays.logits, best);
  assert.ok(off <= tolerance(best, baseline), `logits differ by ${off}`);
}

test("a folder, with files of other programs in it", async () => {
  for (const url of [at.plain, offline, ...(kThreads ? [at.isolated] : [])]) {
    const { page, ask, add, kept, problems } = await open(at.browser, url);
    await page.waitForSelector(".predictions");  // the page has an engine of its own, which has now been fetched
    const asked = [];
    at.browser.on("request", (request) => asked.push(request.url()));
    at.seen.length = 0;
    const others = [["README.md", "a card"], ["pytorch_model.bin", "not read"], ["onnx/model.onnx", "not read"],
                    [".git/config", "hidden"], ["1_Pooling/config.json", "{}"]];
    const answer = await add("", [...contents(), ...others].map(([path, content]) => [`my-vit/${path}`, content]));
    assert.deepEqual(answer, { model: "own-1", title: "my-vit" });
    const { json: { models } } = await ask("models", {});
    assert.equal(models.at(-1).id, "own-1");
    assert.equal(models.at(-1).title, "my-vit");
    assert.equal(models.at(-1).labels.length, 10);
    await answersAsNative(ask, "own-1");
    const files = await kept();
    assert.equal(files["/models/own-1/pytorch_model.bin"], 0);
    assert.equal(files["/models/own-1/1_Pooling/config.json"], 2);
    assert.equal(files["/models/own-1/.git/config"], undefined);
    // Threads may still fetch their own script.
    assert.deepEqual([...asked, ...at.seen].filter((url) => !/^(data|blob):|\/qkv-threads(\.worker)?\.js$/.test(url)), []);
    assert.deepEqual(problems, []);
    at.browser.removeAllListeners("request");
    await page.close();
  }
});

test("through the page: a folder, files, and what cannot be opened", async () => {
  const page = await at.browser.newPage();
  const broken = join(at.folder, "broken");
  mkdirSync(broken);
  writeFileSync(join(broken, "config.json"), "{}");
  for (const [label, given, name] of [["Folder of a model", folder, "my-vit"],
                                      ["Files of a model", readdirSync(folder).map((name) => join(folder, name)), "model"]]) {
    await page.goto("about:blank");
    await page.goto(at.plain);
    await page.waitForSelector(".predictions");
    const asked = [];
    const note = (request) => asked.push(request.url());
    page.on("request", note);
    await page.getByLabel("Folder of a model").setInputFiles(broken);
    await page.getByText(/broken cannot be opened: neither/).waitFor();
    await page.getByLabel(label).setInputFiles(given);
    await page.getByText("Open, drop or paste an image to begin.").waitFor();
    await page.locator('input[type="file"][accept^="image"]').setInputFiles(picture);
    await page.waitForFunction(() => document.querySelector(".predictions")?.textContent.includes("airplane"), null, { timeout: 60000 });
    assert.ok((await page.locator("header.top").innerText()).includes(name));
    assert.deepEqual(asked.filter((url) => !/^(data|blob):/.test(url)), []);
    page.off("request", note);
  }
  await page.close();
});

test("a file of weights by any name, with its config.json and alone", async () => {
  const { page, ask, add } = await open(at.browser, at.plain);
  const [config, weights] = ["config.json", "model.safetensors"].map((name) => readFileSync(join(folder, name)));
  const { model, title } = await add("", [["sharp.safetensors", weights], ["config.json", config]]);
  assert.equal(title, "sharp");
  await answersAsNative(ask, model);
  // Alone, it says what is missing or what it takes it for.
  const { json: { models } } = await ask("models", {});
  const before = models.length;
  const outcome = await add("", [["alone.safetensors", weights]]).then(({ title }) => title, (error) => error.message);
  assert.match(outcome, /alone/);
  const after = (await ask("models", {})).json.models;
  assert.equal(after.length, before + (outcome === "alone" ? 1 : 0));
  await page.close();
});

test("what cannot be opened is an error in the engine's words, and its files are gone", async () => {
  const { page, ask, add, kept } = await open(at.browser, at.plain);
  const before = await kept();
  const [config, weights] = ["config.json", "model.safetensors"].map((name) => readFileSync(join(folder, name)));
  const deeper = JSON.parse(config);
  deeper.model_args.depth = 7;
  for (const [files, message] of [
    [[["half/config.json", config]], /^half: neither model\.safetensors nor/],
    [[["half/config.json", config], ["half/model.onnx", "x"]], /^half: .*does not read model\.onnx/],
    [[["half/config.json", config], ["half/model.safetensors", weights.subarray(0, 9000)]], /^half\/model\.safetensors: /],
    [[["half/config.json", "{"], ["half/model.safetensors", weights]], /^half\/config\.json: /],
    [[["half/config.json", JSON.stringify(deeper)], ["half/model.safetensors", weights]], /^half.*blocks\.6\./s],
    [[["half/notes.txt", "no model"]], /^half: neither/],
    [[["half/../../etc/passwd", "x"]], /half/],
    [[], /no files/],
  ]) {
    const said = await add("half", files).then(({ model }) => assert.fail(`${files.map(([path]) => path)} opens as ${model}`),
                                               (error) => error.message);
    assert.match(said, message);
    assert.ok(!said.includes("/models/own-"), said);
    assert.deepEqual(await kept(), before);
  }
  const { json: { models } } = await ask("models", {});
  assert.ok(models.every(({ id, error }) => !id.startsWith("own-") && !error));
  // The engine goes on.
  const { model } = await add("whole", contents());
  await answersAsNative(ask, model);
  await page.close();
});
