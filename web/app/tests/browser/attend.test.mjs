// The page of `qkv attend`, as C++ fills it: data elements before the program.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { open } from "../browser.mjs";
import { newPage, pixels } from "../pages.mjs";

const kPage = new URL("../../dist/attend.html", import.meta.url);
const skip = existsSync(kPage) ? false : "dist/attend.html is missing: npm run build";
let at, folder;
before(async () => {
  at = await open();
  folder = mkdtempSync(join(tmpdir(), "qkv-attend-"));
});
after(async () => {
  await at.close();
  rmSync(folder, { recursive: true });
});

const base64 = (array) => Buffer.from(array.buffer).toString("base64");
// A white PNG of one pixel.
const kPhoto = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==";

// A page of made-up weights: query q looks at q + l + h.
function fill(change = {}, one = false) {
  const facts = {
    title: "a < b.png",
    model: "vit",
    photo: [40, 60],
    where: [0, 10, 40, 40],
    grid: [4, 4],
    prefix: ["class"],
    query: 0,
    layers: ["block 0", "block 3"],
    heads: ["head 0", "head 1", "head 2"],
    top: [
      { index: 3, label: "cat", score: 0.9 },
      { index: 4, label: "dog", score: 0.05 },
    ],
    ...change,
  };
  const L = facts.layers.length,
    H = facts.heads.length,
    N = facts.prefix.length + 16,
    weights = new Uint8Array(L * H * N * N),
    scales = new Float32Array(L * H * N).fill(0.5);
  for (let l = 0; l < L; ++l)
    for (let h = 0; h < H; ++h)
      for (let q = 0; q < N; ++q) weights[((l * H + h) * N + q) * N + ((q + l + h) % N)] = 255;
  // A page of one query: its rows alone.
  const rowsOf = (array, width) =>
    one ? array.filter((_, i) => Math.floor(i / width) % N === Math.max(0, facts.query)) : array;
  const data = `<script type="application/json" id="facts">${JSON.stringify(facts).replaceAll("<", "\\u003c")}</script>
<script type="text/plain" id="weights">${base64(rowsOf(weights, N))}</script>
<script type="text/plain" id="scales">${base64(rowsOf(scales, 1))}</script>
<script type="text/plain" id="photo">${kPhoto}</script>
`;
  const path = join(folder, `page-${Math.abs(facts.query)}-${L}-${one}.html`);
  writeFileSync(
    path,
    readFileSync(kPage, "utf8").replace("<!-- data -->", () => data),
  );
  return pathToFileURL(path).href;
}

test("a page shows every head, follows the pointer and the keys", { skip }, async () => {
  const page = await newPage(at.browser, fill(), { offline: true });
  assert.equal(await page.title(), "Attention: a < b.png");
  assert.match(await page.locator(".predictions").innerText(), /cat\s+90.0 %/);
  assert.equal(await page.locator(".maps button").count(), 8);
  const before = await pixels(page, ".head-grid canvas");
  await page.locator(".panel .picture canvas").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator(".panel .said").first().innerText(), /patch 0,1/);
  assert.notEqual(await pixels(page, ".head-grid canvas"), before);
  await page.getByRole("button", { name: "block 3, head 2", exact: true }).click();
  // Query patch 0,1 is token 2; block 3 is row 1: it looks at token 2 + 1 + 2.
  await page.keyboard.press("Tab");
  await page.getByRole("button", { name: "all patches (mean)" }).click();
  assert.match(await page.locator(".panel .said").first().innerText(), /all patches \(mean\)/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a rollout is one map", { skip }, async () => {
  const page = await newPage(
    at.browser,
    fill({ layers: ["rollout 0-3"], heads: ["mean"], query: -1, top: undefined }),
    { offline: true },
  );
  assert.equal(await page.locator("main h1").innerText(), "Rollout of blocks 0 to 3");
  assert.equal(await page.locator(".maps").count(), 0);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("axe finds nothing, light and dark", { skip }, async () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  for (const [colorScheme, one] of [
    ["light", false],
    ["dark", false],
    ["light", true],
    ["dark", true],
  ]) {
    const page = await newPage(at.browser, fill({}, one), { colorScheme });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document));
    assert.deepEqual(
      violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`),
      [],
    );
    await page.context().close();
  }
});

test("a long file name fits a phone", { skip }, async () => {
  const path = fill({
    title: `${"holiday_at_the_sea_".repeat(6)}.jpeg`,
    model: "vit_base_patch16_224.augreg_in21k",
    query: 2,
  });
  const context = await at.browser.newContext({ viewport: { width: 360, height: 740 } });
  for (const width of [360, 1280]) {
    const page = await context.newPage();
    await page.setViewportSize({ width, height: 740 });
    await page.goto(path);
    await page.locator("main h1").waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${wide} pixels too wide at ${width}`);
    assert.ok(await page.locator("header .brand").isVisible());
  }
  await context.close();
});

test("a page of one query is zoomed into", { skip }, async () => {
  const page = await newPage(at.browser, fill({ query: 6 }, true), { offline: true });
  assert.equal(await page.locator("h1").innerText(), "Where patch 1,1 looks");
  assert.equal(await page.locator(".maps button").count(), 8);
  assert.equal(await page.getByRole("button", { name: "class token" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Release" }).count(), 0);
  const said = () => page.locator(".panel .said").first().innerText();
  assert.match(await said(), /Query: patch 1,1$/);
  const canvas = page.locator(".panel .picture canvas"),
    whole = await pixels(page, ".panel .picture canvas");
  // Block 3, head 0: token 7 is patch 1,2.
  await page.getByRole("button", { name: "block 3, head 0", exact: true }).click();
  const box = await canvas.boundingBox();
  const at12 = { x: box.width * (10 / 60 + (40 / 60) * 0.625), y: box.height * 0.375 };
  await canvas.hover({ position: at12 });
  assert.match(await said(), /patch 1,1 → patch 1,2: 50.0 %/);
  await page.mouse.wheel(0, -800); // about that patch
  await page.waitForFunction(() => /^[2-8]\.\d ×$/.test(document.querySelector(".picture .note").innerText));
  assert.notEqual(await pixels(page, ".panel .picture canvas"), whole);
  await canvas.hover({ position: { x: at12.x + 1, y: at12.y } });
  assert.match(await said(), /→ patch 1,2: 50.0 %/);
  await page.mouse.down();
  await page.mouse.move(box.x + at12.x + 150, box.y + at12.y, { steps: 4 }); // the picture follows
  await page.mouse.up();
  await canvas.hover({ position: { x: at12.x + 150, y: at12.y } });
  assert.match(await said(), /→ patch 1,2: 50.0 %/);
  await canvas.focus();
  await page.keyboard.press("0");
  assert.equal(await page.getByRole("button", { name: "Zoom out" }).isDisabled(), true);
  await page.keyboard.press("ArrowRight");
  assert.match(await said(), /→ patch 1,3/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
