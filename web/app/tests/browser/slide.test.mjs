// The page of `qkv slide heatmap --page`, as C++ fills it, opened from a disk.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { open } from "../browser.mjs";

const kPage = new URL("../../dist/slide.html", import.meta.url);
const skip = existsSync(kPage) ? false : "dist/slide.html is missing: npm run build";
const kWidth = 2048,
  kHeight = 1536,
  kSide = 128,
  kColumns = kWidth / kSide,
  kRows = kHeight / kSide,
  kFinest = 11;
let at, folder, url;

before(async () => {
  at = await open();
  folder = mkdtempSync(join(tmpdir(), "qkv-slide-"));
  if (!skip) url = await fill(folder);
});
after(async () => {
  await at.close();
  rmSync(folder, { recursive: true });
});

const base64 = (array) => Buffer.from(array.buffer).toString("base64");

/** A page of a made-up slide: an ellipse of tiles whose scores grow to the right; three pictures of the top tiles. */
async function fill(folder, change = {}) {
  const page = await at.browser.newPage(),
    draw = (what) => page.evaluate(drawInPage, what);
  for (let level = 8; level <= kFinest; ++level) {
    const scale = 2 ** (kFinest - level);
    mkdirSync(join(folder, "slide_files", String(level)), { recursive: true });
    for (let y = 0; y * 256 * scale < kHeight; ++y)
      for (let x = 0; x * 256 * scale < kWidth; ++x) {
        const bytes = await draw({ kind: "tile", x: x * 256, y: y * 256, scale, width: kWidth, height: kHeight });
        writeFileSync(join(folder, `slide_files/${level}/${x}_${y}.webp`), Buffer.from(bytes, "base64"));
      }
  }
  const coords = [],
    scores = [],
    map = new Array(kColumns * kRows).fill(0);
  for (let y = 0; y < kRows; ++y)
    for (let x = 0; x < kColumns; ++x) {
      if (((x + 0.5) / kColumns - 0.5) ** 2 + ((y + 0.5) / kRows - 0.5) ** 2 > 0.2) continue;
      coords.push(x * kSide, y * kSide);
      scores.push(x + y / 100);
      map[y * kColumns + x] = 1 + Math.round((254 * x) / kColumns);
    }
  const png = await draw({ kind: "map", map, columns: kColumns, rows: kRows }),
    top = [...scores.keys()].sort((a, b) => scores[b] - scores[a]).slice(0, 20),
    picture = await draw({ kind: "tile", x: 900, y: 700, scale: 1, width: kWidth, height: kHeight });
  const facts = {
    title: "a < b.svs",
    what: "attention",
    size: [kWidth, kHeight],
    mpp: 0.5,
    pyramid: { width: kWidth, height: kHeight, downsample: 1, finest: kFinest, tile: 256 },
    side: kSide,
    grid: { x: 0, y: 0, cell: kSide, columns: kColumns, rows: kRows },
    ends: [Math.min(...scores), Math.max(...scores)],
    show: "ranked",
    opacity: 0.5,
    top: top.map((tile, i) => ({ tile, picture: i === 2 ? "" : picture })),
    answers: [
      ["tumour", 0.9],
      ["normal", 0.1],
    ],
    damaged: [{ x: 256, y: 0, width: 256, height: 256, why: "level 0: a broken tile" }],
    ...change,
  };
  await page.close();
  const elements = [
    ["application/json", "facts", JSON.stringify(facts).replaceAll("<", "\\u003c")],
    ...["raw", "ranked", "blurred"].map((kind) => ["text/plain", kind, png]),
    ["text/plain", "coords", base64(Int32Array.from(coords))],
    ["text/plain", "scores", base64(Float32Array.from(scores))],
  ];
  const data = elements.map(([type, id, text]) => `<script type="${type}" id="${id}">${text}</script>\n`).join("");
  const path = join(folder, "index.html");
  writeFileSync(
    path,
    readFileSync(kPage, "utf8").replace("<!-- data -->", () => data),
  );
  return pathToFileURL(path).href;
}

// In the browser: a picture of the slide as WebP, or a map as PNG; base64.
function drawInPage({ kind, x, y, scale, width, height, map, columns, rows }) {
  const canvas = document.createElement("canvas"),
    context = canvas.getContext("2d");
  if (kind === "map") {
    Object.assign(canvas, { width: columns, height: rows });
    const image = context.createImageData(columns, rows);
    map.forEach((value, i) => image.data.set([value, value, value, 255], 4 * i));
    context.putImageData(image, 0, 0);
    return canvas.toDataURL("image/png").split(",")[1];
  }
  canvas.width = Math.min(256, Math.ceil(width / scale) - x);
  canvas.height = Math.min(256, Math.ceil(height / scale) - y);
  context.fillStyle = "#fff";
  context.fillRect(0, 0, 256, 256);
  context.setTransform(1 / scale, 0, 0, 1 / scale, -x, -y);
  context.fillStyle = "#c27fb0";
  context.beginPath();
  context.ellipse(width / 2, height / 2, width / 2.3, height / 2.3, 0, 0, 7);
  context.fill();
  context.fillStyle = "#6a3d8f";
  for (let i = 0; i < width; i += 64)
    for (let j = 0; j < height; j += 64) {
      context.beginPath();
      context.arc(i + ((j * 7) % 40), j + ((i * 5) % 40), 6 + ((i + j) % 9), 0, 7);
      context.fill();
    }
  return canvas.toDataURL("image/webp", 0.8).split(",")[1];
}

async function openSlide(options = {}) {
  const context = await at.browser.newContext({
    viewport: { width: 1280, height: 860 },
    reducedMotion: "reduce",
    offline: true,
    ...options,
  });
  const page = await context.newPage();
  page.problems = [];
  page.pictures = [];
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("requestfailed", (request) => page.problems.push(`${request.url().slice(0, 200)} failed`));
  page.on("request", (request) => {
    const address = request.url();
    if (/^https?:/.test(address)) page.problems.push(`${address} was asked for`);
    const level = /slide_files\/(\d+)\//.exec(address);
    if (level) page.pictures.push(Number(level[1]));
  });
  await page.goto(url);
  await page.locator(".scale").waitFor();
  await still(page);
  return page;
}

/** The viewer's pixels, once they no longer change. */
async function still(page) {
  let before = "";
  for (let i = 0; i < 40; ++i) {
    const now = (await page.locator(".viewer").screenshot({ animations: "disabled" })).toString("base64");
    if (now === before) return now;
    before = now;
    await page.waitForTimeout(150);
  }
  throw new Error("the viewer does not come to rest");
}

test("shows the slide and its maps from a disk, and zooms", { skip }, async () => {
  const page = await openSlide();
  assert.equal(await page.title(), "a < b.svs");
  assert.ok(page.pictures.length > 0 && Math.max(...page.pictures) < kFinest, String(page.pictures));
  const ranked = await still(page);
  await page.getByRole("radio", { name: "Blurred" }).check();
  assert.notEqual(await still(page), ranked);
  const slider = page.getByRole("slider", { name: "Opacity" });
  await slider.fill("0");
  const bare = await still(page);
  await slider.fill("1");
  assert.notEqual(await still(page), bare);
  const scale = await page.locator(".scale").innerText();
  for (let i = 0; i < 3; ++i) await page.getByRole("button", { name: "Zoom in" }).click();
  await still(page);
  assert.equal(Math.max(...page.pictures), kFinest);
  assert.notEqual(await page.locator(".scale").innerText(), scale);
  assert.match(await page.locator(".scale").innerText(), /^\d+ µm$/);
  assert.match(await page.locator(".damaged summary").innerText(), /A part of the slide cannot be read/);
  assert.match(await page.locator(".answers").innerText(), /tumour\s+90.0 %/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("says the tile under the pointer, and goes to the highest ones", { skip }, async () => {
  const page = await openSlide();
  const { x, y, width, height } = await page.locator(".viewer").boundingBox();
  // The slide fills 0.9 of the viewer's smaller extent around its middle: tile column 8, row 6 begins there.
  await page.mouse.move(x + width / 2 + 3, y + height / 2 + 3);
  assert.match(await page.locator(".value").innerText(), /^Here: 8.06, above \d+(\.\d+)? % of tiles$/);
  await page.mouse.move(x + 4, y + height - 4);
  assert.match(await page.locator(".value").innerText(), /^Here: no tile$/);
  const first = page.locator(".strip button").first();
  await first.click();
  await still(page);
  assert.equal(await first.getAttribute("aria-pressed"), "true");
  const mark = await page.locator(".mark").boundingBox();
  assert.ok(Math.abs(mark.x + mark.width / 2 - x - width / 2) < 4 && mark.height > height / 4, JSON.stringify(mark));
  assert.equal(await page.locator(".strip .unread").count(), 1);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("works by keys", { skip }, async () => {
  const page = await openSlide();
  const canvas = page.getByRole("application");
  await canvas.focus();
  await page.keyboard.press("3");
  assert.ok(await page.getByRole("radio", { name: "Blurred" }).isChecked());
  await page.keyboard.press("]");
  assert.equal(await page.getByRole("slider").inputValue(), "0.55");
  await page.keyboard.press("n");
  await page.keyboard.press("n");
  assert.equal(await page.locator(".strip button").nth(1).getAttribute("aria-pressed"), "true");
  await page.keyboard.press("p");
  assert.equal(await page.locator(".strip button").first().getAttribute("aria-pressed"), "true");
  await still(page);
  assert.match(await page.locator(".value").innerText(), /^Centre: 1\d/);
  const near = await page.locator(".scale").innerText();
  await page.keyboard.press("0");
  await still(page);
  assert.notEqual(await page.locator(".scale").innerText(), near);
  const before = await still(page);
  await page.keyboard.press("r"); // OpenSeadragon would turn it
  assert.equal(await still(page), before);
  await page.keyboard.press("+");
  assert.notEqual(await still(page), before);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

for (const colorScheme of ["light", "dark"]) {
  for (const [name, viewport] of [
    ["desktop", { width: 1280, height: 860 }],
    ["phone", { width: 360, height: 740 }],
  ]) {
    test(`axe finds nothing: ${name}, ${colorScheme}`, { skip }, async () => {
      const page = await openSlide({ colorScheme, viewport });
      await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
      await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
      const { violations } = await page.evaluate(() => window.axe.run(document));
      assert.deepEqual(
        violations.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`),
        [],
      );
      const wide = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.ok(wide <= 0, `${wide} pixels too wide`);
      if (process.env.QKV_SHOTS) {
        await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = false)));
        await page.screenshot({
          path: join(process.env.QKV_SHOTS, `slide-${name}-${colorScheme}.png`),
          fullPage: true,
        });
      }
      await page.context().close();
    });
  }
}

test("a page away from its pictures says so", { skip }, async () => {
  const alone = mkdtempSync(join(tmpdir(), "qkv-slide-alone-"));
  writeFileSync(join(alone, "index.html"), readFileSync(join(folder, "index.html")));
  const page = await at.browser.newPage();
  await page.goto(pathToFileURL(join(alone, "index.html")).href);
  assert.match(await page.getByRole("alert").innerText(), /Keep index.html in its folder/);
  await page.close();
  rmSync(alone, { recursive: true });
});
