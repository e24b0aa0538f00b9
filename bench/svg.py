"""SVG charts without a library: bar panels, ratios, line panels, and a roofline, for light and dark pages."""

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
    """Three significant digits: 0.0123, 7.31, 81.2, 1465"""
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


PANEL, GAP, LABEL, VALUE, ROW = 500, 30, 180, 140, 19


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
    """SVG of panels [(title, [(group's name, [Bar])])], two in a row, each with its own scale. `caption`: lines above
    them."""
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


# ------------------------------------------------------------------------------------------------
# Ratios


def ratios(groups, caption):
    """SVG of groups {name: [(label, ratio by best, ratio by median)]}: two bars a row, and a line at 1."""
    label, width, row = 190, 360, 24
    greatest = max(max(best, median) for rows in groups.values() for _, best, median in rows)
    x = Axis(0, greatest * 1.02, 10 + label, width)
    top = 22 + 17 * len(caption)
    height = sum(28 + row * len(rows) for rows in groups.values())
    parts = [text(10, 18 + 17 * i, words, "muted") for i, words in enumerate(caption)]
    for i, (kind, words) in enumerate((("own", "by best time"), ("own pale", "by median time"))):
        parts += [f'<rect x="{10 + 120 * i}" y="{top - 4}" width="14" height="9" class="{kind}"/>',
                  text(30 + 120 * i, top + 5, words, "small")]  # fmt: skip
    top += 24
    for tick in x.ticks():
        parts += [line(x(tick), top, x(tick), top + height, "axis" if tick == 1 else "grid"),
                  text(x(tick), top + height + 15, f"{tick:g}×", "small", "middle")]  # fmt: skip
    y = top
    for name, rows in groups.items():
        parts.append(text(10, y + 18, name, "title"))
        y += 26
        for words, best, median in rows:
            parts.append(text(x(0) - 6, y + 14, words, "small", "end"))
            for offset, value, kind in ((2, best, "own"), (11, median, "own pale")):
                parts.append(f'<rect x="{x(0)}" y="{y + offset}" width="{x(value) - x(0):.1f}" height="9" class="{kind}"/>')
            parts.append(text(x(0) + width + 12, y + 15, f"{best:.2f} / {median:.2f}", "small factor"))
            y += row
        y += 2
    return document(20 + label + width + 90, top + height + 24, parts)


# ------------------------------------------------------------------------------------------------
# Lines


@dataclass
class Line:
    label: str
    points: list  # [(x, y)], ascending in x


PLOT_W, PLOT_H = 290, 200


class Axis:
    """Maps values to pixels, on a linear or a logarithmic scale, and gives the places of grid lines."""

    def __init__(self, low, high, start, length, log=False):
        self.low, self.high, self.start, self.length, self.log = low, high, start, length, log

    def __call__(self, value):
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * self.length

    def ticks(self):
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            ticks = [s * 10.0**k for k in range(first, last + 1) for s in (1, 2, 5)]
            return [t for t in ticks if self.low <= t <= self.high]
        step = 10 ** math.floor(math.log10(self.high / 4))
        step = next(s * step for s in (1, 2, 5, 10) if s * step * 5.5 >= self.high)
        return [i * step for i in range(math.floor(self.high / step) + 1)]


def legend(x, y, labels):
    parts = []
    for i, label in enumerate(labels):
        parts += [line(x, y - 4, x + 18, y - 4, f"line c{i % 5}"), text(x + 23, y, label, "small")]
        x += 40 + 7 * len(label)
    return parts


def polyline(points, x, y, kind):
    path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
    dots = [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" class="{kind.replace("c", "f", 1)}"/>' for a, b in points]
    return [f'<polyline points="{path}" class="line {kind}"/>', *dots]


def lines(panels, caption):
    """SVG of panels [(title, name of x, name of y, [Line])] in a row, with a mark at each x that occurs."""
    labels = [one.label for one in panels[0][3]]
    parts = [text(10, 18 + 17 * i, words, "muted") for i, words in enumerate(caption)]
    top = 17 + 17 * len(caption)
    parts += legend(10, top + 12, labels)
    top += 46
    left = 56
    for title, x_name, y_name, drawn in panels:
        marks = sorted({a for one in drawn for a, _ in one.points})
        x = Axis(0, marks[-1] * 1.04, left, PLOT_W)
        y = Axis(0, max(b for one in drawn for _, b in one.points) * 1.08, top + PLOT_H, -PLOT_H)
        parts.append(text(left, top - 12, f"{title}: {y_name}", "title"))
        for tick in y.ticks():
            parts += [
                line(left, y(tick), left + PLOT_W, y(tick)),
                text(left - 6, y(tick) + 4, f"{tick:g}", "small", "end"),
            ]
        shown = -100
        for mark in marks:
            parts.append(line(x(mark), top + PLOT_H, x(mark), top + PLOT_H + 4, "axis"))
            if x(mark) - shown > 24:
                parts.append(text(x(mark), top + PLOT_H + 17, f"{mark:g}", "small", "middle"))
                shown = x(mark)
        parts.append(line(left, top + PLOT_H, left + PLOT_W, top + PLOT_H, "axis"))
        parts.append(text(left + PLOT_W / 2, top + PLOT_H + 34, x_name, "small muted", "middle"))
        for one in drawn:
            parts += polyline(one.points, x, y, f"c{labels.index(one.label) % 5}")
        left += PLOT_W + 64
    return document(left - 44, top + PLOT_H + 46, parts)


def roofline(roofs, bandwidth, points, caption):
    """SVG. roofs: [(name, GFLOP/s)]; bandwidth: GB/s; points: [(series, FLOP/byte, GFLOP/s, group, tooltip)]. The name of
    each group of a series is drawn beside its points, in their colour."""
    width, height, left = 600, 340, 62
    parts = [text(10, 18 + 17 * i, words, "muted") for i, words in enumerate(caption)]
    top = 17 + 17 * len(caption)
    series = list(dict.fromkeys(p[0] for p in points))
    for i, name in enumerate(series):
        parts += [
            f'<circle cx="{16 + 80 * i}" cy="{top + 8}" r="4" class="f{i % 5}"/>',
            text(25 + 80 * i, top + 12, name, "small"),
        ]
    top += 46
    highest = max(gflops for _, gflops in roofs)
    x = Axis(min(0.3, *(p[1] for p in points)), max(p[1] for p in points) * 8, left, width, log=True)
    y = Axis(min(bandwidth * x.low, *(p[2] for p in points)) / 1.5, highest * 1.6, top + height, -height, log=True)
    for tick in y.ticks():
        parts += [line(left, y(tick), left + width, y(tick)), text(left - 6, y(tick) + 4, f"{tick:g}", "small", "end")]
    for tick in x.ticks():
        parts += [
            line(x(tick), top, x(tick), top + height),
            text(x(tick), top + height + 17, f"{tick:g}", "small", "middle"),
        ]
    ridge = min(highest / bandwidth, x.high)
    parts.append(line(x(x.low), y(bandwidth * x.low), x(ridge), y(bandwidth * ridge), "axis line"))
    middle = math.sqrt(x.low * ridge)
    parts.append(
        text(x(middle) - 8, y(bandwidth * middle) - 8, f"memory {number(bandwidth)} GB/s", "small muted", "end")
    )
    for name, gflops in roofs:
        parts.append(line(x(min(gflops / bandwidth, x.high)), y(gflops), x(x.high), y(gflops), "axis line"))
        parts.append(text(x(x.high) - 4, y(gflops) - 5, f"{name} {number(gflops)}", "small muted", "end"))
    groups = {}
    for name, intensity, gflops, group, label in points:
        kind = f"f{series.index(name) % 5}"
        parts.append(f'<circle cx="{x(intensity):.1f}" cy="{y(gflops):.1f}" r="4" class="{kind}">'
                     f"<title>{escape(label)}</title></circle>")  # fmt: skip
        groups.setdefault((kind, group), []).append((x(intensity), y(gflops)))
    taken = [(place, 4) for places in groups.values() for place in places]
    for (kind, group), places in groups.items():
        across, down = ([place[i] for place in places] for i in (0, 1))
        half, middle = 3.5 * len(str(group)), sum(across) / len(across)
        spots = [(middle, max(down) + 13), (max(across) + 8 + half, sum(down) / len(down)), (middle, min(down) - 13)]
        free = [s for s in spots if all(abs(s[0] - a) > half + w or abs(s[1] - d) > 9 for (a, d), w in taken)]
        spot = (free or spots)[0]
        taken.append((spot, half))
        parts.append(text(spot[0], spot[1] + 4, group, f"small {kind}", "middle"))
    parts.append(
        text(
            left + width / 2,
            top + height + 34,
            "operations per byte of weights, inputs and outputs",
            "small muted",
            "middle",
        )
    )
    parts.append(text(left, top - 8, "GFLOP/s", "small muted"))
    return document(left + width + 20, top + height + 46, parts)
