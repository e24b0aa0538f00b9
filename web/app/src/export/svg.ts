// What a view shows as SVG, read from the page as it is laid out: canvases become images, texts stay texts, inner SVG stays
// vector. Controls are left out.

const kSkip =
  "button:not(.tile, .maps *, .heat *, .cross *, .bars *, .spectra *), [data-not-kept], input, select, textarea, dialog, .sources, .controls, .display, .tokens, .keys, .choice, .stepper, .sentence, .hidden, datalist, .explain, .toggle, .select, .ends, .row:not(.cross-heads > .row), p:has(> button:not([data-not-kept]))";
const kPadding = 16,
  kCaption = 24; // of the line at the end

const escape = (text: string) =>
  text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
const round = (x: number) => +x.toFixed(2);
const clear = (colour: string) => colour === "transparent" || /rgba\(.*, 0\)$/.test(colour) || /\/ 0\)$/.test(colour);

interface Origin {
  x: number;
  y: number;
}

function box(element: Element, style: CSSStyleDeclaration, { x, y }: Origin): string {
  const at = element.getBoundingClientRect();
  if (at.width < 0.5 || at.height < 0.5) return "";
  const opacity = style.opacity === "1" ? "" : ` opacity="${style.opacity}"`;
  // The focus is no part of the view, but what is chosen is.
  const outlined =
    style.outlineStyle === "solid" && element !== document.activeElement ? parseFloat(style.outlineWidth) : 0;
  const border = parseFloat(style.borderTopWidth),
    even = border > 0 && style.borderTopStyle !== "none" && parseFloat(style.borderLeftWidth) > 0;
  const fill = clear(style.backgroundColor) ? "none" : style.backgroundColor;
  let out = "";
  if (fill !== "none" || even) {
    out += `<rect x="${round(at.left - x)}" y="${round(at.top - y)}" width="${round(at.width)}" height="${round(at.height)}" rx="${round(Math.min(parseFloat(style.borderTopLeftRadius) || 0, at.height / 2))}" fill="${fill}"${even ? ` stroke="${style.borderTopColor}" stroke-width="${border}"` : ""}${opacity}/>`;
  }
  // Of the maps, the chosen one has a shadow for an outline.
  if (element.matches(".maps [aria-pressed=true]")) {
    out += `<rect x="${round(at.left - x)}" y="${round(at.top - y)}" width="${round(at.width)}" height="${round(at.height)}" rx="3" fill="none" stroke="${getComputedStyle(document.body).getPropertyValue("--mark")}" stroke-width="2.5"/>`;
  }
  if (outlined > 0) {
    out += `<rect x="${round(at.left - x)}" y="${round(at.top - y)}" width="${round(at.width)}" height="${round(at.height)}" rx="4" fill="none" stroke="${style.outlineColor}" stroke-width="${outlined}"/>`;
  }
  if (!even && parseFloat(style.borderBottomWidth) > 0 && style.borderBottomStyle !== "none") {
    out += `<line x1="${round(at.left - x)}" x2="${round(at.right - x)}" y1="${round(at.bottom - y)}" y2="${round(at.bottom - y)}" stroke="${style.borderBottomColor}"/>`;
  }
  return out;
}

// Lines of a text node, by the places of its words.
function texts(node: Text, style: CSSStyleDeclaration, { x, y }: Origin): string {
  const content = node.data,
    range = document.createRange(),
    lines: { text: string; left: number; bottom: number; top: number }[] = [];
  for (const match of content.matchAll(/\S+/g)) {
    range.setStart(node, match.index);
    range.setEnd(node, match.index + match[0].length);
    const at = range.getBoundingClientRect();
    if (!at.width) continue;
    const last = lines.at(-1);
    if (last && Math.abs(last.top - at.top) < 2) last.text += ` ${match[0]}`;
    else lines.push({ text: match[0], left: at.left, top: at.top, bottom: at.bottom });
  }
  const size = parseFloat(style.fontSize);
  let attributes = `font-size="${round(size)}" fill="${style.color}"`;
  if (Number(style.fontWeight) > 500) attributes += ' font-weight="600"';
  if (style.fontStyle === "italic") attributes += ' font-style="italic"';
  if (style.textDecorationLine === "line-through") attributes += ' text-decoration="line-through"';
  if (style.fontFamily !== getComputedStyle(document.body).fontFamily) {
    attributes += ` font-family="${escape(style.fontFamily)}"`;
  }
  if (style.writingMode.startsWith("vertical")) {
    // Turned to be read from below, as the names of columns are.
    range.selectNodeContents(node);
    const at = range.getBoundingClientRect();
    if (!at.height) return "";
    const place = `${round((at.left + at.right) / 2 + 0.34 * size - x)} ${round(at.bottom - y)}`;
    return `<text transform="translate(${place}) rotate(-90)" ${attributes}>${escape(content.trim())}</text>`;
  }
  return lines
    .map(({ text, left, top, bottom }) => {
      const baseline = (top + bottom) / 2 + 0.34 * size;
      return `<text x="${round(left - x)}" y="${round(baseline - y)}" ${attributes}>${escape(text)}</text>`;
    })
    .join("");
}

function vector(element: SVGSVGElement, { x, y }: Origin): string {
  const at = element.getBoundingClientRect(),
    copy = element.cloneNode(true) as SVGSVGElement;
  const from = [element, ...element.querySelectorAll("*")],
    to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((each, i) => {
    const style = getComputedStyle(each);
    for (const name of ["fill", "stroke", "stroke-width", "font-size", "opacity", "fill-opacity"])
      to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  copy.setAttribute("x", String(round(at.left - x)));
  copy.setAttribute("y", String(round(at.top - y)));
  copy.setAttribute("width", String(round(at.width)));
  copy.setAttribute("height", String(round(at.height)));
  return new XMLSerializer().serializeToString(copy);
}

function walk(element: Element, origin: Origin): string {
  if (element.matches(kSkip)) return "";
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility === "hidden") return "";
  if (element instanceof HTMLCanvasElement) {
    const at = element.getBoundingClientRect();
    if (!at.width || !element.width) return "";
    const pixels =
      element.classList.contains("pixels") || style.imageRendering === "pixelated"
        ? ' image-rendering="pixelated"'
        : "";
    return `<image x="${round(at.left - origin.x)}" y="${round(at.top - origin.y)}" width="${round(at.width)}" height="${round(at.height)}" preserveAspectRatio="none"${pixels} href="${element.toDataURL("image/png")}"/>`;
  }
  if (element instanceof SVGSVGElement) return vector(element, origin);
  let out = box(element, style, origin);
  for (const child of element.childNodes) {
    if (child instanceof Text) out += texts(child, style, origin);
    else if (child instanceof Element) out += walk(child, origin);
  }
  return out;
}

/** The shown view as an SVG document, and its size in CSS pixels. */
export function viewAsSvg(root: Element, title: string): { svg: string; width: number; height: number } {
  // Controls leave no gap: they are gone while the places are measured, which no frame shows.
  const gone = [...root.querySelectorAll<HTMLElement>(kSkip)];
  for (const each of gone) each.style.setProperty("display", "none", "important");
  try {
    return measured(root, title);
  } finally {
    for (const each of gone) each.style.removeProperty("display");
  }
}

function measured(root: Element, title: string): { svg: string; width: number; height: number } {
  const at = root.getBoundingClientRect(),
    origin = { x: at.left - kPadding, y: at.top - kPadding };
  const body = walk(root, origin),
    ground = getComputedStyle(document.body);
  // Left-out controls leave room at the end.
  const bottom = Math.max(
    ...[...root.querySelectorAll("canvas, p, table, svg, h1, h2, li")]
      .filter((each) => !each.closest(kSkip))
      .map((each) => each.getBoundingClientRect().bottom),
  );
  const width = Math.ceil(at.width + 2 * kPadding),
    caption = (root.getAttribute("data-figure") ?? "").replace(/^true$/, ""),
    height = Math.ceil(bottom - at.top + 2 * kPadding) + (caption ? kCaption : 0);
  const said = caption
    ? `<text x="${kPadding}" y="${height - kPadding}" font-size="12" fill="${ground.color}" opacity="0.75">${escape(caption)}</text>`
    : "";
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${escape(ground.fontFamily)}"><title>${escape(title)}</title><rect width="100%" height="100%" fill="${ground.backgroundColor}"/>${body}${said}</svg>`;
  return { svg, width, height };
}
