"""Puts what was measured into docs/performance.md, with pictures in docs/pictures/: one command a machine.

    python bench/report.py --collect NAME   after `make bench`: build/bench-results/*.json, without single times, become
                                            bench/results/NAME.json; then the document is written anew
    python bench/report.py                  writes the document anew from bench/results/*.json
    python bench/report.py --print          prints that part of it instead

NAME says the kind of machine: zen5-2c, spr-amx-2c. What stands in the document between the two
marker lines is replaced, the rest stays; without markers it goes to the end.
"""

import argparse
import json
import sys
from pathlib import Path

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
    found = [part for part in PARTS if (source / f"{part}.json").exists()]
    if not found:
        sys.exit(f"{source}: no results; run `make bench` first")
    for part in found:
        kept[part] = without_single_times(json.loads((source / f"{part}.json").read_text()))
    common.write_json(path, {part: kept[part] for part in PARTS if part in kept})


def render():
    """Markdown of all machines; writes their pictures."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    lines = [BEGIN, ""]
    for path in sorted(KEPT.glob("*.json")):
        data = json.loads(path.read_text())
        machine = next(iter(data.values()))["machine"]
        lines += [f"## {path.stem}: {machine['processor']}, {machine['cores']} cores", ""]
        for part, (module, heading) in PARTS.items():
            if part in data:
                picture = PICTURES / f"{path.stem}-{part}.svg"
                picture.write_text(module.chart(data[part]))
                lines += [
                    f"### {heading}",
                    "",
                    f"![{heading}](pictures/{picture.name})",
                    "",
                    module.report(data[part]).strip(),
                    "",
                ]
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
