#include "cli/attend_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "qkv/image/colour_map.h"
#include "qkv/io/json.h"
#include "qkv/report/page.h"

namespace qkv::cli {
namespace {

// {{NAME}} is filled in.
constexpr std::string_view kTemplate = R"html(<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
{{POLICY}}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Attention</title>
<style>
:root { color-scheme: light dark; --ink: #1f2328; --muted: #57606a; --line: #d8dee4; --ground: #fff; --soft: #f6f8fa; --mark: #0969da }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --muted: #9198a1; --line: #30363d; --ground: #0d1117; --soft: #161b22; --mark: #4493f8 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1.25rem 3rem; max-width: 72rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
h1 { font-size: 1.35rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere }
h2 { font-size: .8rem; font-weight: 600; color: var(--muted); margin: 1.25rem 0 .4rem }
main > :last-child > h2:first-child { margin-top: 0 }
.sub { color: var(--muted); margin: .15rem 0 1rem }
main { display: grid; grid-template-columns: minmax(0, 6fr) minmax(0, 5fr); gap: 0 2rem; align-items: start }
.stage { position: sticky; top: 1rem }
#view { display: block; width: min(100%, 80vh * var(--shape)); margin: 0 auto; border-radius: 6px; cursor: crosshair; touch-action: pan-y; outline-offset: 2px }
.legend { display: flex; align-items: center; gap: .6rem; margin: .6rem 0; color: var(--muted); font-size: .85rem;
  font-variant-numeric: tabular-nums }
.legend canvas { flex: 1; height: .7rem; min-width: 4rem; border-radius: 3px }
#said { min-height: 3em }
.row { display: flex; flex-wrap: wrap; gap: .4rem .5rem; align-items: center }
.strip { display: grid; grid-template-columns: repeat(auto-fill, minmax(4rem, 1fr)); gap: .4rem }
button { font: inherit; font-size: .85rem; color: inherit; background: var(--soft); border: 1px solid var(--line); border-radius: 6px;
  padding: .2rem .6rem; cursor: pointer }
.strip button { padding: .25rem; text-align: center; font-size: .75rem; color: var(--muted); overflow: hidden }
.strip canvas { display: block; width: 100%; margin-bottom: .15rem; border-radius: 3px; image-rendering: pixelated }
button[aria-pressed=true] { border-color: var(--mark); box-shadow: 0 0 0 1px var(--mark); color: var(--ink) }
button:focus-visible, #view:focus-visible { outline: 2px solid var(--mark) }
label { display: inline-flex; align-items: center; gap: .4rem; font-size: .85rem; color: var(--muted) }
#shares div { display: grid; grid-template-columns: 8rem 1fr 4rem; gap: .6rem; align-items: center; font-size: .85rem;
  font-variant-numeric: tabular-nums }
#shares i { display: block; height: .55rem; border-radius: 3px; background: var(--mark); min-width: 1px }
#shares span:last-child { text-align: right }
@media (max-width: 46rem) { body { padding: 1rem .9rem 3rem } main { grid-template-columns: minmax(0, 1fr) }
  .stage { position: static } main > :last-child > h2:first-child { margin-top: 1.25rem } .strip { grid-template-columns: repeat(auto-fill, minmax(3.4rem, 1fr)) } }
</style>
<h1 id="title"></h1>
<p class="sub" id="sub"></p>
<main>
  <div class="stage">
    <canvas id="view" tabindex="0" aria-label="Photo with attention; arrow keys move the query"></canvas>
    <div class="legend"><span id="low">0</span><canvas id="bar" width="256" height="1"></canvas><span id="high"></span></div>
    <div id="said" aria-live="polite"></div>
    <div class="row"><label><input type="checkbox" id="smooth" checked> smooth</label>
      <label>colours <input type="range" id="opacity" min="0" max="1" step="0.05" value="0.6"></label></div>
  </div>
  <div>
    <h2>Who looks</h2><div class="row" id="tokens"></div>
    <div id="heads-part"><h2>Heads of this block</h2><div class="strip" id="heads"></div></div>
    <div id="layers-part"><h2>Blocks</h2><div class="strip" id="layers"></div></div>
    <h2>Where the attention goes</h2><div id="shares"></div>
  </div>
</main>
<script type="text/plain" id="weights">{{WEIGHTS}}</script>
<script type="text/plain" id="scales">{{SCALES}}</script>
<script>
"use strict";
const page = {{PAGE}};
const bytesOf = id => { const s = atob(document.getElementById(id).textContent), b = new Uint8Array(s.length);
  for (let i = 0; i < s.length; ++i) b[i] = s.charCodeAt(i); return b; };
const weights = bytesOf("weights"), scales = new Float32Array(bytesOf("scales").buffer);
const P = page.prefix.length, [rows, columns] = page.grid, N = P + rows * columns;
const L = page.layers.length, H = page.heads.length, at = id => document.getElementById(id);
const colour = i => page.colours.substr(6 * i, 6), rgb = new Uint8Array(768);
for (let i = 0; i < 768; ++i) rgb[i] = parseInt(page.colours.substr(2 * i, 2), 16);
const square = new Float32Array(256); for (let i = 0; i < 256; ++i) square[i] = (i / 255) ** 2;

// What is shown. query: a token, or -1 for the mean of the patches; head: a number, "mean" or "max".
let query = page.query, layer = L - 1, head = H > 1 ? "mean" : 0, pinned = false, pointed = -1;

// Adds row q of a block and head to the N values of `to`, or keeps the greater.
function gather(to, l, h, q, max) {
  const row = (l * H + h) * N + q, scale = scales[row];
  for (let k = 0, i = row * N; k < N; ++k, ++i) {
    const w = square[weights[i]] * scale;
    if (max) { if (w > to[k]) to[k] = w; } else to[k] += w;
  }
}
function attention(l, h) {
  const all = new Float32Array(N), heads = h === "mean" || h === "max" ? [...Array(H).keys()] : [h];
  const queries = query < 0 ? [...Array(N - P).keys()].map(i => i + P) : [query];
  const one = new Float32Array(N);
  for (const q of queries) {
    one.fill(0);
    for (const each of heads) gather(one, l, each, q, h === "max");
    for (let k = 0; k < N; ++k) all[k] += one[k] / (h === "mean" ? H : 1) / queries.length;
  }
  return all;
}
function range(values) {
  let low = Infinity, high = -Infinity;
  for (let k = P; k < N; ++k) { if (values[k] < low) low = values[k]; if (values[k] > high) high = values[k]; }
  return [low, high];
}
function paint(canvas, values) {
  canvas.width = columns; canvas.height = rows;
  const context = canvas.getContext("2d"), pixels = context.createImageData(columns, rows), [low, high] = range(values);
  for (let i = 0; i < rows * columns; ++i) {
    const c = high > low ? Math.round(255 * (values[P + i] - low) / (high - low)) : 0;
    for (let j = 0; j < 3; ++j) pixels.data[4 * i + j] = rgb[3 * c + j];
    pixels.data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
}
const percent = x => (100 * x).toFixed(x < 0.0995 ? 2 : 1) + " %";
function name(token) {
  if (token < 0) return "all patches (mean)";
  if (token < P) return page.prefix[token] + (page.prefix[token].startsWith("register") ? "" : " token");
  return "patch " + Math.floor((token - P) / columns) + "," + (token - P) % columns;
}

const photo = new Image(), map = document.createElement("canvas"), view = at("view");
let shown = null;
function draw() {
  const g = view.getContext("2d");
  const width = photo.naturalWidth > 450 ? photo.naturalWidth : Math.round(photo.naturalWidth * Math.ceil(450 / photo.naturalWidth));
  view.width = width; view.height = Math.round(width * page.photo[0] / page.photo[1]);
  const to = view.width / page.photo[1], [top, left, height, across] = page.where.map(x => x * to);
  g.imageSmoothingEnabled = photo.naturalWidth > 200;
  g.drawImage(photo, 0, 0, view.width, view.height);
  g.fillStyle = "rgba(0, 0, 0, .6)"; g.fillRect(0, 0, view.width, view.height);
  g.save(); g.beginPath(); g.rect(left, top, across, height); g.clip();
  g.drawImage(photo, 0, 0, view.width, view.height);
  g.globalCompositeOperation = "saturation"; g.fillStyle = "#888"; g.fillRect(left, top, across, height);
  g.globalCompositeOperation = "source-over";
  g.globalAlpha = +at("opacity").value; g.imageSmoothingEnabled = at("smooth").checked; g.imageSmoothingQuality = "high";
  g.drawImage(map, left, top, across, height);
  g.globalAlpha = 1; g.restore();
  const cell = [across / columns, height / rows];
  const frame = (token, style, line) => { if (token < P) return; const i = token - P; g.strokeStyle = style; g.lineWidth = line;
    g.strokeRect(left + i % columns * cell[0], top + Math.floor(i / columns) * cell[1], cell[0], cell[1]); };
  frame(query, "rgba(0, 0, 0, .7)", Math.max(4, view.width / 160)); frame(query, "#fff", Math.max(2, view.width / 320));
  if (pinned && pointed >= P && pointed !== query) frame(pointed, "#fff", 1);
}
function say() {
  let text = name(query) + ", " + page.layers[layer] + ", " + (H > 1 ? (typeof head === "number" ? page.heads[head] : head + " of heads") : page.heads[0]);
  if (pinned && pointed >= P) text += ": " + percent(shown[pointed]) + " to " + name(pointed);
  text += pinned ? ". Click it again to let go." : "";
  at("said").textContent = text;
}
function update() {
  shown = attention(layer, head);
  paint(map, shown); draw(); say();
  const [low, high] = range(shown);
  at("low").textContent = percent(low); at("high").textContent = percent(high);
  for (const button of document.querySelectorAll("#tokens button")) button.setAttribute("aria-pressed", +button.dataset.token === query);
  for (const button of document.querySelectorAll("#heads button")) {
    const h = isNaN(button.dataset.head) ? button.dataset.head : +button.dataset.head;
    button.setAttribute("aria-pressed", h === head); paint(button.firstChild, attention(layer, h)); }
  for (const button of document.querySelectorAll("#layers button")) {
    const l = +button.dataset.layer;
    button.setAttribute("aria-pressed", l === layer); paint(button.firstChild, attention(l, head)); }
  let patches = 0; for (let k = P; k < N; ++k) patches += shown[k];
  let all = patches; for (let k = 0; k < P; ++k) all += shown[k];
  at("shares").replaceChildren(...[...page.prefix.keys()].map(k => [name(k), shown[k]]).concat([["patches", patches]]).map(([who, share]) => {
    const line = document.createElement("div"), label = document.createElement("span"), bar = document.createElement("i"), number = document.createElement("span");
    label.textContent = who; bar.style.width = 100 * share / all + "%"; number.textContent = percent(share);
    line.append(label, bar, number); return line; }));
}
function choose(parent, text, key, value, pick, picture) {
  const button = document.createElement("button"); button.type = "button"; button.dataset[key] = value;
  if (picture) button.append(document.createElement("canvas"));
  button.append(text); button.onclick = () => { pick(); update(); }; at(parent).append(button);
}
page.prefix.forEach((_, i) => choose("tokens", name(i), "token", i, () => { query = i; pinned = false; }));
choose("tokens", "all patches (mean)", "token", -1, () => { query = -1; pinned = false; });
if (H > 1) for (const h of ["mean", "max"]) choose("heads", h, "head", h, () => head = h, true);
page.heads.forEach((text, i) => choose("heads", text, "head", i, () => head = i, true));
page.layers.forEach((text, i) => choose("layers", text, "layer", i, () => layer = i, true));
at("heads-part").hidden = H < 2; at("layers-part").hidden = L < 2;

function tokenAt(event) {
  const box = view.getBoundingClientRect(), to = page.photo[1] / box.width;
  const y = ((event.clientY - box.top) * to - page.where[0]) / page.where[2], x = ((event.clientX - box.left) * to - page.where[1]) / page.where[3];
  return y < 0 || y >= 1 || x < 0 || x >= 1 ? -1 : P + Math.floor(y * rows) * columns + Math.floor(x * columns);
}
let waiting = false;
function soon() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; update(); }); } }
view.addEventListener("pointermove", event => {
  const token = tokenAt(event);
  if (token < 0) return;
  if (pinned && event.pointerType === "mouse") { pointed = token; draw(); say(); }
  else if (token !== query) { query = token; soon(); }
});
view.addEventListener("click", event => {
  const token = tokenAt(event);
  if (token < 0) return;
  pinned = !(pinned && token === query); pointed = -1; query = token; soon();
});
view.addEventListener("keydown", event => {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  if (!step) return;
  event.preventDefault(); query = query < P ? P : Math.min(N - 1, Math.max(P, query + step)); soon();
});
at("smooth").onchange = at("opacity").oninput = draw;
{ const g = at("bar").getContext("2d"); for (let i = 0; i < 256; ++i) { g.fillStyle = "#" + colour(i); g.fillRect(i, 0, 1, 1); } }
view.style.setProperty("--shape", page.photo[1] / page.photo[0]);
document.title = "Attention: " + page.title; at("title").textContent = page.title;
at("sub").textContent = page.model + ", " + rows + " × " + columns + " patches. Point at a patch to see where it looks; click it to hold it.";
photo.onload = update; photo.src = "data:image/png;base64,{{PHOTO}}";
</script>
</html>
)html";

std::string Base64(const void* data, size_t size) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = static_cast<const uint8_t*>(data);
  std::string text;
  text.reserve((size + 2) / 3 * 4);
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = std::min<size_t>(3, size - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < left ? bytes[i + j] : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= left ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string Html(const AttendPage& page) {
  const int64_t N = page.grid.tokens(), rows = page.weights.size() / N;
  std::vector<uint8_t> bytes(static_cast<size_t>(page.weights.size()));
  std::vector<float> scales(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = page.weights.data() + row * N;
    const float greatest = *std::max_element(from, from + N);
    scales[static_cast<size_t>(row)] = greatest;
    for (int64_t k = 0; k < N; ++k) {
      const float part = greatest > 0 ? std::max(0.0f, from[k] / greatest) : 0;
      bytes[static_cast<size_t>(row * N + k)] = static_cast<uint8_t>(std::lround(255 * std::sqrt(part)));
    }
  }
  std::string colours;
  for (int i = 0; i < 256; ++i)
    colours += image::Hex(image::ColourAt(image::ColourMap::kSequential, i / 255.0)).substr(1);
  const bool token = page.query.kind == inspect::Query::Kind::kToken;
  const io::Json facts = {{"title", page.title},
                          {"model", page.model},
                          {"photo", {page.photo_height, page.photo_width}},
                          {"where", {page.where.top, page.where.left, page.where.height, page.where.width}},
                          {"grid", {page.grid.height, page.grid.width}},
                          {"prefix", page.grid.prefix},
                          {"query", token ? page.query.token : -1},
                          {"layers", page.layers},
                          {"heads", page.heads},
                          {"colours", colours}};
  std::string json = facts.dump(-1, ' ', /*ensure_ascii=*/true, io::Json::error_handler_t::replace);
  // A name must not end the script.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  std::string html;
  const std::pair<std::string_view, std::string> parts[] = {
      {"{{POLICY}}", report::PolicyTag(/*scripts=*/true)},
      {"{{WEIGHTS}}", Base64(bytes.data(), bytes.size())},
      {"{{SCALES}}", Base64(scales.data(), scales.size() * sizeof(float))},
      {"{{PAGE}}", json},
      {"{{PHOTO}}", Base64(page.photo_png.data(), page.photo_png.size())}};
  std::string_view rest = kTemplate;
  for (const auto& [name, value] : parts) {
    const size_t at = rest.find(name);
    html += rest.substr(0, at);
    html += value;
    rest.remove_prefix(at + name.size());
  }
  return html + std::string(rest);
}

}  // namespace qkv::cli
