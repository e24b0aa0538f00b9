// The views that the browser tests go over, and helpers to reach them.
export const kViews = [
  "attention",
  "rollout",
  "relevance",
  "similarity",
  "colours",
  "heads",
  "gauge",
  "symmetry",
  "rank",
  "knockout",
  "twins",
  "steps",
  "words",
  "planner",
];

/** The address of a view, of the built-in digits unless it names a model: a server may list others before them. */
export const ofDigits = (hash) => (/\bmodel=/.test(hash) ? hash : `${hash || "#"}${hash ? "&" : ""}model=digits`);

/** A page that remembers the errors of its console in `problems`. */
export async function newPage(browser, url, options = {}, hash = "") {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  page.problems = [];
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  page.on("pageerror", (error) => page.problems.push(String(error)));
  await page.goto(url + ofDigits(hash));
  await page.locator("main h1").first().waitFor();
  await settled(page);
  return page;
}

const kStill = 120; // milliseconds without a call: one answer leads to the next within a frame or two

/** Waits until the view has its answers. */
export async function settled(page) {
  await page.waitForFunction(
    (still) => {
      const waits =
        !document.querySelector("main h1") ||
        document.querySelector(".waiting:not(.none), .busy, .progress") ||
        Number(document.body.dataset.calls ?? 0) > 0;
      const now = performance.now();
      if (waits) window.quietSince = undefined;
      else window.quietSince ??= now;
      return !waits && now - window.quietSince >= still;
    },
    kStill,
    { polling: 30 },
  );
  await page.evaluate(() => (window.quietSince = undefined));
}

export const best = (page) => page.locator(".predictions .said b").first().innerText();
export const probability = async (page) =>
  parseFloat((await page.locator(".predictions .said span").first().innerText()).replace(" %", ""));

/** Draws a polyline, in 0 … 1 of the pad. */
export async function draw(page, points) {
  const { x, y, width, height } = await page.locator(".pad canvas").boundingBox();
  await page.mouse.move(x + width * points[0][0], y + height * points[0][1]);
  await page.mouse.down();
  for (const [px, py] of points.slice(1)) await page.mouse.move(x + width * px, y + height * py, { steps: 10 });
  await page.mouse.up();
}
export const kSeven = [
  [0.3, 0.22],
  [0.7, 0.22],
  [0.46, 0.82],
];

/** The bytes of the picture's canvas, to see whether it changed. */
export const pixels = (page, selector = ".panel .picture canvas") =>
  page
    .locator(selector)
    .first()
    .evaluate((canvas) => canvas.toDataURL());

/** Tab until the focused element matches, at most so many times. */
export async function tabTo(page, selector, most = 80) {
  for (let i = 0; i < most; ++i) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector)) return;
  }
  throw new Error(`Tab does not reach ${selector}`);
}
