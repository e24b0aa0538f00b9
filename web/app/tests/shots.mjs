// Screenshots of every view, to be looked at: node tests/shots.mjs [name…]. QKV_URL: a running server, whose models are digits,
// base (of photos) and pair (of two towers).
import { mkdirSync } from "node:fs";
import { open } from "./browser.mjs";

const kViews = {
  base: "#model=base&q=100",
  attention: "#q=24&block=1&head=0",
  draw: "",
  rollout: "#view=rollout&q=24",
  relevance: "#view=relevance",
  similarity: "#view=similarity&q=24&block=2",
  colours: "#view=colours",
  heads: "#view=heads",
  gauge: "#view=gauge&q=24&head=1",
  symmetry: "#view=symmetry&t=-0.2&q=24&block=1&head=0",
  rank: "#view=rank&rank=3&q=24",
  knockout: "#view=knockout&heads-out=1.2+3.0&tokens-out=20+21",
  twins: "#view=twins&q=24",
  steps0: "#view=steps&q=24",
  steps2: "#view=steps&step=2&q=24",
  steps4: "#view=steps&step=4&q=24",
  translator: "#view=steps&step=5&rule=hard",
  words: "#view=words&model=pair",
  planner: "#view=planner",
  tour: "#tour=3&view=symmetry",
};
const kLooks = [
  ["desktop", { width: 1360, height: 900 }, "light", 1],
  ["phone", { width: 360, height: 740 }, "light", 2],
  ["dark", { width: 1360, height: 900 }, "dark", 1],
];
const wanted = process.argv.slice(2);
mkdirSync("tests/pictures", { recursive: true });
const { browser, url, close } = await open();
for (const [look, viewport, colorScheme, deviceScaleFactor] of kLooks) {
  const context = await browser.newContext({
    viewport,
    colorScheme,
    deviceScaleFactor,
    hasTouch: look === "phone",
    isMobile: look === "phone",
  });
  for (const [name, hash] of Object.entries(kViews)) {
    if (wanted.length && !wanted.some((each) => `${name}-${look}`.includes(each))) continue;
    const page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && console.log(name, look, message.text()));
    page.on("pageerror", (error) => console.log(name, look, String(error)));
    await page.goto(url + hash);
    await page.waitForSelector("main h1");
    if (name === "draw") {
      await page.getByRole("radio", { name: "Draw" }).check();
      const box = await page.locator(".pad canvas").boundingBox();
      await page.mouse.move(box.x + box.width * 0.35, box.y + box.height * 0.2);
      await page.mouse.down();
      for (const [x, y] of [
        [0.3, 0.5],
        [0.7, 0.5],
        [0.7, 0.2],
        [0.68, 0.85],
      ])
        await page.mouse.move(box.x + box.width * x, box.y + box.height * y, { steps: 8 });
      await page.mouse.up();
    }
    await page.waitForTimeout(1500);
    await page.screenshot({ path: `tests/pictures/${name}-${look}.png`, fullPage: true });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) console.log(`${name} ${look}: ${wide} px too wide`);
    await page.close();
  }
  await context.close();
}
await close();
