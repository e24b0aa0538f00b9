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
  text += pinned ? ". Held: click it again, or press Enter, to let go." : "";
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
// Keys work without a click into the photo, but not where a button or a slider has a use for them.
document.addEventListener("keydown", event => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const other = event.target.closest("button, input");
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (step && !(other && other.type === "range")) {
    event.preventDefault();
    const moved = pinned && pointed >= P ? pointed : query;
    let to = P;
    if (moved >= P) {
      const row = Math.floor((moved - P) / columns) + step[0], column = (moved - P) % columns + step[1];
      if (row < 0 || row >= rows || column < 0 || column >= columns) return;
      to = P + row * columns + column;
    }
    // A held patch stays, and the keys read its weights, as the mouse does.
    if (pinned) { pointed = to; draw(); say(); } else { query = to; soon(); }
  } else if (event.key === "Enter" && !other && query >= P) {
    event.preventDefault(); pinned = !pinned; pointed = -1; draw(); say();
  } else if (event.key === "Escape" && pinned) {
    pinned = false; pointed = -1; draw(); say();
  }
});
at("smooth").onchange = at("opacity").oninput = draw;
{ const g = at("bar").getContext("2d"); for (let i = 0; i < 256; ++i) { g.fillStyle = "#" + colour(i); g.fillRect(i, 0, 1, 1); } }
view.style.setProperty("--shape", page.photo[1] / page.photo[0]);
at("title").textContent = page.title;
if (page.top) {
  const percents = page.top.map(p => [p.label || "class " + p.index, percent(p.score)]);
  const name = document.createElement("b"); name.textContent = percents[0][0];
  at("top").append(name, percents[0][1], ...percents.slice(1).map(([who, share]) => {
    const other = document.createElement("span"); other.textContent = who + " " + share; return other; }));
} else at("top").hidden = true;
at("sub").textContent = page.model + ", " + rows + " × " + columns + " patches. Point at a patch to see where it looks; click it to hold it.";
photo.onload = update;
