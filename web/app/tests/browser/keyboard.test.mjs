// The page with the keyboard alone, and the tour.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "../browser.mjs";
import { best, newPage, pixels, settled, tabTo } from "../pages.mjs";

let at;
before(async () => (at = await open()));
after(() => at.close());
const start = (hash, options) => newPage(at.browser, at.url, options, hash);

test("arrow keys move the query, Enter holds it, Escape lets go", async () => {
  const page = await start("");
  await tabTo(page, ".panel .picture canvas");
  const before = await pixels(page, ".head-grid canvas");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await page.locator(".panel .said").first().innerText(), /patch 1,2/);
  assert.notEqual(await pixels(page, ".head-grid canvas"), before);
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator(".panel .said").first().innerText(), /Held: patch 1,2 → patch 1,3/);
  await page.keyboard.press("Escape");
  assert.match(await page.locator(".panel .said").first().innerText(), /^Query: patch 1,2/);
  await page.context().close();
});

test("a digit is drawn with keys", async () => {
  const page = await start("");
  await tabTo(page, ".choice input[type=radio]");
  await page.keyboard.press("ArrowRight");
  await tabTo(page, ".pad canvas");
  const press = async (key, times = 1) => {
    for (let i = 0; i < times; ++i) await page.keyboard.press(key);
  };
  await press("ArrowUp", 8);
  await press(" ");
  await press("ArrowDown", 17);
  await press(" ");
  await page.waitForFunction(() => document.querySelector(".predictions .said b")?.textContent === "1", null, {
    timeout: 10000,
  });
  await press("Delete");
  await settled(page);
  await page.waitForFunction(() => location.hash.includes("draw="));
  await page.context().close();
});

test("the grid of heads is one stop, and arrows move in it", async () => {
  const page = await start("");
  await tabTo(page, ".maps button");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowRight");
  await page.waitForTimeout(100);
  const focused = await page.evaluate(() => [
    document.activeElement.getAttribute("aria-label"),
    document.activeElement.getAttribute("aria-pressed"),
  ]);
  assert.match(focused[0], /head 0$/);
  assert.equal(focused[1], "true");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => !!document.activeElement.closest(".maps")), false);
  await page.context().close();
});

test("the table of heads is one stop, and arrows move in it", async () => {
  const page = await start("#view=knockout");
  await tabTo(page, ".heat button");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  const name = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  assert.match(await name(), /^block 1, head 1/);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => !!document.activeElement.closest(".heat")), false);
  await page.context().close();
});

test("a menu closes when the pointer presses elsewhere, and an item leaves the focus at it", async () => {
  const page = await start("", { acceptDownloads: true });
  await page.getByText("Keep this view").click();
  await page.mouse.click(640, 880);
  assert.equal(await page.locator(".keep details[open]").count(), 0);
  await page.getByText("Keep this view").click();
  await page.getByRole("button", { name: "SVG" }).click();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "SUMMARY");
  await page.context().close();
});

test("views are reached, and the heading takes the focus", async () => {
  const page = await start("");
  await tabTo(page, ".menu-of-views a[href='#view=heads']");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Heads as matrices" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  await page.context().close();
});

test("every stop of Tab is seen", async () => {
  for (const hash of ["", "#view=symmetry", "#view=knockout", "#view=steps&step=5", "#view=planner"]) {
    const page = await start(hash);
    for (let i = 0; i < 60; ++i) {
      await page.keyboard.press("Tab");
      const plain = await page.evaluate(() => {
        const focused = document.activeElement;
        if (!focused || focused === document.body) return "";
        const seen = focused.closest("label:has(:focus-visible)") ?? focused,
          style = getComputedStyle(seen),
          ring = getComputedStyle(focused);
        const outlined = [style, ring].some(
          (each) => each.outlineStyle !== "none" && parseFloat(each.outlineWidth) >= 1,
        );
        const box = seen.getBoundingClientRect();
        return outlined && box.width > 1 && box.height > 1 ? "" : focused.outerHTML.slice(0, 120);
      });
      assert.equal(plain, "", `${hash}: no visible focus`);
    }
    await page.context().close();
  }
});

test("the tour has five steps, works with keys and leaves the page usable", async () => {
  const page = await start("");
  await tabTo(page, ".tour-start");
  await page.keyboard.press("Enter");
  const titles = [];
  for (let step = 1; step <= 5; ++step) {
    await page.getByText(`Tour, ${step} of 5`).waitFor();
    await settled(page);
    titles.push(await page.locator(".tour h2").innerText());
    assert.equal(await page.evaluate(() => document.activeElement.id), "tour-title");
    await page.locator(".pointed-out").waitFor();
    await tabTo(page, ".tour .main", 8);
    await page.keyboard.press("Enter");
  }
  assert.equal(new Set(titles).size, 5);
  assert.equal(await page.locator(".tour").count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.className), "tour-start");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("Escape ends the tour, and the digit drawn in it stays", async () => {
  const page = await start("");
  await page.locator(".tour-start").click();
  await page.locator(".pad").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".tour").count(), 0);
  assert.ok(await best(page));
  await page.context().close();
});
