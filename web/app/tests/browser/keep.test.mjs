// Views kept as files: the HTML works offline, PNG and SVG show what was on the page.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { open } from "../browser.mjs";
import { best, draw, kSeven, newPage, pixels, settled } from "../pages.mjs";

let at, folder;
before(async () => {
  at = await open();
  folder = mkdtempSync(join(tmpdir(), "qkv-kept-"));
});
after(async () => {
  await at.close();
  rmSync(folder, { recursive: true });
});

async function keep(page, how) {
  await page.getByText("Keep this view").click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: how, exact: true }).click(),
  ]);
  const path = join(folder, download.suggestedFilename());
  await download.saveAs(path);
  return path;
}

test("an HTML file works without a network, hovering included", async () => {
  const page = await newPage(at.browser, at.url, { acceptDownloads: true });
  await page.getByRole("radio", { name: "Draw" }).check();
  await draw(page, kSeven);
  await page.waitForFunction(() => document.querySelector(".predictions .said b")?.textContent === "7");
  await page.getByRole("radio", { name: "Look" }).check();
  await settled(page);
  const path = await keep(page, "One HTML file");
  const kept = await newPage(at.browser, pathToFileURL(path).href, { offline: true });
  assert.equal(await best(kept), "7");
  const before = await pixels(kept, ".head-grid canvas");
  const { x, y, width, height } = await kept.locator(".panel .picture canvas").boundingBox();
  await kept.mouse.move(x + width * 0.5, y + height * 0.5);
  await kept.waitForTimeout(150);
  assert.notEqual(await pixels(kept, ".head-grid canvas"), before);
  assert.equal(await kept.locator(".menu-of-views").count(), 0);
  assert.deepEqual(kept.problems, []);
  // Python's model.explore keeps several views, in a frame.
  const several = readFileSync(path, "utf8").replace(/"hash":/, '"views":["attention","heads"],"hash":');
  const framed = join(folder, "framed.html");
  writeFileSync(framed, `<iframe srcdoc="${several.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}"></iframe>`);
  await kept.goto(pathToFileURL(framed).href);
  const frame = kept.frameLocator("iframe");
  await frame.locator(".head-grid canvas").waitFor();
  assert.deepEqual(await frame.locator(".menu-of-views a").allInnerTexts(), ["Attention", "Heads"]);
  assert.deepEqual(kept.problems, []);
  await kept.context().close();
  await page.context().close();
});

test("other views are kept as HTML too", async () => {
  for (const view of [
    "knockout",
    "symmetry&t=0.5",
    "steps",
    "steps&step=5&rule=hard",
    "planner",
    "heads",
    "twins",
    "colours",
  ]) {
    const page = await newPage(at.browser, at.url, { acceptDownloads: true }, `#view=${view}`);
    await page.waitForFunction(
      () => ![...document.querySelectorAll(".heat td")].some((cell) => cell.textContent === "…"),
    );
    const title = await page.locator("main h1").innerText();
    const path = await keep(page, "One HTML file");
    const kept = await newPage(at.browser, pathToFileURL(path).href, { offline: true });
    assert.equal(await kept.locator("main h1").innerText(), title);
    assert.equal(
      await kept.locator(".problem[role=alert]").count(),
      0,
      `${view}: ${await kept.locator(".problem").allInnerTexts()}`,
    );
    if (view === "knockout") {
      await kept.waitForFunction(() => document.querySelectorAll(".heat td").length > 4);
      await kept.waitForFunction(() =>
        [...document.querySelectorAll(".heat tbody td")].every((cell) => /\d/.test(cell.textContent)),
      );
    }
    if (view === "steps") {
      // Another query would need the engine: the map stays, and nothing invites to another step.
      await settled(kept);
      const map = await pixels(kept);
      const { x, y } = await kept.locator(".panel .picture canvas").boundingBox();
      await kept.mouse.move(x + 9, y + 9);
      await kept.waitForTimeout(150);
      assert.equal(await pixels(kept), map);
      assert.equal(await kept.locator(".stepper button:not(:disabled)").count(), 0);
      assert.equal(await kept.locator(".problem[role=alert]").count(), 0);
    }
    assert.deepEqual(kept.problems, [], view);
    await kept.context().close();
    await page.context().close();
  }
});

test("SVG and PNG have the view's pictures and words", async () => {
  const page = await newPage(at.browser, at.url, { acceptDownloads: true });
  const svg = readFileSync(await keep(page, "SVG"), "utf8");
  assert.match(svg, /^<svg xmlns/);
  assert.ok((svg.match(/<image /g) ?? []).length >= 3);
  assert.match(svg, /Where each patch looks/);
  assert.match(svg, /, block 3, mean of heads, query: class token</);
  assert.doesNotMatch(svg, /Keep this view|Open an image/);
  const png = readFileSync(await keep(page, "PNG"));
  assert.equal(png.subarray(1, 4).toString(), "PNG");
  assert.ok(png.readUInt32BE(16) > 1000 && png.length > 20000);
  await page.context().close();
});
