// What only a server's answers show: the API key, errors, a forgotten picture. The page is the built one; its calls are
// answered here.
import assert from "node:assert/strict";
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { decode, encode } from "../../../engine/packet.mjs";
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

const packet = (json, arrays) => Buffer.from(encode(json, arrays));
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
  ...{ blocks: 2, heads: 2, head_width: 8, directions: 8, width: 16, attention: "separate" },
  ...{ classifier: false, outputs: 4, query_bias: true, qk_norm: false, positions: ["added"], shipped: "" },
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
  // One that comes with qkv is known by what it is, not by its name.
  models = [...others, translator("english-italian"), { ...translator("en-it"), shipped: "english-italian" }];
  await page.reload();
  await page.getByLabel("Sentence, in English").waitFor();
  assert.equal(await page.getByLabel("Translator").inputValue(), "en-it");
  await page.locator(".sentences [lang=it]").waitFor();
  await page.close();
});

const f32 = (...values) => ({ dtype: "f32", shape: [values.length], data: Float32Array.from(values) });
const filled = (dtype, shape, value) => {
  const length = shape.reduce((a, b) => a * b);
  return { dtype, shape, data: (dtype === "u8" ? Uint8Array : Float32Array).from({ length }, () => value) };
};
const kPixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

// A request without arrays is JSON alone.
const jsonOf = (request, body) =>
  request.headers["content-type"].startsWith("application/json") ? JSON.parse(body) : decode(body).json;

// Answers of an engine for kPhotos, which has an embedding of four numbers: edits turn it by 60 degrees.
function answersOf(asked) {
  return (request, response, body) => {
    const name = request.url.split("/").pop(),
      json = jsonOf(request, body);
    asked.push({ name, json });
    const N = 65,
      blocks = json.blocks === "all" ? 2 : (json.blocks?.length ?? 0);
    const edited = json.edits?.length;
    const answers = {
      models: () => [{ models: [{ ...kPhotos, exact: ["symmetry", "rank", "head", "token"] }], samples: [] }],
      image: () => [
        { image: "1", photo: [32, 32], where: [0, 0, 32, 32], grid: [8, 8] },
        { png: { dtype: "u8", shape: [kPixel.length], data: Uint8Array.from(kPixel) } },
      ],
      pass: () => [
        { top: [], milliseconds: 1 },
        {
          embedding: edited ? f32(1, Math.sqrt(3), 0, 0) : f32(2, 0, 0, 0),
          attention: filled("u8", [blocks, 2, N, N], 9),
          scales: filled("f32", [blocks, 2, N], 0.1),
        },
      ],
      knockout: () => [{}, { cosine: f32(1, 0.25 + json.block / 8) }],
      heads: () => [{}, { effective_rank: { dtype: "f32", shape: [2, 2], data: Float32Array.of(7, 5, 6, 3) } }],
    };
    if (!answers[name]) return fail(response, 400, `${name} is not answered here`, "invalid");
    response.end(packet(...answers[name]()));
  };
}

test("a model without classes is shown by its embedding, never by classes", { skip }, async () => {
  const asked = [];
  answer = answersOf(asked);
  const page = await at.browser.newPage();
  await page.goto(`${url}#view=twins`);
  await page.getByRole("button", { name: "Or begin with a drawn boat" }).click();
  await page.getByText("No classifier: an embedding of 4 numbers.").waitFor();
  await page.getByText("4 numbers. This model has no classifier.").waitFor();
  assert.equal(await page.getByText(/class \d/).count(), 0);

  await page.evaluate(() => (location.hash = "view=symmetry&t=0"));
  await page.locator(".predictions .said b", { hasText: "0.500" }).waitFor();
  await page.getByRole("button", { name: "Run through the slider" }).click();
  await page.getByRole("button", { name: "Run again" }).waitFor();
  await page.getByRole("heading", { name: "Embedding along the slider" }).waitFor();
  assert.match(
    await page.locator(".plot > svg").getAttribute("aria-label"),
    /^cosine along t\. .*0\.500 at 0, .*1\.000 at 1/,
  );

  await page.evaluate(() => (location.hash = "view=knockout"));
  const cells = page.locator(".heat tbody td");
  await page.waitForFunction(() => !/…/.test(document.querySelector(".heat")?.textContent ?? "…"));
  assert.deepEqual(await cells.allInnerTexts(), ["1.0000", "0.2500", "1.0000", "0.3750"]);
  await page.getByLabel("Clicks on the picture hide patches").check();
  const { x, y, width, height } = await page.locator(".panel .picture canvas").boundingBox();
  await page.mouse.click(x + width / 2, y + height / 2);
  await page.getByText("Out: 0 heads, 1 token.").waitFor();
  await page.locator(".predictions .said b", { hasText: "0.500" }).waitFor();
  assert.equal(await page.getByText(/logit/i).count(), 0);
  assert.ok(asked.some(({ name }) => name === "knockout"));
  assert.ok(asked.every(({ json }) => !("class" in json)));

  // What it cannot show is pale in the menu, with the reason.
  for (const lack of ["Relevance no classifier", "Gauge not of this model", "Words on pictures no text tower"])
    await page.locator("a.lacking", { hasText: lack }).waitFor();
  await page.evaluate(() => (location.hash = "view=relevance"));
  await page.getByText("has no classifier, so there is no class to ask about").waitFor();
  await page.evaluate(() => (location.hash = "view=rank"));
  await page.getByText("half of this model's heads use 5.0 or fewer; the least is 3.0, the greatest 7.0").waitFor();
  await page.evaluate(() => (location.hash = "view=heads"));
  await page.getByText("and on the bias of the queries, which no number here counts").waitFor();
  await page.close();
});

test("the chosen block is asked for before the others, and what is awaited is said", { skip }, async () => {
  const asked = [];
  const others = answersOf(asked);
  let let_go = () => {};
  answer = (request, response, body) => {
    if (!request.url.endsWith("/tokens")) return others(request, response, body);
    const json = jsonOf(request, body);
    asked.push({ name: "tokens", json });
    const send = () => response.end(packet({}, { colours: filled("u8", [8, 8, 3], 9), shares: f32(0.5, 0.3, 0.1) }));
    if (json.block === 1) let_go = send;
    else send();
  };
  const page = await at.browser.newPage();
  await page.goto(`${url}#view=colours`);
  await page.getByRole("button", { name: "Or begin with a drawn boat" }).click();
  await page.getByText("Finding the components after block 1…").waitFor();
  const blocks = () => asked.filter(({ name }) => name === "tokens").map(({ json }) => json.block);
  while (!blocks().length) await page.waitForTimeout(20);
  await page.waitForTimeout(200); // in which the other block would have been asked for
  assert.deepEqual(blocks(), [1]);
  let_go();
  await page.getByText("These three directions hold").waitFor();
  assert.equal(await page.locator(".waits").count(), 0);
  await page.waitForFunction(() => document.body.dataset.calls === "0");
  assert.deepEqual(blocks(), [1, 0]);
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
