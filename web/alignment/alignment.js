const at = id => document.getElementById(id), L = page.layers.length, H = page.heads.length;
const T = page.rows.length, N = page.columns.length;
const bytes = atob(at("weights").textContent), weights = new Float32Array(L * H * T * N);
for (let i = 0; i < weights.length; ++i) weights[i] = (bytes.charCodeAt(2 * i) + 256 * bytes.charCodeAt(2 * i + 1)) / 65535;
const rgb = new Uint8Array(768);
for (let i = 0; i < 768; ++i) rgb[i] = parseInt(page.colours.substr(2 * i, 2), 16);

// What is shown. head: a number, "mean" or "max"; side: the line of the chosen token; pointed: a token of the other one.
let layer = L - 1, head = H > 1 ? "mean" : 0, side = "rows", chosen = 0, held = false, pointed = -1;
const last = { rows: 0, columns: 0 };  // the token that was chosen in each line
const other = () => side === "rows" ? "columns" : "rows";

// The weights of a block and head, [T, N]; of all heads together for "mean" and "max".
const fused = new Map();
function matrix(l, h) {
  const size = T * N;
  if (typeof h === "number") return weights.subarray((l * H + h) * size, (l * H + h + 1) * size);
  const key = l + h;
  if (fused.has(key)) return fused.get(key);
  const all = new Float32Array(size);
  for (let each = 0; each < H; ++each) {
    const one = matrix(l, each);
    for (let i = 0; i < size; ++i) all[i] = h === "max" ? Math.max(all[i], one[i]) : all[i] + one[i] / H;
  }
  fused.set(key, all);
  return all;
}
const greatest = values => { let most = 0; for (const x of values) if (x > most) most = x; return most; };
// Of a matrix, the brightest colour. The first token of a decoder sees nothing else: its 100 % does not count.
const brightest = values => greatest(page.part === "decoder" && T > 1 ? values.subarray(N) : values);
function paint(canvas, values) {
  canvas.width = N; canvas.height = T;
  const context = canvas.getContext("2d"), pixels = context.createImageData(N, T), most = brightest(values);
  for (let i = 0; i < T * N; ++i) {
    const c = most > 0 ? Math.min(255, Math.round(255 * values[i] / most)) : 0;
    for (let j = 0; j < 3; ++j) pixels.data[4 * i + j] = rgb[3 * c + j];
    pixels.data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
}
const percent = x => (100 * x).toFixed(x < 0.0995 ? 2 : 1) + " %";
const cross = page.part === "cross", written = page.target !== undefined;
const quoted = text => "“" + text + "”";
const headName = h => typeof h === "number" ? page.heads[h] + (isNaN(page.heads[h].slice(-1)) ? " of the heads" : "") : h + " of the heads";

// The tokens, and their small numbers.
const chips = { rows: [], columns: [] }, names = { rows: [], columns: [] };
for (const line of ["rows", "columns"]) {
  page[line].forEach((text, i) => {
    const chip = document.createElement("span"), number = document.createElement("small");
    chip.id = line + "-" + i; chip.setAttribute("role", "option"); chip.append(text, number); chip.dataset.at = i;
    at(line).append(chip); chips[line].push(chip);
    const name = document.createElement("span"); name.textContent = name.title = text; name.dataset.at = i;
    at(line === "rows" ? "side" : "top").append(name); names[line].push(name);
  });
}
const rowsName = written ? "Written" : "Looks";
at("columns-name").textContent = cross ? "Read by the encoder" : written ? "Read by the decoder, one at each step" : "Looked at";
at("rows-name").textContent = rowsName;
at("columns").setAttribute("aria-label", at("columns-name").textContent);
at("rows").setAttribute("aria-label", rowsName);

// The shares of the other line's tokens: a row's sum to 1, a column's are those of each row in it.
function shares() {
  const values = matrix(layer, head);
  return side === "rows" ? [...values.subarray(chosen * N, (chosen + 1) * N)] : [...Array(T).keys()].map(t => values[t * N + chosen]);
}
function drawLinks(values, most) {
  const box = at("lines"), svg = at("links"), frame = box.getBoundingClientRect();
  svg.replaceChildren(); svg.setAttribute("height", 0); svg.setAttribute("height", box.scrollHeight);
  const place = (chip, bottom) => { const r = chip.getBoundingClientRect();
    return [r.left + r.width / 2 - frame.left, (bottom ? r.bottom : r.top) - frame.top + box.scrollTop]; };
  values.forEach((share, i) => {
    if (share < 0.03 * most || share < 0.005) return;
    const [x1, y1] = place(side === "rows" ? chips.columns[i] : chips.columns[chosen], true);
    const [x2, y2] = place(side === "rows" ? chips.rows[chosen] : chips.rows[i], false);
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path"), bend = (y2 - y1) / 2;
    path.setAttribute("d", `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`);
    path.setAttribute("stroke-width", 1 + 4 * share / most); path.setAttribute("opacity", 0.25 + 0.6 * share / most);
    svg.append(path);
  });
}
const cell = Math.max(13, Math.min(34, Math.floor(760 / Math.max(T, N))));
function mark() {
  for (const line of ["rows", "columns"]) {
    const on = i => line === side ? i === chosen : i === pointed;
    names[line].forEach((name, i) => name.classList.toggle("on", on(i)));
  }
  const frame = at("frame").style, row = side === "rows" ? chosen : pointed, column = side === "rows" ? pointed : chosen;
  const cut = (i, count) => i < 0 ? [0, count * cell] : [i * cell, cell];
  [frame.top, frame.height] = cut(row, T).map(x => x + "px"); [frame.left, frame.width] = cut(column, N).map(x => x + "px");
}
function say(values) {
  const text = quoted(page[side][chosen]) + ", " + page.layers[layer] + ", " + headName(head);
  const best = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 3).filter(i => values[i] >= 0.005);
  const list = best.map(i => percent(values[i]) + (side === "rows" ? " to " : " from ") + quoted(page[other()][i])).join(", ");
  const one = pointed >= 0 ? percent(values[pointed]) + (side === "rows" ? " to " : " from ") + quoted(page[other()][pointed]) : "";
  at("said").textContent = text + ": " + (one || list) + (held ? ". Held: click it again, or press Enter, to let go." : "");
}
function update() {
  const values = shares(), most = greatest(values);
  for (const line of ["rows", "columns"]) {
    at(line).classList.toggle("held", held && line === side);
    at(line).setAttribute("aria-activedescendant", line === side ? chips[line][chosen].id : "");
    chips[line].forEach((chip, i) => {
      const share = line === side ? 0 : values[i];
      chip.style.setProperty("--share", most > 0 ? share / most : 0);
      chip.lastChild.textContent = line === side || share < 0.005 ? "" : percent(share);
      chip.setAttribute("aria-selected", line === side && i === chosen);
      chip.classList.toggle("pointed", line !== side && i === pointed);
    });
  }
  drawLinks(values, most); mark(); say(values);
  at("shares-name").textContent = (side === "rows" ? "Where it looks: " : "Who looks at it: ") + quoted(page[side][chosen]);
  const order = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 8);
  at("shares").replaceChildren(...order.map(i => {
    const line = document.createElement("div"), label = document.createElement("span"), bar = document.createElement("i"), number = document.createElement("span");
    label.textContent = label.title = page[other()][i]; bar.style.width = 100 * values[i] + "%"; number.textContent = percent(values[i]);
    line.append(label, bar, number); return line; }));
}
// Another block or head.
function change() {
  const values = matrix(layer, head);
  paint(at("view"), values);
  at("high").textContent = percent(brightest(values));
  at("matrix-name").textContent = page.layers[layer] + ", " + headName(head) + ": rows look at columns";
  at("view").setAttribute("aria-label", at("matrix-name").textContent);
  for (const button of at("heads").querySelectorAll("button")) {
    const now = +button.dataset.layer === layer && button.dataset.head === String(head);
    button.setAttribute("aria-pressed", now); button.tabIndex = now ? 0 : -1;
  }
  update();
}

// A grid of all blocks and heads, each a small matrix.
const columns = (H > 1 ? ["mean", "max"] : []).concat([...Array(H).keys()]), buttons = [];
at("heads").style.gridTemplateColumns = `max-content repeat(${columns.length}, max-content)`;
at("heads").style.setProperty("--thumb", Math.max(18, Math.min(56, Math.floor(400 / columns.length) - 10)) + "px");
{
  const add = (text, kind) => { const name = document.createElement("span"); name.textContent = text; name.className = kind; at("heads").append(name); };
  add("", "block");
  columns.forEach(h => add(typeof h === "number" ? page.heads[h].replace("head ", "") : h, ""));
  for (let l = 0; l < L; ++l) {
    add(page.layers[l], "block");
    buttons.push(columns.map(h => {
      const button = document.createElement("button"), canvas = document.createElement("canvas");
      button.type = "button"; button.dataset.layer = l; button.dataset.head = h; button.title = page.layers[l] + ", " + headName(h);
      button.setAttribute("aria-label", button.title); button.append(canvas); paint(canvas, matrix(l, h));
      button.onclick = () => { layer = l; head = h; change(); };
      at("heads").append(button); return button; }));
  }
}
at("heads").parentNode.hidden = at("heads-name").hidden = L * H < 2;
at("heads").addEventListener("keydown", event => {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault(); event.stopPropagation();
  const next = (buttons[layer + step[0]] || [])[columns.indexOf(head) + step[1]];
  if (next) { next.click(); next.focus(); }
});

function choose(line, i) {
  if (line === side && i === chosen) return;
  last[side] = chosen; side = line; chosen = i; pointed = -1; update();
}
// A held token stays, and the pointer reads its weights.
function point(line, i) {
  if (!held) return choose(line, i);
  const now = line === side ? -1 : i;
  if (now !== pointed) { pointed = now; update(); }
}
function press(line, i) {
  const same = line === side && i === chosen;
  held = !(held && same); side = line; chosen = i; pointed = -1; update();
}
for (const [id, line] of [["rows", "rows"], ["columns", "columns"], ["side", "rows"], ["top", "columns"]]) {
  const token = event => { const chip = event.target.closest("[data-at]"); return chip ? +chip.dataset.at : -1; };
  at(id).addEventListener("pointermove", event => { if (event.pointerType === "mouse" && token(event) >= 0) point(line, token(event)); });
  at(id).addEventListener("click", event => { if (token(event) >= 0) press(line, token(event)); });
  at(id).addEventListener("focus", () => { if (!held && line !== side) choose(line, last[line]); });
}
function cellAt(event) {
  const box = at("view").getBoundingClientRect();
  const limit = (x, count) => Math.max(0, Math.min(count - 1, Math.floor(x * count)));
  return [limit((event.clientY - box.top) / box.height, T), limit((event.clientX - box.left) / box.width, N)];
}
at("view").addEventListener("pointermove", event => {
  if (event.pointerType !== "mouse") return;
  const [row, column] = cellAt(event);
  if (held) return point(other(), side === "rows" ? column : row);
  if (side !== "rows" || chosen !== row || pointed !== column) { side = "rows"; chosen = row; pointed = column; update(); }
});
at("view").addEventListener("pointerleave", () => { if (pointed >= 0) { pointed = -1; update(); } });
at("view").addEventListener("click", event => { const [row, column] = cellAt(event); press("rows", row); if (held) { pointed = column; update(); } });

document.addEventListener("keydown", event => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const line = event.target.closest(".tokens"), button = event.target.closest("button");
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const to = { ArrowUp: "columns", ArrowDown: "rows" }[event.key];
  if (step) {
    event.preventDefault();
    // Keys read the weights of a held token, as the mouse does.
    const moving = held ? other() : side, from = held ? pointed : chosen, next = from + step;
    if (next < 0 || next >= page[moving].length) return;
    if (held) { pointed = next; update(); } else choose(moving, next);
    chips[moving][next].scrollIntoView({ block: "nearest" });
  } else if (to && line) {
    event.preventDefault(); at(to).focus();
  } else if (event.key === "Enter" && !button) {
    event.preventDefault(); held = !held; pointed = -1; update();
  } else if (event.key === "Escape" && held) {
    held = false; pointed = -1; update();
  }
});
{ const g = at("bar").getContext("2d"); for (let i = 0; i < 256; ++i) { g.fillStyle = "#" + page.colours.substr(6 * i, 6); g.fillRect(i, 0, 1, 1); } }
for (const [name, value] of [["--cell", cell + "px"], ["--letters", Math.max(10, Math.min(14, Math.floor(cell * .62))) + "px"]]) at("matrix").style.setProperty(name, value);
at("view").style.width = N * cell + "px"; at("view").style.height = T * cell + "px";
at("title").textContent = page.title;
at("sub").textContent = page.describe + ". " + (cross ? T + " tokens written from " + N + " read. " : T + " tokens. ") +
  "Point at a token of the lower line to see where it looks, at one of the upper line to see who looks at it; click to hold it.";
new ResizeObserver(() => drawLinks(shares(), greatest(shares()))).observe(at("lines"));
change();
