"""Charts as SVG by hand: bars in panels, lines in panels, and a roofline. Readable on a light and on a dark page."""
import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 13px } .small { font-size: 11px } .muted { fill: #57606a }
  .own { fill: #0969da } .peer { fill: #8c959f } .pale { opacity: .38 } .factor { font-weight: 600 }
  .grid { stroke: #d0d7de } .axis { stroke: #8c959f } .line { fill: none; stroke-width: 2 }
  .c0 { stroke: #0969da } .c1 { stroke: #bc4c00 } .c2 { stroke: #1a7f37 } .c3 { stroke: #8250df } .c4 { stroke: #bf3989 }
  .f0 { fill: #0969da } .f1 { fill: #bc4c00 } .f2 { fill: #1a7f37 } .f3 { fill: #8250df } .f4 { fill: #bf3989 }
"""
DARK = """
    text { fill: #e6edf3 } .muted { fill: #9198a1 }
    .own { fill: #4493f8 } .peer { fill: #6e7681 } .grid { stroke: #30363d } .axis { stroke: #6e7681 }
    .c0 { stroke: #4493f8 } .c1 { stroke: #f0883e } .c2 { stroke: #3fb950 } .c3 { stroke: #ab7df8 } .c4 { stroke: #db61a2 }
    .f0 { fill: #4493f8 } .f1 { fill: #f0883e } .f2 { fill: #3fb950 } .f3 { fill: #ab7df8 } .f4 { fill: #db61a2 }
"""


def document(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}">\n<style>{STYLE}  @media (prefers-color-scheme: dark) {{{DARK}  }}\n</style>\n'
            + "\n".join(parts) + "\n</svg>\n")  # fmt: skip


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(str(words))}</text>'


def line(x1, y1, x2, y2, kind="grid"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def number(value):
    """Three digits that count: 0.0123, 7.31, 81.2, 1465"""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


# ------------------------------------------------------------------------------------------------
# Bars


@dataclass
class Bar:
    label: str
    best: float
    median: float
    factor: str  # "1.25×"
    own: bool


PANEL, GAP, LABEL, VALUE, ROW = 470, 30, 150, 140, 19


def bar_panel(x, y, title, groups):
    """Returns (parts, the y where the panel ends). groups: [(name, [Bar])]"""
    longest = max(bar.median for _, bars_ in groups for bar in bars_)
    scale = (PANEL - LABEL - VALUE) / longest
    parts = [text(x, y + 14, title, "title")]
    y += 24
    for name, bars_ in groups:
        parts += [text(x, y + 13, name, "muted"), line(x, y + 18, x + PANEL, y + 18)]
        y += 22
        for bar in bars_:
            kind = "own" if bar.own else "peer"
            left = x + LABEL
            parts.append(text(left - 6, y + 13, bar.label, "small", "end"))
            parts.append(f'<rect x="{left}" y="{y + 3}" width="{scale * bar.best:.1f}" height="13" class="{kind}"/>')
            parts.append(f'<rect x="{left + scale * bar.best:.1f}" y="{y + 3}" '
                         f'width="{scale * (bar.median - bar.best):.1f}" height="13" class="{kind} pale"/>')  # fmt: skip
            end = left + scale * bar.median + 5
            parts.append(text(end, y + 13, f"{number(bar.best)} / {number(bar.median)}", "small"))
            parts.append(text(x + PANEL, y + 13, bar.factor, "small factor", "end"))
            y += ROW
        y += 8
    return parts, y


def bars(panels, caption):
    """SVG of panels [(title, [(group's name, [Bar])])], two beside each other, each with a scale of its own.
    `caption`: lines above them."""
    parts = [text(10, 18 + 17 * i, words, "muted") for i, words in enumerate(caption)]
    y = 17 + 17 * len(caption)
    for i in range(0, len(panels), 2):
        ends = []
        for j, (title, groups) in enumerate(panels[i : i + 2]):
            drawn, end = bar_panel(10 + j * (PANEL + GAP), y, title, groups)
            parts += drawn
            ends.append(end)
        y = max(ends) + 12
    return document(20 + PANEL + (PANEL + GAP) * (len(panels) > 1), y, parts)
