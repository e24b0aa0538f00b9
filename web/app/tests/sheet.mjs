// Several pictures side by side as one, to look at them at once: node tests/sheet.mjs OUT.png WIDTH picture…
import { readFileSync } from "node:fs";
import { open } from "./browser.mjs";
const [out, width, ...files] = process.argv.slice(2);
process.env.QKV_URL ??= "about:blank";
const { browser, close } = await open();
const page = await browser.newPage({ viewport: { width: 1900, height: 900 } });
await page.setContent(
  `<body style="margin:0;display:flex;gap:8px;align-items:start;background:#888">${files.map((f) => `<img style="width:${width}px" src="data:image/png;base64,${readFileSync(f).toString("base64")}">`).join("")}`,
);
await page.screenshot({ path: out, fullPage: true });
await close();
