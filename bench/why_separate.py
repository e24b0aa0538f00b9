"""Writes the numbers of docs/why-separate-q-and-k.md from the models and results of this repository, or checks them.

    python bench/why_separate.py            writes the tables between marker lines, and the pictures
    python bench/why_separate.py --check    writes nothing; exits 1 if a number of the page no longer comes out

Numbers come from `qkv` (--qkv, by default build/release/qkv), from data/ablations/ and data/cross/. Those in the prose are not
written, only checked: the functions `sentences_…` list them. Numbers on test images need $QKV_DATA with cifar10/ and
mnist/ and take about a minute, two sentences need $QKV_REFERENCE (the tests' models); without these they are left as they
are. Times and published results of others are not checked.

A number may differ by one in its last digit: instruction sets round differently, which can turn one image of 10,000.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import ablations
import common
import cross_tables
import svg
from ablations import signed, table

DOCUMENT = common.ROOT / "docs/why-separate-q-and-k.md"
PICTURES = common.ROOT / "docs/pictures"
BEGIN, END = "<!-- bench/why_separate.py: {} -->", "<!-- end -->"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Features of queries and keys that a head keeps.
RANKS = {"digits": (4, 2), "cifar10": (16, 8)}
QK, OV = "qk_eigenvalue_sign", "ov_eigenvalue_sign"
# Steps so small that a trained model is its initial weights.
UNTRAINED = "--steps 1 --warmup-epochs 0 --lr 1e-9 --min-lr 0 --seed 1 -q".split()


# ------------------------------------------------------------------------------------------------
# What qkv says


@dataclass
class Program:
    path: Path

    def __call__(self, *arguments):
        """stdout. Exits with qkv's own message where it fails."""
        command = [str(word) for word in (self.path, *arguments)]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"{' '.join(command)}\nexit code {ended.returncode}\n{ended.stderr}")
        return ended.stdout

    def claims(self, only, *options):
        """{what was measured: its value} of the checks of these claims"""
        lines = self("qk", "claims", "--only", only, "--quick", "--json", "-q", *options).splitlines()
        return {check["what"]: check["measured"] for line in lines for check in json.loads(line)["checks"]}

    def heads(self, options):
        return json.loads(self("qk", "inspect", "--images", 0, "--json", "-q", *options))["heads"]

    def classes(self, options, folder):
        """{image: (its folder's name, the label of the class that the model gives)}"""
        lines = self("classify", "--json", "-q", *options, folder).splitlines()
        answers = [json.loads(line) for line in lines]
        return {a["path"]: (Path(a["path"]).parent.name, a["top"][0]["label"]) for a in answers}


@dataclass
class Shipped:
    """A model of this repository."""

    title: str
    options: list  # of qkv, that choose it
    recipe: list  # of `qkv train`: the shapes and the initialisation of models/*/README.md
    test: str  # folder in $QKV_DATA


MODELS = {
    "digits": Shipped("digits", [], "--preset vit-digits".split(), "mnist/test"),
    "cifar10": Shipped("CIFAR-10", ["-m", common.ROOT / "models/cifar10"],
                       "--preset vit-cifar --width 128 --heads 4 --pool avg --no-class-token".split(), "cifar10/test"),
}  # fmt: skip


def stand_in(folder):
    """Twenty images in ten classes: initial weights depend on the seed and the shapes, not on the images."""
    for image in (common.ROOT / "examples/digits").glob("*.png"):
        for split in ("train", "test"):
            (folder / split / image.name[0]).mkdir(parents=True, exist_ok=True)
            shutil.copy(image, folder / split / image.name[0])
    return folder


def all_heads(qkv):
    """{model: (heads of its initial weights, heads as trained)}"""
    found = {}
    with tempfile.TemporaryDirectory(prefix="qkv-why-") as temporary:
        images = stand_in(Path(temporary) / "images")
        for name, model in MODELS.items():
            start = Path(temporary) / name
            qkv("train", images, "-o", start, *model.recipe, *UNTRAINED)
            found[name] = (qkv.heads(["-m", start / "last"]), qkv.heads(model.options))
    return found


# ------------------------------------------------------------------------------------------------
# Tables


def energy(heads):
    """Directions of M that hold 90 % of its energy, median"""
    return median(head["qk_rank_90"] for head in heads)


def least_median_most(heads, key):
    values = [head[key] for head in heads]
    return " / ".join(signed(v) for v in (min(values), median(values), max(values)))


def shared_errors(qkv):
    """{model: (least, greatest)}: percent of M's norm that the nearest shared projection leaves"""
    found = {}
    for name, model in MODELS.items():
        checks = qkv.claims("C4", *model.options)
        found[name] = [100 * checks[f"residual of trained heads, {which}"] for which in ("least", "greatest")]
    return found


def heads_table(heads, errors):
    columns = [(name, when) for name in MODELS for when in (0, 1)]
    heading = ["least / median / most of all heads"]
    heading += [f"{MODELS[name].title}, {('initial', 'trained')[when]}" for name, when in columns]
    rows = [[title, *(least_median_most(heads[name][when], key) for name, when in columns)]
            for title, key in (("symmetry of M", "qk_symmetry"), ("QK sign", QK), ("OV sign", OV))]  # fmt: skip
    rows.append(["directions for 90 % of M's energy, median",
                 *(f"{energy(heads[name][when]):g}" for name, when in columns)])  # fmt: skip
    shared = [cell for low, high in errors.values() for cell in ("", f"{low:.0f} to {high:.0f} %")]
    rows.append(["error of the nearest shared projection, relative to M", *shared])
    return table(heading, rows)


def ring_table(checks):
    kinds = [("weight on the next token, separate projections", "weight on the next token, separate", ""),
             ("the same, nearest shared projection", "weight on the next token, best shared fit", " (never above 0.5)"),
             ("error left by the nearest shared projection, relative", "relative residual of the best shared fit of the ring",
              " = √(6/8)"),
             ("error left by the nearest symmetric matrix UΛUᵀ", "relative residual of the best symmetric fit of the ring",
              " = √½")]  # fmt: skip
    rows = [[title, f"{checks[what]:.3f}{note}"] for title, what, note in kinds]
    return table(["pattern “look at the next token”, 8 tokens in a ring, one head", ""], rows)


def layers_table(qkv, counts):
    """counts: the checks of claim C9, whose printed table has the columns projected, absorbed, merged, cheapest."""
    lines = qkv("qk", "claims", "--only", "C9", "--quick", "--verbose", "-q").splitlines()
    cells = [re.split(r"  +", line.strip()) for line in lines]
    rows = {row[0]: row[1:4] for row in cells if len(row) == 5}
    layer, one, last = (rows[name] for name in ("ViT-B layer: 197 tokens, D 768, 12 heads of 64",
                                                "ViT-B, one head as wide as the model",
                                                "ViT-B, last block, only CLS is read"))  # fmt: skip
    more, fewer = counts["ViT-B layer: merged / separate"], counts["CLS alone: separate / cheapest"]
    return table(["multiply-adds of attention's products", "two matrices", "one matrix", "absorbed"], [
        ["ViT-B, a block, 197 tokens, 12 heads of 64", layer[0], f"{layer[2]}, {more:.1f} times as many", layer[1]],
        ["one head as wide as ViT-B", one[0], one[2], one[1]],
        ["ViT-B, last block, only the class token is read", last[0], last[2],
         f"{last[1]}, {fewer:.0f} times fewer"]])  # fmt: skip


def answers_table(qkv, data, heads):
    """(table of accuracies by rank, sentences on merging)"""
    rows, changed, images = [], 0, 0
    for name, model in MODELS.items():
        folder, width = data / model.test, len(heads[name][1][0]["qk_singular_values"])
        own = qkv.classes(model.options, folder)
        rows.append([model.title, f"{width}, as trained", f"{accuracy(own):.2f} %", ""])
        with tempfile.TemporaryDirectory(prefix="qkv-why-") as temporary:
            for rank in RANKS[name]:
                small = Path(temporary) / f"{rank}"
                qkv("qk", "truncate", *model.options, "-o", small, "--rank", rank, "-q")
                answers = qkv.classes(["-m", small], folder)
                same = 100 * (1 - differing(own, answers) / len(own))
                rows.append([model.title, f"{rank} of {width}", f"{accuracy(answers):.2f} %", f"{same:.2f} %"])
            merged = Path(temporary) / "merged"
            qkv("qk", "merge", *model.options, "-o", merged, "--dtype", "fp32")
            changed += differing(own, qkv.classes(["-m", merged], folder))
        images += len(own)
    count = sum(len(trained) for _, trained in heads.values())
    kept = (f"{changed} of the {images:,} test images changed their class" if changed else
            f"the class of every one of the {images:,} test images stayed the same")  # fmt: skip
    sentence = f"all {count} heads of the two models with M and u, and {kept}"
    heading = ["model", "features of queries and keys per head", "accuracy, 10,000 test images", "same class"]
    return table(heading, rows, left=2), [sentence]


def accuracy(answers):
    return 100 * mean(truth == label for truth, label in answers.values())


def differing(own, others):
    """Images whose class is another."""
    return sum(label != others[path][1] for path, (_, label) in own.items())


# ------------------------------------------------------------------------------------------------
# Pictures


SIGNS = ((QK, "c0", "QK: + attends to similar tokens, − avoids them"),
         (OV, "c1", "OV: + adds what is read, − subtracts it"))  # fmt: skip
PANEL, HEIGHT, GAP = 250, 220, 34


def ring(x, y, kind):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="none" stroke-width="1.5" class="{kind}"/>'


def sign_panel(left, top, title, initial, trained):
    y = svg.Axis(-1, 1, top + HEIGHT, -HEIGHT)
    blocks = 1 + max(head["block"] for head in trained)
    parts = [svg.text(left, top - 10, title, "title")]
    for tick in (-1, -0.5, 0, 0.5, 1):
        parts += [svg.line(left, y(tick), left + PANEL, y(tick), "grid" if tick else "axis"),
                  svg.text(left - 6, y(tick) + 4, f"{tick:+g}".replace("-", "−") if tick else "0", "small", "end")]  # fmt: skip
    step = PANEL / blocks
    parts += [svg.text(left + (b + 0.5) * step, top + HEIGHT + 17, b, "small", "middle") for b in range(blocks)]
    parts.append(svg.text(left + PANEL / 2, top + HEIGHT + 34, "block", "small muted", "middle"))
    for i, (key, kind, _) in enumerate(SIGNS):
        middle = [left + (b + 0.3 + 0.4 * i) * step for b in range(blocks)]
        for head in initial:
            parts.append(ring(middle[head["block"]] - 6, y(head[key]), kind))
        for head in trained:
            parts.append(f'<circle cx="{middle[head["block"]] + 5:.1f}" cy="{y(head[key]):.1f}" r="3.5" '
                         f'class="{kind.replace("c", "f")}"/>')  # fmt: skip
    return parts


def signs_picture(panels):
    """SVG. panels: [(title, initial heads, trained heads)]"""
    top, parts = 84, []
    for i, (_, kind, words) in enumerate(SIGNS):
        parts += [f'<circle cx="16" cy="{14 + 19 * i}" r="4" class="{kind.replace("c", "f")}"/>',
                  svg.text(27, 18 + 19 * i, words, "small")]  # fmt: skip
    parts += [ring(340, 14, "c0"), svg.text(351, 18, "initial weights", "small"),
              '<circle cx="340" cy="33" r="4" class="f0"/>', svg.text(351, 37, "trained weights", "small")]  # fmt: skip
    for i, panel in enumerate(panels):
        parts += sign_panel(44 + i * (PANEL + GAP + 10), top, *panel)
    return svg.document(44 + len(panels) * (PANEL + GAP + 10), top + HEIGHT + 44, parts)


def break_even(qkv):
    with tempfile.TemporaryDirectory(prefix="qkv-why-") as temporary:
        qkv("qk", "plan", "--map", Path(temporary) / "map.svg")
        return (Path(temporary) / "map.svg").read_text()


# ------------------------------------------------------------------------------------------------
# Prose


def span(heads, key, blocks=None):
    values = [head[key] for head in heads if blocks is None or head["block"] in blocks]
    return f"{signed(min(values))} to {signed(max(values))}"


def sentences_on_heads(checks, heads, errors):
    digits_start, digits = heads["digits"]
    cifar_start, cifar = heads["cifar10"]
    last = max(head["block"] for head in digits)
    symmetry = [median(head["qk_symmetry"] for head in some) for some in (cifar_start, cifar)]
    ends = [end for pair in errors.values() for end in pair]
    return [
        f"in {checks['separate, one head']:.0f} ways",
        f"one symmetric indefinite head {checks['symmetric, one head']:.0f}",
        f"one shared head {checks['shared, one head']:.0f}",
        f"from {signed(symmetry[0])} to {signed(symmetry[1])}",
        f"misses {min(ends):.0f} to {max(ends):.0f} % of M",
        f"began with QK signs of {span(cifar_start, QK)} and OV signs of {span(cifar_start, OV)}",
        f"ended with {span(cifar, QK)} and {span(cifar, OV)}",
        f"In the first block its QK sign lies at {span(digits, QK, [0])}",
        f"the second at {span(digits, QK, [1])}",
        f"the last at {span(digits, QK, [last])}",
        f"{span(digits, OV, range(1, last + 1))} after the first block",
        f"in {energy(digits):g} of 24 directions in digits, which began with {energy(digits_start):g}",
        f"in {energy(cifar):g} of 32 in cifar10, which began with {energy(cifar_start):g}",
    ]


def sentences_on_reference(heads):
    """Of the tests' model of CIFAR-10, which is not in this repository."""
    last = max(head["block"] for head in heads)
    return [f"QK signs of {span(heads, QK, [0])} in the first block and {span(heads, QK, [last])} in the last",
            f"OV signs of {span(heads, OV)}"]  # fmt: skip


def sentences_on_orders(counts):
    orders = ("separate, 2000×3000→4000", "re-associated", "merged beforehand")
    separate, again, merged = (f"{counts[order]:.0f} G" for order in orders)
    return [f"{separate} against {again} multiply-adds", f"it needs {merged}"]


# ------------------------------------------------------------------------------------------------
# The document


def pattern(text):
    """A regular expression for `text` with any numbers, whose groups are these. White space may be a line's end."""
    pieces = [re.escape(piece) for piece in NUMBER.split(" ".join(text.split()))]
    return re.compile(f"({NUMBER.pattern})".join(pieces).replace(r"\ ", r"\s+"))


def agree(written, computed):
    """Whether two numbers, as written, have as many decimals and differ by one in the last at most."""
    decimals = [len(number.partition(".")[2]) for number in (written, computed)]
    units = [int(re.sub(r"[.,]", "", number)) for number in (written, computed)]
    return decimals[0] == decimals[1] and abs(units[0] - units[1]) <= 1


def says(page, sentence):
    """Whether it stands in the page, but for last digits."""
    numbers = NUMBER.findall(sentence)
    return any(all(map(agree, found.groups(), numbers)) for found in pattern(sentence).finditer(page))


def same(written, computed):
    """Whether two texts are equal, but for last digits."""
    if NUMBER.split(written) != NUMBER.split(computed):
        return False
    return all(map(agree, NUMBER.findall(written), NUMBER.findall(computed)))


def replace_part(page, name, text):
    before, begin, rest = page.partition(BEGIN.format(name))
    old, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{DOCUMENT}: expected the lines {BEGIN.format(name)!r} and {END!r}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def part_of(page, name):
    return page.partition(BEGIN.format(name))[2].partition(END)[0].strip()


def compute(qkv, data, reference):
    """(parts {name: text}, sentences, pictures {path: SVG}). `data`: $QKV_DATA, or None without test images; `reference`:
    the folder of the tests' model, or None."""
    heads, errors = all_heads(qkv), shared_errors(qkv)
    checks, counts = qkv.claims("C4,C5"), qkv.claims("C9")
    parts = {"ring": ring_table(checks), "heads": heads_table(heads, errors), "layers": layers_table(qkv, counts)}
    sentences = sentences_on_heads(checks, heads, errors) + sentences_on_orders(counts)
    for name, text, more in ablations.parts():
        parts[name] = text
        sentences += more
    texts, more, pictures = cross_tables.parts()
    parts |= dict(texts)
    sentences += more
    if reference:
        sentences += sentences_on_reference(qkv.heads(["-m", reference]))
    if data:
        parts["rank"], more = answers_table(qkv, data, heads)
        sentences += more
    panels = [(f"{MODELS[name].title}, {how} initialisation", *heads[name])
              for name, how in (("digits", "timm’s"), ("cifar10", "mimetic"))]  # fmt: skip
    pictures |= {PICTURES / "signs.svg": signs_picture(panels), PICTURES / "break-even.svg": break_even(qkv)}
    return parts, sentences, pictures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a number no longer comes out")
    parser.add_argument("--qkv", type=Path, default=common.ROOT / "build/release/qkv", help="the program")
    options = parser.parse_args()
    data = Path(os.environ.get("QKV_DATA", "/nonexistent"))
    if not all((data / model.test).is_dir() for model in MODELS.values()):
        data = None
    reference = Path(os.environ.get("QKV_REFERENCE", "/nonexistent")) / "cifar10-vit"
    parts, sentences, pictures = compute(Program(options.qkv.resolve()), data, reference if reference.is_dir() else None)
    page = DOCUMENT.read_text()
    if not options.check:
        for name, text in parts.items():
            page = replace_part(page, name, text)
        common.write(DOCUMENT, page)
        for path, text in pictures.items():
            common.write(path, text)
    wrong = [f"the page does not say: {text}" for text in sentences if not says(page, text)]
    wrong += [f"{name}: the table is out of date; it should be\n{text}" for name, text in parts.items()
              if not same(part_of(page, name), text)]  # fmt: skip
    wrong += [f"{path.name} is out of date" for path, text in pictures.items()
              if not path.exists() or not same(path.read_text(), text)]  # fmt: skip
    for line in wrong:
        print(line)
    if wrong:
        sys.exit(f"{DOCUMENT.relative_to(common.ROOT)}: correct the prose, then run `python bench/why_separate.py`")
    print(f"{len(parts)} tables, {len(pictures)} pictures and {len(sentences)} sentences are up to date"
          + ("" if data else "; no images in $QKV_DATA: accuracies were not checked"))  # fmt: skip


if __name__ == "__main__":
    main()
