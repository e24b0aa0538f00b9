// What only a server's answers show: the API key, errors, a forgotten picture. The page is the built one; its calls are
// answered here.
import assert from "node:assert/strict";
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { open } from "../browser.mjs";

const kPage = new URL("../../dist/index.html", import.meta.url);
const skip = existsSync(kPage) ? false : "dist/index.html is missing: npm run build";
let at, server, url, answer;
before(async () => {
  at = await open();
  server = createServer((request, response) => {
    if (request.method === "GET")
      return createReadStream(kPage)
        .on("open", () => response.setHeader("Content-Type", "text/html"))
        .pipe(response);
    const parts = [];
    request.on("data", (part) => parts.push(part)).on("end", () => answer(request, response, Buffer.concat(parts)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${server.address().port}/`;
});
after(async () => {
  await at.close();
  server.close();
});

function packet(json) {
  const text = Buffer.from(JSON.stringify(json)),
    bytes = Buffer.alloc(Math.ceil((4 + text.length) / 8) * 8);
  bytes.writeUInt32LE(text.length);
  text.copy(bytes, 4);
  return bytes;
}
const fail = (response, status, message, type) => {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ error: { message, type } }));
};
const kNoModels = { models: [], samples: [] };

test("a 401 asks for the key, which is sent and kept for the tab alone", { skip }, async () => {
  const keys = [];
  answer = (request, response) => {
    keys.push(request.headers.authorization ?? "");
    if (request.headers.authorization !== "Bearer right") return fail(response, 401, "no key", "authentication");
    response.end(packet(kNoModels));
  };
  const page = await at.browser.newPage();
  await page.goto(url);
  await page.getByRole("textbox", { name: "API key" }).fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("refused that key").waitFor();
  await page.getByRole("textbox", { name: "API key" }).fill("right");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("No model of pictures is open").waitFor();
  assert.deepEqual(keys, ["", "Bearer wrong", "Bearer right"]);
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await page.reload();
  await page.getByText("No model of pictures is open").waitFor();
  assert.equal(keys.at(-1), "Bearer right");
  await page.close();
});

test("the server's words are shown, and a proxy's page is not", { skip }, async () => {
  answer = (_, response) => fail(response, 503, "models: the engine is busy; try again", "busy");
  const page = await at.browser.newPage();
  await page.goto(url);
  await page.getByText("models: the engine is busy; try again").waitFor();
  answer = (_, response) => {
    response.writeHead(502, { "Content-Type": "text/html" });
    response.end("<h1>Bad gateway</h1>");
  };
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("The server answered 502").waitFor();
  answer = (_, response) => response.end(Buffer.from([255, 255, 255, 255, 1]));
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("does not fit").waitFor();
  await page.close();
});

test("a busy server is asked again after as long as it says, and nothing is shown", { skip }, async () => {
  let calls = 0;
  answer = (_, response) => {
    if (++calls < 3) {
      response.setHeader("Retry-After", "1");
      return fail(response, 429, "too many requests", "rate_limit_error");
    }
    response.end(packet(kNoModels));
  };
  const page = await at.browser.newPage();
  const started = Date.now();
  await page.goto(url);
  await page.getByText("Starting the engine").waitFor();
  await page.getByText("No model of pictures is open").waitFor();
  assert.equal(calls, 3);
  assert.ok(Date.now() - started >= 2000);
  await page.close();
});

test("a model whose files cannot be opened says so at once", { skip }, async () => {
  let calls = 0;
  answer = (_, response) => {
    ++calls;
    response.setHeader("Retry-After", "1");
    fail(response, 503, "half/model.safetensors: cannot be opened", "model_error");
  };
  const page = await at.browser.newPage();
  await page.goto(url);
  await page.getByText("half/model.safetensors: cannot be opened").waitFor();
  await page.waitForTimeout(1500);
  assert.equal(calls, 1);
  await page.close();
});

test("a page recovers by itself when the server is back", { skip }, async () => {
  answer = (request) => request.socket.destroy();
  const page = await at.browser.newPage();
  await page.goto(url);
  await page.getByText("The server does not answer").waitFor();
  answer = (_, response) => response.end(packet(kNoModels));
  await page.getByText("No model of pictures is open").waitFor();
  await page.close();
});

test("models that cannot be opened are named with the reason", { skip }, async () => {
  answer = (_, response) =>
    response.end(packet({ models: [{ id: "half", title: "half", error: "no weights in half" }], samples: [] }));
  const page = await at.browser.newPage();
  await page.goto(url);
  await page.getByText("half: no weights in half").waitFor();
  await page.close();
});

// One that takes photos, of which there is none, and translators: as qkv describes them.
const kPhotos = {
  id: "segmenter",
  title: "Segmenter",
  kind: "image",
  photo: true,
  input: [3, 32, 32],
  patch: [4, 4],
  grid: [8, 8],
  prefix: ["class"],
  labels: [],
  exact: [],
  ...{ blocks: 2, heads: 2, head_width: 8, width: 16, attention: "separate" },
};
const translator = (id) => ({ ...kPhotos, id, title: id, kind: "pair" });

test("a model that is not of qkv's own is not spoken of as those are", { skip }, async () => {
  const others = [kPhotos, { ...kPhotos, id: "other", title: "Other" }, translator("opus")];
  let models = others;
  answer = (request, response) =>
    request.url.endsWith("/models")
      ? response.end(packet({ models, samples: [] }))
      : response.end(packet({ text: "Was geschrieben wird.", rows: [], columns: [] }));
  const page = await at.browser.newPage();
  await page.goto(`${url}#view=twins`);
  await page.getByRole("heading", { name: "Twins: one picture, several models" }).waitFor();
  assert.equal(await page.getByText("the same recipe").count(), 0);
  assert.deepEqual(await page.locator(".twin h2").allInnerTexts(), ["Segmenter"]);
  await page.evaluate(() => (location.hash = "view=gauge"));
  await page.getByText("Segmenter cannot be edited so. Open a picture to see why.").waitFor();
  await page.evaluate(() => (location.hash = "view=steps&step=5"));
  await page.getByLabel("Source text").waitFor();
  await page.getByText("Was geschrieben wird.").waitFor();
  assert.equal(await page.locator(".sentences [lang]").count(), 0);
  assert.equal(await page.getByText("BLEU").count(), 0);
  models = [...others, translator("english-italian")];
  await page.reload();
  await page.getByLabel("Sentence, in English").waitFor();
  assert.equal(await page.getByLabel("Translator").inputValue(), "english-italian");
  await page.locator(".sentences [lang=it]").waitFor();
  await page.close();
});

test("where there is no picture yet, a drawn one is offered", { skip }, async () => {
  let sent = null;
  answer = (request, response, body) => {
    if (request.url.endsWith("/models")) return response.end(packet({ models: [kPhotos], samples: [] }));
    sent = body;
    fail(response, 400, "no more is needed", "invalid");
  };
  const page = await at.browser.newPage();
  await page.goto(url);
  await page.getByRole("button", { name: "Or begin with a drawn boat" }).click();
  await page.getByText("Drawn boat: no more is needed").waitFor();
  assert.ok(sent.includes("PNG"));
  await page.close();
});

test("opened from disk, the page says why there is no engine", { skip }, async () => {
  const page = await at.browser.newPage();
  await page.goto(kPage.href);
  await page.getByText("Browsers do not start the engine from a folder on disk").waitFor();
  assert.equal(await page.getByRole("link").getAttribute("href"), "offline.html");
  await page.close();
});

test("the page allows itself no more than it needs", { skip }, async () => {
  answer = (_, response) => response.end(packet(kNoModels));
  const page = await at.browser.newPage();
  await page.goto(url);
  await page.getByText("No model of pictures is open").waitFor();
  const policy = await page.locator("meta[http-equiv]").getAttribute("content");
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe-inline|'unsafe-eval'|https?:|\*/);
  await page.close();
});
