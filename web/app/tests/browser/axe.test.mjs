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

// All rules once; where the same page has other colours or another width, those that depend on them.
const kRules = {
  "desktop light": undefined,
  "desktop dark": ["color-contrast"],
  "phone light": ["color-contrast", "scrollable-region-focusable", "target-size", "bypass", "landmark-unique"],
  "phone dark": ["color-contrast"],
};

async function violations(page, runOnly) {
  const { violations } = await page.evaluate(
    (rules) => window.axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) }),
    runOnly,
  );
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
      await page.evaluate(axe);
      for (const state of kStates) {
        await page.evaluate((hash) => (location.hash = hash), ofDigits(state));
        await settled(page);
        await page.evaluate(() =>
          document.querySelectorAll("details").forEach((each) => (each.open = !each.closest(".keep"))),
        );
        found.push(...(await violations(page, kRules[`${name} ${colorScheme}`])).map((each) => `${state}: ${each}`));
      }
      assert.deepEqual(found, [], found.join("\n"));
      await page.context().close();
    });
  }
}
