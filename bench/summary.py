"""The chart and the table of docs/performance.md: one machine, qkv and the fastest peer, one row per workload.

Only runs of the machine's own best instruction set appear; runs under QKV_ISA or by as_avx2.py are in
data/results/MACHINE.md. The fastest peer is the one with the least best time; if another peer has the least median, the
row names it too, and the ratio of medians is to that one.
"""

from dataclasses import dataclass

import aims
import attention
import common
import folder
import peers
import svg

GROUPS = {"peers": "One forward pass", "folder": "Photos", "forward": "Attention",
          "forward-bf16": "Attention, bf16", "training": "Attention with backward",
          "training-bf16": "Attention with backward, bf16"}  # fmt: skip


@dataclass
class Row:
    """Times in ms. `best` and `median` are (qkv's, the fastest peer's); `peers` the names of the peers that were
    fastest by best and by median."""

    group: str
    work: str
    best: tuple
    median: tuple
    peers: tuple

    @property
    def ratios(self):
        return tuple(theirs / own for own, theirs in (self.best, self.median))


def fastest(group, work, own, others):
    """A Row. own: (best, median); others: {peer: (best, median)}"""
    names = tuple(min(others, key=lambda name: others[name][i]) for i in (0, 1))
    best, median = ((own[i], others[names[i]][i]) for i in (0, 1))
    return Row(group, work, best, median, names)


def times(row):
    return row["best"], row["median"]


def of_peers(data):
    for rows in peers.cases(data.get("peers", {}).get("rows", [])):
        for precision in common.PRECISIONS:
            own = [r for r in rows if (r["program"], r["precision"]) == ("qkv", precision)]
            others = {common.TITLES[r["program"]]: times(r) for r in rows
                      if r["program"] in common.PEERS and r["precision"] == precision}  # fmt: skip
            if own and others:
                work = f"{common.title(rows[0]['model'])}, {precision}, batch {rows[0]['batch']}"
                yield fastest("peers", work, times(own[0]), others)


def of_folder(data):
    """Milliseconds a photo."""
    run = data.get("folder")
    if run:
        own, *others = ([1e3 / rate for rate in folder.rate(run, row, "work")] for row in run["rows"])
        names = [folder.PIPELINES[row["program"]] for row in run["rows"][1:]]
        yield fastest("folder", f"photo to answer, {common.title(run['model'])}, fp32", own, dict(zip(names, others)))


def of_attention(data):
    for (pass_, case), rows in attention.cases(data.get("attention", {}).get("rows", [])).items():
        own = aims.of_own(data, "", rows)
        sizes = [size for size, one in aims.SIZES.items() if one == case]
        if own and sizes and pass_ in GROUPS:
            yield fastest(pass_, f"{sizes[0]} tokens", times(own), {rows[-1]["program"]: times(rows[-1])})


def rows(data):
    return [*of_peers(data), *of_folder(data), *of_attention(data)]


def table(name, data):
    """Markdown; data: measurements on the machine `name`."""
    machine = next(iter(data.values()))["machine"]
    versions = machine["versions"]
    lines = [
        f"[{name}](../data/results/{name}.md): {machine['processor']}, {machine['threads']} threads, "
        f"{common.ISAS[aims.qkv_isa(data, '')]}, {machine['date']}, qkv "
        f"{machine['commit']}; " + ", ".join(f"{one} {versions[one]}" for one in ("torch", "onnxruntime", "openvino"))
        + ". Attention: heads × tokens, 64 features a head.", "",
        "| work | qkv, ms: best / median | fastest peer | its ms: best / median | ratio by best | by median |",
        "|---|---:|---|---:|---:|---:|"]  # fmt: skip
    for row in rows(data):
        group = "" if row.group in ("peers", "folder") else f"{GROUPS[row.group].lower()}, "
        work = f"{group}{row.work}"
        work = work[0].upper() + work[1:]
        by = row.peers[0] if row.peers[0] == row.peers[1] else f"{row.peers[0]}; by median {row.peers[1]}"
        own, theirs = (" / ".join(svg.number(pair[i]) for pair in (row.best, row.median)) for i in (0, 1))
        lines.append(f"| {work} | {own} | {by} | {theirs} | {row.ratios[0]:.2f}× | {row.ratios[1]:.2f}× |")
    return "\n".join(lines) + "\n"


def chart(name, data):
    """SVG: how many times as fast as the fastest peer, by best and by median."""
    groups = {}
    for row in rows(data):
        groups.setdefault(GROUPS[row.group], []).append((row.work, *row.ratios))
    isa = common.ISAS[aims.qkv_isa(data, "")]
    return svg.ratios(groups, [f"{name}, {isa}: how many times as fast as the fastest peer qkv is."])
