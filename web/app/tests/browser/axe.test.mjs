// axe-core over every view: light and dark, desktop and phone.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { open } from "../browser.mjs";
import { kViews, newPage, ofDigits, settled } from "../pages.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let at;
before(async () => (at = await open()));
after(() => at.close());

async function violations(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes
        .slice(0, 3)
        .map(({ html, failureSummary }) => `${html.slice(0, 160)} | ${failureSummary.split("\n")[1] ?? ""}`)
        .join("\n    ")}`,
  );
}

const kStates = [
  ...kViews.map((view) => `view=${view}`),
  "view=steps&step=2",
  "view=steps&step=5&rule=hard",
  "view=symmetry&t=0",
  "view=knockout&heads-out=1.1&tokens-out=10",
  "view=words&model=pair",
  "tour=0&view=attention",
];
for (const colorScheme of ["light", "dark"]) {
  for (const [name, viewport] of [
    ["desktop", { width: 1280, height: 900 }],
    ["phone", { width: 360, height: 740 }],
  ]) {
    test(`${name}, ${colorScheme}`, async () => {
      const page = await newPage(at.browser, at.url, { viewport, colorScheme });
      const found = [];
      for (const state of kStates) {
        await page.evaluate((hash) => (location.hash = hash), ofDigits(state));
        await settled(page);
        await page.evaluate(() =>
          document.querySelectorAll("details").forEach((each) => (each.open = !each.closest(".keep"))),
        );
        found.push(...(await violations(page)).map((each) => `${state}: ${each}`));
      }
      assert.deepEqual(found, [], found.join("\n"));
      await page.context().close();
    });
  }
}
