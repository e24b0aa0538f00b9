// Chromium for the tests, and the page: that of a running server (QKV_URL), or the built page with the stand-in engine.
import { createReadStream, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const kChromium = process.env.CHROMIUM ?? "/usr/bin/chromium";

function serveMock() {
  const file = new URL("../dist-mock/index.html", import.meta.url);
  if (!existsSync(file)) throw new Error("dist-mock/index.html is missing: npm run build:mock, or set QKV_URL");
  const server = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    createReadStream(file).pipe(response);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

/** {browser, url, mock, close()}: end with close(). */
export async function open() {
  const mock = !process.env.QKV_URL;
  const server = mock ? await serveMock() : null;
  const url = process.env.QKV_URL ?? `http://127.0.0.1:${server.address().port}/`;
  const folder = mkdtempSync(join(tmpdir(), "qkv-chromium-"));
  const browser = await chromium.launch({
    executablePath: kChromium,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      `--disk-cache-dir=${folder}`,
    ],
  });
  const close = async () => {
    await browser.close();
    server?.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { browser, url, mock, close };
}
