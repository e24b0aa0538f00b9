// Headless Chromium and the folder that `make web` wrote, served by a plain host, by one that isolates the page, and from
// disk: what the tests of this folder share. QKV names the native program, QKV_WEB the folder; playwright-core is that of
// web/app (npm ci there), or lies in QKV_PLAYWRIGHT.
import { createReadStream, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, extname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
export const qkv = process.env.QKV ?? join(root, "build/release/qkv");
export const web = resolve(process.env.QKV_WEB ?? join(root, "build/web"));
export const kThreads = existsSync(join(web, "qkv-threads.wasm"));
export const offline = pathToFileURL(join(web, "offline.html")).href;
export const onDisk = pathToFileURL(join(web, "index.html")).href;

const digits = join(root, "examples/digits");
export const pictures = readdirSync(digits).filter((name) => name.endsWith(".png")).sort().map((name) => join(digits, name));
export const sentences = readFileSync(join(root, "tests/web/sentences.txt"), "utf8").trim().split("\n");

const { chromium } = createRequire(process.env.QKV_PLAYWRIGHT ?? join(root, "web/app/package.json"))("playwright-core");
const packets = readFileSync(join(root, "web/engine/packet.mjs"), "utf8").replace(/^export /gm, "");
const types = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm", ".json": "application/json" };

function serve(headers, seen) {
  const server = createServer((request, response) => {
    seen.push(request.url);
    const path = join(web, decodeURIComponent(new URL(request.url, "http://x").pathname).replace(/\/$/, "/index.html"));
    if (!path.startsWith(web) || !existsSync(path) || !statSync(path).isFile()) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": types[extname(path)] ?? "application/octet-stream", ...headers });
    createReadStream(path).pipe(response);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

const addressOf = (server) => `http://127.0.0.1:${server.address().port}/`;

/** {browser, folder, plain, isolated, seen, close()}: addresses of both hosts, and what they were asked for. */
export async function start() {
  const folder = mkdtempSync(join(tmpdir(), "qkv-web-"));
  const seen = [];
  const servers = [await serve({}, seen), await serve({ "Cross-Origin-Opener-Policy": "same-origin",
                                                         "Cross-Origin-Embedder-Policy": "require-corp" }, seen)];
  const browser = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync"],
  });
  const close = async () => {
    await browser.close();
    for (const server of servers) server.close(), server.closeAllConnections();
    rmSync(folder, { recursive: true, force: true });
  };
  return { browser, folder, plain: addressOf(servers[0]), isolated: addressOf(servers[1]), seen, close };
}

/** The page's own worker, asked as the page asks it. */
export async function open(browser, url) {
  const page = await browser.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(url);
  // Not as a script of the page, whose Content-Security-Policy refuses others than its own.
  await page.evaluate(`{ ${packets}; self.encode = encode; self.decode = decode; }`);
  const loaded = await page.evaluate(() => {
    const waiting = new Map();
    const worker = new Worker(new URL("qkv-worker.js", document.baseURI));
    let next = 1;
    const start = performance.now();
    const ready = new Promise((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message));
      worker.onmessage = ({ data }) => {
        if (data.ready) return resolve(performance.now() - start);
        if (data.failed) return reject(new Error(data.failed));
        const { resolve: answer, reject: fail } = waiting.get(data.id);
        waiting.delete(data.id);
        if (data.error) fail(new Error(data.error));
        else answer(new Uint8Array(data.packet));
      };
    });
    const post = (message, transfer) => {
      const id = next++;
      const answer = new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
      worker.postMessage({ id, ...message }, transfer);
      return answer;
    };
    // Arrays come back as lists of numbers: only those that are named.
    self.ask = async (name, json, { file, wanted = [] } = {}) => {
      const data = file && new Uint8Array(file);
      const packet = encode(json, data ? { file: { dtype: "u8", shape: [data.length], data } } : {}).buffer;
      const sent = performance.now();
      const { json: answer, arrays } = decode(await post({ name, packet }, [packet]));
      const took = performance.now() - sent;
      return { json: answer, took, arrays: Object.fromEntries(wanted.map((name) => [name, [...arrays[name].data]])) };
    };
    self.addModel = async (model, files) => decode(await post({ model, files }, [])).json;
    return ready;
  });
  const ask = (...request) => page.evaluate((request) => self.ask(...request), request);
  // files: [path in the model's folder, content]. The error's message comes back as it is, without the browser's stack.
  const add = async (name, files) => {
    const answer = await page.evaluate(
      ({ name, files }) => self.addModel(name, files.map(([path, text]) => ({
        path, bytes: Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer,
      }))).catch((error) => ({ failed: error.message })),
      { name, files: files.map(([path, content]) => [path, Buffer.from(content).toString("base64")]) });
    if (answer.failed) throw new Error(answer.failed);
    return answer;
  };
  // Paths and sizes in the module's folder of models.
  // The threads' own workers wait for work, and answer nothing.
  const engine = () => page.workers().filter((worker) => !worker.url().includes("qkv-threads")).at(-1);
  const kept = () => engine().evaluate(`(() => {
    const found = {};
    const look = (path) => {
      for (const name of module.FS.readdir(path)) {
        if (name === "." || name === "..") continue;
        const { mode, size } = module.FS.stat(path + "/" + name);
        if (module.FS.isDir(mode)) look(path + "/" + name);
        else found[path + "/" + name] = size;
      }
    };
    look("/models");
    return found;
  })()`);
  return { page, problems, loaded, ask, add, kept };
}
