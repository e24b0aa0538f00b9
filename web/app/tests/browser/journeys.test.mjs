// The main journeys over the built page: draw, look, edit, compare, translate.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "../browser.mjs";
import { best, draw, kSeven, kViews, newPage, pixels, probability, settled } from "../pages.mjs";

let at;
before(async () => (at = await open()));
after(() => at.close());
const start = (hash, options) => newPage(at.browser, at.url, options, hash);

test("every view opens without an error and fits 360 pixels", async () => {
  for (const options of [{}, { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }]) {
    const page = await start("", options);
    for (const view of kViews) {
      await page.evaluate((name) => (location.hash = `view=${name}&model=digits`), view);
      await settled(page);
      assert.ok(await page.locator("main h1").isVisible(), view);
      assert.equal(
        await page.locator(".problem[role=alert]").count(),
        0,
        `${view}: ${await page.locator(".problem").allInnerTexts()}`,
      );
      const wide = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.ok(wide <= 0, `${view} is ${wide} pixels too wide`);
      // Nor is it wider where a class has a long name.
      const wider = await page.evaluate(() => {
        for (const option of document.querySelectorAll("main .select option"))
          option.textContent = "black-footed ferret, ferret, Mustela nigripes, ".repeat(4);
        return document.documentElement.scrollWidth - document.documentElement.clientWidth;
      });
      assert.ok(wider <= 0, `${view} with long names is ${wider} pixels too wide`);
    }
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
});

test("tables, maps and their axes fit a phone, and the tour says what is on it", async () => {
  const page = await start("#view=heads", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
  const spectra = page.locator(".wide:has(.spectra)");
  await spectra.waitFor();
  assert.ok(await spectra.evaluate((each) => each.scrollWidth <= each.clientWidth));
  await page.evaluate(() => (location.hash = "view=planner&model=digits"));
  await settled(page);
  const [map, axis] = await Promise.all(
    [".map", ".x"].map((each) => page.locator(`.break-even ${each}`).boundingBox()),
  );
  assert.equal(axis.width, map.width);
  await page.getByText("The parts of each bar").click();
  await page.getByText(/^X_q M: [\d.]+ [kM], attention: /).waitFor();
  await page.evaluate(() => (location.hash = "tour=1&q=25&block=1&head=0&model=digits"));
  await settled(page);
  await page.getByText("Drag the frame over the picture").waitFor();
  assert.equal(await page.getByText("arrow keys").isVisible(), false);
  await page.context().close();
});

test("a drawn digit is read, and its link shows it again", async () => {
  const page = await start("");
  await page.getByRole("radio", { name: "Draw" }).check();
  await draw(page, kSeven);
  await page.waitForFunction(() => document.querySelector(".predictions .said b")?.textContent === "7");
  await settled(page);
  await page.waitForFunction(() => location.hash.includes("draw="));
  await page.waitForTimeout(500); // the address follows the last stroke
  assert.ok((await page.evaluate(() => location.href)).length < 600);
  const again = await start(await page.evaluate(() => location.hash));
  assert.equal(await best(again), "7");
  await page.context().close();
  await again.context().close();
});

test("hovering redraws all maps without a call", async () => {
  const page = await start("");
  let calls = 0;
  page.on("request", () => ++calls);
  const { x, y, width, height } = await page.locator(".panel .picture canvas").boundingBox();
  const seen = new Set();
  for (const part of [0.3, 0.5, 0.7]) {
    await page.mouse.move(x + width * part, y + height * 0.5);
    await page.waitForTimeout(100);
    seen.add(await pixels(page, ".head-grid canvas"));
  }
  assert.equal(seen.size, 3);
  assert.equal(calls, 0);
  await page.context().close();
});

test("a held patch stays, and the pointer reads weights", async () => {
  const page = await start("");
  const { x, y, width, height } = await page.locator(".panel .picture canvas").boundingBox();
  await page.mouse.click(x + width * 0.5, y + height * 0.5);
  const held = await pixels(page, ".head-grid canvas");
  await page.mouse.move(x + width * 0.9, y + height * 0.1);
  await page.waitForTimeout(100);
  assert.equal(await pixels(page, ".head-grid canvas"), held);
  assert.match(await page.locator(".panel .said").first().innerText(), /Held: patch 3,3 → patch 0,6: [\d.]+ %/);
  await page.context().close();
});

test("the query is dragged again and again, held or not", async () => {
  const page = await start("");
  const { x, y, width, height } = await page.locator(".panel .picture canvas").boundingBox();
  const to = (column, row) => page.mouse.move(x + (width * (column + 0.5)) / 7, y + (height * (row + 0.5)) / 7);
  const said = () => page.locator(".panel .said").first().innerText();
  for (const row of [2, 4]) {
    await to(1, row);
    await page.mouse.down();
    await to(5, row);
    await page.mouse.up();
    assert.match(await said(), new RegExp(`^Query: patch ${row},5`));
  }
  await page.mouse.click(x + width * 0.5, y + height * 0.5);
  assert.match(await said(), /^Held: patch 3,3/);
  await page.mouse.down();
  await to(0, 0);
  await page.mouse.up();
  assert.match(await said(), /^Held: patch 0,0/);
  await page.getByRole("button", { name: "Release" }).click();
  assert.match(await said(), /^Query: patch 0,0/);
  await page.context().close();
});

test("the first edit moves nothing, and the line about it stays on a phone", async () => {
  const page = await start("#view=symmetry");
  const top = async () => (await page.locator("main h1").boundingBox()).y;
  const before = await top();
  await page.getByRole("button", { name: "Swap" }).click();
  await page.getByText("The model is edited").waitFor();
  assert.equal(await top(), before);
  await page.context().close();
  const phone = await start("#view=symmetry&t=-1", { viewport: { width: 360, height: 740 } });
  await phone.evaluate(() => scrollTo(0, 900));
  assert.ok(await phone.locator(".edited").isVisible());
  assert.equal((await phone.locator(".edited").boundingBox()).y, 0);
  assert.match(await phone.locator(".edited").innerText(), /[\d.]+ %, as trained [\d.]+ %|as trained \d [\d.]+ %/);
  await phone.context().close();
});

test("blocks and heads are chosen in the grid and by the slider", async () => {
  const page = await start("");
  await page.getByRole("button", { name: "block 1, head 2", exact: true }).click();
  assert.equal(await page.getByLabel("Block", { exact: true }).inputValue(), "1");
  await page.getByLabel("Block", { exact: true }).fill("0");
  assert.equal(
    await page.getByRole("button", { name: "block 0, head 2", exact: true }).getAttribute("aria-pressed"),
    "true",
  );
  await page.context().close();
});

test("symmetry changes maps and prediction, and is taken back", async () => {
  const page = await start("#view=symmetry");
  const trained = await probability(page),
    map = await pixels(page);
  await page.getByRole("button", { name: "Swap" }).click();
  await page.waitForFunction(
    (was) => parseFloat(document.querySelector(".predictions .said span").textContent) !== was,
    trained,
  );
  assert.notEqual(await pixels(page), map);
  await page.getByText("weight, of both").waitFor();
  // What sharing one projection forbids is that both of two patches prefer the other, not that one does.
  await page.getByText("Formula and limits").click();
  await page.getByText("of two patches at most one may score the other above itself").waitFor();
  assert.match(await page.locator(".edited").innerText(), /symmetry t = −1.00/);
  await page.locator(".edited button").click();
  await page.waitForFunction(
    (was) => parseFloat(document.querySelector(".predictions .said span").textContent) === was,
    trained,
  );
  await page.context().close();
});

test("the slider of the rank is followed while it moves", async () => {
  const page = await start("#view=rank");
  const slider = page.getByLabel("Directions kept in each head");
  for (const rank of [12, 6, 3, 1]) await slider.fill(String(rank));
  await page.getByText("rank 1", { exact: false }).first().waitFor();
  await settled(page);
  await page.waitForFunction(() => /rank=1\b/.test(location.hash));
  await page.getByRole("button", { name: "Run through the slider" }).click();
  await page.locator(".plot > svg").waitFor();
  await page.getByRole("button", { name: "Run again" }).waitFor();
  // Each curve has its name, with the dash that it has.
  const dashes = (lines) => lines.map((line) => line.getAttribute("stroke-dasharray"));
  assert.deepEqual(
    await page.locator(".plot .names polyline").evaluateAll(dashes),
    await page.locator(".plot > svg polyline").evaluateAll(dashes),
  );
  await page.context().close();
});

test("a head is knocked out and put back", async () => {
  const page = await start("#view=knockout");
  const cell = page.getByRole("button", { name: /^block 0, head 0: [+−][\d.]+/ });
  await cell.waitFor({ timeout: 20000 });
  await cell.click();
  assert.equal(await cell.getAttribute("aria-pressed"), "true");
  await page.getByRole("heading", { name: "How the logits change" }).waitFor();
  await page.getByLabel("Clicks on the picture hide patches").check();
  const { x, y, width, height } = await page.locator(".panel .picture canvas").boundingBox();
  await page.mouse.click(x + width * 0.5, y + height * 0.5);
  await page.getByText("Out: 1 head, 1 token.").waitFor();
  await page.getByRole("button", { name: "Put everything back" }).click();
  await page.getByText("The model is as trained.").waitFor();
  assert.equal(await page.locator(".edited button:disabled").count(), 1);
  await page.context().close();
});

test("a picture is opened from a file, and the link has none of it", async () => {
  const page = await start("");
  const png = await page
    .locator(".panel .picture canvas")
    .first()
    .evaluate((canvas) => canvas.toDataURL("image/png").split(",")[1]);
  await page
    .locator("input[type=file][accept]")
    .setInputFiles({ name: "mine.png", mimeType: "image/png", buffer: Buffer.from(png, "base64") });
  await page.getByText("mine.png:", { exact: false }).waitFor();
  await page.waitForTimeout(500);
  assert.doesNotMatch(await page.evaluate(() => location.hash), /mine|draw|sample/);
  await page
    .locator("input[type=file][accept]")
    .setInputFiles({ name: "broken.png", mimeType: "image/png", buffer: Buffer.from("no picture") });
  await page.locator(".problem[role=alert]", { hasText: "broken.png: " }).first().waitFor();
  await page.getByText("mine.png:", { exact: false }).waitFor();
  // The picture before stays, and another can be chosen.
  await page.locator(".panel .picture canvas").first().waitFor();
  await page.getByRole("button", { name: "Sample 3", exact: true }).click();
  await page.waitForFunction(() => !document.querySelector(".problem[role=alert]"));
  assert.equal(await best(page), "3");
  await page.context().close();
});

test("six steps lead to the translator, whose softmax can be replaced", async () => {
  const page = await start("#view=steps");
  const formulas = new Set();
  for (let step = 0; step < 5; ++step) {
    await settled(page);
    formulas.add(await page.locator(".step .formula").innerText());
    if (step === 1) await page.getByText(/^Here: (the patch itself|\d+ patches)/).waitFor();
    await page.getByRole("button", { name: "Next step" }).click();
  }
  assert.equal(formulas.size, 5);
  if (await page.getByText("No translator is open here").count()) return page.context().close();
  await page.locator(".cross").waitFor({ timeout: 20000 });
  await page.getByRole("radio", { name: "Gaussian along the diagonal" }).check();
  await page.locator(".sentences h3").nth(1).waitFor();
  await settled(page);
  const [trained, edited] = await page.locator(".sentences p").allInnerTexts();
  assert.notEqual(trained.trim(), edited.trim());
  await page.getByLabel("Sentence, in English").fill("This is a test.");
  await page.waitForFunction(() => /text=This/.test(location.hash));
  await page.context().close();
});

test("a link for another model says what it lost, and the address forgets it", async () => {
  const page = await start("#view=rank&rank=9999&heads-out=99.99+1.1&tokens-out=99999");
  await page.getByText("head 99 of block 99, token 99999, rank 9999").waitFor();
  assert.match(await page.locator(".edited").last().innerText(), /1 head out/);
  assert.equal(await page.locator(".problem[role=alert]").count(), 0);
  await page.waitForFunction(() => !/99/.test(location.hash));
  await page.getByRole("button", { name: "Dismiss" }).click();
  assert.equal(await page.getByText("Left out of the link").count(), 0);
  await page.evaluate(() => (location.hash = "view=nothing&model=nosuch"));
  await page.getByText("There is no view “nothing”").waitFor();
  await page.getByText("There is no model “nosuch” here").waitFor();
  await page.waitForFunction(() => !/nothing|nosuch/.test(location.hash));
  await page.context().close();
});

test("a blank pad has no prediction", async () => {
  const page = await start("");
  await page.getByRole("radio", { name: "Draw" }).check();
  await page.getByText("Nothing drawn yet").waitFor();
  await draw(page, kSeven);
  await page.waitForFunction(() => document.querySelector(".predictions .said b")?.textContent === "7");
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByText("Nothing drawn yet").waitFor();
  await page.context().close();
});

test("whatever is dropped is answered: a picture, a model, neither", async () => {
  const page = await start("");
  const drop = (...files) =>
    page.evaluate((all) => {
      const data = new DataTransfer();
      for (const [name, type] of all) data.items.add(new File(["?"], name, { type }));
      dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }, files);
  await drop(["vit.safetensors", ""], ["config.json", "application/json"]);
  await page.getByText("vit is a model, which is opened when the explorer starts: qkv explore -m FOLDER").waitFor();
  await drop(["a.txt", "text/plain"], ["b.txt", "text/plain"]);
  await page.getByText("Neither a picture nor a model: a.txt, b.txt.").waitFor();
  // Of a single file the engine says what it is not.
  await drop(["photo.heic", ""]);
  await page.locator(".problem[role=alert]").first().waitFor();
  await page.context().close();
});

test("Back leads to the view before", async () => {
  const page = await start("");
  await page.getByRole("link", { name: "Rollout" }).click();
  await page.waitForFunction(() => location.hash.includes("rollout"));
  await page.goBack();
  await page.getByRole("heading", { name: "Where each patch looks" }).waitFor();
  await page.context().close();
});
