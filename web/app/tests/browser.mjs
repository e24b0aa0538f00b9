// Chromium for the tests, and the address of the page: that of a running server (QKV_URL).
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const kChromium = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** {browser, url, close()}: end with close(). */
export async function open() {
  const url = process.env.QKV_URL;
  if (!url) throw new Error("QKV_URL is not set: the address of a running `qkv explore`");
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
    rmSync(folder, { recursive: true, force: true });
  };
  return { browser, url, close };
}
