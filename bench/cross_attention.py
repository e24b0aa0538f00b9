"""Measures what a translator needs of its cross-attention, for docs/why-separate-q-and-k.md.

    python bench/cross_attention.py -m models/english-italian --test TEST.tsv --valid VALID.tsv

translates the first --lines lines of TEST by `qkv evaluate --cross-weights`: with the softmax as trained, by hard look-ups,
by uniform weights, and by Gaussian smoothing along the diagonal, whose bandwidth is chosen on VALID; then with each head
alone replaced by uniform weights; and asks `qkv qk claims` what each head does. Writes data/cross/NAME.json, from which
bench/why_separate.py makes the tables and the picture. By the most probable token each (--beams 1); minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import common

FOLDER = common.ROOT / "data/cross"
BANDWIDTHS = ("0.25", "0.5", "1", "2", "4", "8")
RULES = (("softmax", None), ("hard", "hard"), ("uniform", "uniform"))


def run(qkv, *arguments):
    command = [str(word) for word in (qkv, *arguments)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(command)}\nexit code {ended.returncode}\n{ended.stderr}")
    return ended.stdout


def evaluate(options, data, rule, lines):
    more = ["--cross-weights", rule] if rule else []
    common.progress(f"{data.name}: {rule or 'softmax'}")
    found = json.loads(run(options.qkv, "evaluate", "-m", options.model, data, "--json", "-q", "--beams", options.beams,
                           "--lines", lines, *more))  # fmt: skip
    return {key: found[key] for key in ("bleu", "chrf", "loss", "top1", "lines", "tokens")} | {"rule": rule or "softmax"}


def rows_of_heads(options):
    """[{"head": "0.1", "entropy": …}] by claim C20."""
    common.progress("heads")
    said = run(options.qkv, "qk", "claims", "--only", "C20", "--json", "-q", "--translator", options.model,
               "--pairs", options.test, "--lines", options.lines)  # fmt: skip
    table = json.loads(said)["tables"][0]
    names = {"head": "head", "entropy, bits": "entropy", "of uniform": "uniform",
             "distance from the diagonal, tokens": "distance", "on the diagonal": "diagonal",
             "on the end token": "end", "on punctuation": "punctuation"}  # fmt: skip
    places = {names[column]: i for i, column in enumerate(table["columns"]) if column in names}
    return [{name: row[i] for name, i in places.items()} for row in table["rows"]]


def examples(options):
    """Translations of the first lines of the test file by each rule."""
    texts = {}
    with tempfile.TemporaryDirectory(prefix="qkv-cross-") as temporary:
        pairs = [line.split("\t") for line in options.test.read_text().splitlines()[: options.examples]]
        file = Path(temporary) / "source.txt"
        file.write_text("".join(source + "\n" for source, _ in pairs))
        for name, rule in RULES:
            more = ["--cross-weights", rule] if rule else []
            said = run(options.qkv, "translate", "-m", options.model, file, "-q", "--beams", 1, *more)
            texts[name] = said.splitlines()
    return [{"source": source, "target": target} | {name: lines[i] for name, lines in texts.items()}
            for i, (source, target) in enumerate(pairs)]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", type=Path, default=common.ROOT / "models/english-italian")
    parser.add_argument("--test", type=Path, required=True, help="pairs of texts, which the model was not trained on")
    parser.add_argument("--valid", type=Path, required=True, help="others, on which the bandwidth is chosen")
    parser.add_argument("--lines", type=int, default=500, help="of both files")
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--examples", type=int, default=3, help="lines whose translations are kept")
    parser.add_argument("--name", default="english-italian", help="of the result in data/cross")
    parser.add_argument("--qkv", type=Path, default=common.ROOT / "build/release/qkv", help="the program")
    options = parser.parse_args()
    common.require_program(options.qkv)
    by_bandwidth = {h: evaluate(options, options.valid, f"gaussian={h}", options.lines) for h in BANDWIDTHS}
    best = max(by_bandwidth, key=lambda h: by_bandwidth[h]["bleu"])
    rules = {name: evaluate(options, options.test, rule, options.lines) for name, rule in RULES}
    rules["gaussian"] = evaluate(options, options.test, f"gaussian={best}", options.lines)
    heads = rows_of_heads(options)
    for head in heads:
        head |= {"bleu": evaluate(options, options.test, f"uniform:{head['head']}", options.lines)["bleu"]}
        head |= {"bleu_hard": evaluate(options, options.test, f"hard:{head['head']}", options.lines)["bleu"]}
    common.progress("")
    FOLDER.mkdir(exist_ok=True)
    model = os.path.relpath(options.model.resolve(), common.ROOT)
    common.write_json(FOLDER / f"{options.name}.json", {
        "model": model if not model.startswith("..") else options.model.name, "lines": rules["softmax"]["lines"],
        "beams": options.beams, "bandwidth": best, "valid": by_bandwidth, "rules": rules, "heads": heads,
        "examples": examples(options)})  # fmt: skip


if __name__ == "__main__":
    main()
