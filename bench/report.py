"""Writes the measured numbers as documents: data/results/MACHINE.md and the generated part of docs/performance.md.

    python bench/report.py --collect NAME   after `make bench`: copies build/bench-results/*.json, without single times,
                                            to data/results/NAME.json; then writes the documents
    python bench/report.py                  writes the documents from data/results/*.json
    python bench/report.py --check          writes nothing; exits 1 if a document is out of date

NAME is the kind of machine: zen5-2c, spr-amx-2c. data/results/NAME.md has all tables of a machine, its pictures lie in
data/results/pictures/. docs/performance.md gets one chart and one table, of the machine that was measured last, between
its two marker lines; the rest of that page is written by hand.
"""

import argparse
import json
import sys
from pathlib import Path

import aims
import attention
import common
import folder
import peers
import roofline
import scaling
import summary

DOCUMENT = common.ROOT / "docs/performance.md"
CHART = common.ROOT / "docs/pictures/performance.svg"
KEPT = common.ROOT / "data/results"
PICTURES = KEPT / "pictures"
WRITTEN = "Written by `python bench/report.py`"  # in every page of data/results/
BEGIN, END = "<!-- written by bench/report.py: begin -->", "<!-- written by bench/report.py: end -->"
# file of build/bench-results: the module that draws it, and its heading
PARTS = {
    "peers": (peers, "One forward pass"),
    "folder": (folder, "A folder of photos, from files to answers"),
    "attention": (attention, "Attention alone"),
    "roofline": (roofline, "Linear layers and the roofline"),
    "scaling": (scaling, "Time by tokens, batch and threads"),
}
# "peers"; "peers-avx2", …: qkv restricted to an instruction set; "peers-held-avx2", …: its peers restricted too
SUFFIXES = ["", *(f"-{isa}" for isa in common.ISAS), *(f"-held-{isa}" for isa in common.ISAS)]
RUNS = {f"{part}{suffix}": part for part in PARTS for suffix in SUFFIXES}
SINGLE_TIMES = {"times", "rates"}  # keys that stay in build/bench-results


def without_single_times(value):
    """Numbers are rounded to five digits."""
    if isinstance(value, dict):
        return {key: without_single_times(inner) for key, inner in value.items() if key not in SINGLE_TIMES}
    if isinstance(value, list):
        return [without_single_times(inner) for inner in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def collect(name, source):
    """Parts that were not measured again keep their earlier numbers."""
    path = KEPT / f"{name}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    found = [run for run in RUNS if (source / f"{run}.json").exists()]
    if not found:
        sys.exit(f"{source}: no results; run `make bench` first")
    for run in found:
        kept[run] = without_single_times(json.loads((source / f"{run}.json").read_text()))
    common.write_json(path, {run: kept[run] for run in RUNS if run in kept})


def heading(run, data):
    """Includes the instruction set if the machine was measured with several. Rows of attention include it anyway."""
    part, _, isa = run.partition("-")
    if isa.startswith("held-"):
        return f"{PARTS[part][1]}, all programs restricted to {common.ISAS[isa.removeprefix('held-')]}"
    if not isa and part != "attention" and any(RUNS[other] == part for other in data if other != run):
        isa = common.best_isa(data[run]["machine"]["instructions"])
    return PARTS[part][1] + (f": {common.ISAS[isa]}" if isa else "")


def machine_page(name, data):
    """{path: text} of data/results/NAME.md and of its pictures."""
    machine = next(iter(data.values()))["machine"]
    lines = [f"# {name}: {machine['processor']}, {machine['cores']} cores", "",
             f"{WRITTEN}; [docs/performance.md](../../docs/performance.md) says how the numbers are measured.", "",
             "## Aims and results", "", aims.LEGEND, "", aims.table(name, data)]  # fmt: skip
    files = {}
    for run, part in RUNS.items():
        if run in data:
            module, title = PARTS[part][0], heading(run, data)
            picture = PICTURES / f"{name}-{run}.svg"
            files[picture] = module.chart(data[run])
            lines += [f"## {title}", "", f"![{title}](pictures/{picture.name})", "", module.report(data[run]).strip(), ""]
    files[KEPT / f"{name}.md"] = "\n".join(lines)
    return files


def newest(machines):
    """The machine that was measured last; on equal days the alphabetically last."""
    return max(machines, key=lambda name: (max(run["machine"]["date"] for run in machines[name].values()), name))


def performance_page(machines):
    """{path: text} of docs/performance.md and of its chart."""
    text = DOCUMENT.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{DOCUMENT}: expected the two lines {BEGIN!r} and {END!r}")
    name = newest(machines)
    table, chart = summary.table(name, machines[name]), summary.chart(name, machines[name])
    picture = f"![qkv and the fastest peer on {name}]({CHART.relative_to(DOCUMENT.parent)})"
    return {DOCUMENT: "\n".join([f"{before}{begin}", "", picture, "", table, f"{end}{after}"]), CHART: chart}


def documents():
    """{path: text} of all generated files."""
    machines = {path.stem: json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))}
    files = performance_page(machines)
    for name, data in machines.items():
        files |= machine_page(name, data)
    return files


def stale(files):
    """Generated pages and pictures whose results no longer exist."""
    pages = [path for path in KEPT.glob("*.md") if WRITTEN in path.read_text()]
    return [path for path in sorted([*pages, *PICTURES.glob("*.svg")]) if path not in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--collect", metavar="NAME", help="copy build/bench-results/ to data/results/NAME.json before writing"
    )
    parser.add_argument("--results", type=Path, default=common.RESULTS, metavar="FOLDER", help="where --collect reads")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a document is out of date")
    options = parser.parse_args()
    if options.check:
        files = documents()
        wrong = [path for path, text in files.items() if not path.exists() or path.read_text() != text] + stale(files)
        for path in wrong:
            print(f"{path.relative_to(common.ROOT)} is out of date: run `python bench/report.py`")
        if not wrong:
            print(f"{len(files)} documents and pictures are up to date")
        sys.exit(bool(wrong))
    if options.collect:
        collect(options.collect, options.results)
    files = documents()
    for path, text in files.items():
        common.write(path, text)
    for path in stale(files):
        path.unlink()


if __name__ == "__main__":
    main()
