"""Puts what was measured into docs/performance.md, with pictures in docs/pictures/: one command a machine.

    python bench/report.py --collect NAME   after `make bench`: build/bench-results/*.json, without single times, become
                                            bench/results/NAME.json; then the document is written anew
    python bench/report.py                  writes the document anew from bench/results/*.json
    python bench/report.py --print          prints that part of it instead

NAME says the kind of machine: zen5-2c, spr-amx-2c. What was measured under QKV_ISA or by as_avx2.py stands behind what
was measured without, each under a heading that names the instruction set. What stands in the document between the two
marker lines is replaced, the rest stays; without markers it goes to the end.
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

DOCUMENT = common.ROOT / "docs/performance.md"
PICTURES = common.ROOT / "docs/pictures"
KEPT = common.ROOT / "bench/results"
BEGIN, END = "<!-- bench/report.py writes from here -->", "<!-- to here -->"
# file of build/bench-results: the module that draws it, and its heading
PARTS = {
    "peers": (peers, "One forward pass beside the peers"),
    "folder": (folder, "A folder of photos, from files to answers"),
    "attention": (attention, "Attention alone"),
    "roofline": (roofline, "Linear layers against the machine's limits"),
    "scaling": (scaling, "How the time grows"),
}
# "peers"; "peers-avx2", …: the same measurement of qkv held to an instruction set; "peers-held-avx2", …: its peers too
SUFFIXES = ["", *(f"-{isa}" for isa in common.ISAS), *(f"-held-{isa}" for isa in common.ISAS)]
RUNS = {f"{part}{suffix}": part for part in PARTS for suffix in SUFFIXES}
SINGLE_TIMES = {"times", "rates"}  # keys that stay in build/bench-results


def without_single_times(value):
    """Rounded to what a reader can use, too."""
    if isinstance(value, dict):
        return {key: without_single_times(inner) for key, inner in value.items() if key not in SINGLE_TIMES}
    if isinstance(value, list):
        return [without_single_times(inner) for inner in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def collect(name, source):
    """Parts that were not measured this time keep their earlier numbers."""
    path = KEPT / f"{name}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    found = [run for run in RUNS if (source / f"{run}.json").exists()]
    if not found:
        sys.exit(f"{source}: no results; run `make bench` first")
    for run in found:
        kept[run] = without_single_times(json.loads((source / f"{run}.json").read_text()))
    common.write_json(path, {run: kept[run] for run in RUNS if run in kept})


def heading(run, data):
    """Names the instruction set where the machine was measured with several. Rows of attention name theirs themselves."""
    part, _, isa = run.partition("-")
    if isa.startswith("held-"):
        return f"{PARTS[part][1]}, all held to {common.ISAS[isa.removeprefix('held-')]}"
    if not isa and part != "attention" and any(RUNS[other] == part for other in data if other != run):
        isa = common.best_isa(data[run]["machine"]["instructions"])
    return PARTS[part][1] + (f": {common.ISAS[isa]}" if isa else "")


def render():
    """Markdown of all machines; writes their pictures."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    machines = {path.stem: json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))}
    lines = [BEGIN, "", "## What it aims at, and where it stands", "", aims.table(machines)]
    for name, data in machines.items():
        machine = next(iter(data.values()))["machine"]
        lines += [f"## {name}: {machine['processor']}, {machine['cores']} cores", ""]
        for run, part in RUNS.items():
            if run in data:
                module, title = PARTS[part][0], heading(run, data)
                picture = PICTURES / f"{name}-{run}.svg"
                picture.write_text(module.chart(data[run]))
                table = module.report(data[run]).strip()
                lines += [f"### {title}", "", f"![{title}](pictures/{picture.name})", "", table, ""]
    return "\n".join([*lines, END])


def write(text):
    document = DOCUMENT.read_text()
    if BEGIN in document:
        before, _, rest = document.partition(BEGIN)
        after = rest.partition(END)[2]
    else:
        before, after = document.rstrip() + "\n\n", "\n"
    DOCUMENT.write_text(before + text + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--collect", metavar="NAME", help="keep what build/bench-results/ has under this machine's name"
    )
    parser.add_argument("--results", type=Path, default=common.RESULTS, metavar="FOLDER", help="where --collect reads")
    parser.add_argument("--print", action="store_true", help="print instead of writing docs/performance.md")
    options = parser.parse_args()
    if options.collect:
        collect(options.collect, options.results)
    text = render()
    if options.print:
        print(text)
    else:
        write(text)


if __name__ == "__main__":
    main()
