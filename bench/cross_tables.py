"""Tables, sentences and the picture of cross-attention in docs/why-separate-q-and-k.md, from data/cross/ and data/ablations/."""

import json

import common
import svg
from ablations import FOLDER, Comparison, interval, signed, table

RESULT = common.ROOT / "data/cross/english-italian.json"
PAIRS = "pairs"  # data/ablations/pairs.json
TITLES = {"softmax": "softmax, as trained", "hard": "hard look-up: all on the greatest score",
          "gaussian": "Gaussian along the diagonal", "uniform": "uniform: the mean of the source"}  # fmt: skip
KINDS = {"separate": "separate", "shared": "shared, W_Q = W_K", "unified": "unified, W_Q = W_K = W_V", "shared_kv": "K = V",
         "merged": "merged"}  # fmt: skip


def read():
    return json.loads(RESULT.read_text())


def kind(arm):
    name, _, rank = arm.partition(":rank=")
    return KINDS.get(name, name.replace("_", " ")) + (f", rank {rank}" if rank else "")


def rules_table(of):
    own = of["rules"]["softmax"]["bleu"]
    rows = []
    for name, title in TITLES.items():
        found = of["rules"][name]
        bandwidth = f", h = {of['bandwidth']}" if name == "gaussian" else ""
        rows.append([title + bandwidth, f"{found['bleu']:.1f}", f"{100 * found['bleu'] / own:.0f} %", f"{found['chrf']:.1f}",
                     f"{100 * found['top1']:.1f} %", f"{found['loss']:.2f}"])  # fmt: skip
    return table(["cross-attention of all heads", "BLEU", "of the softmax's", "chrF2", "tokens right", "loss"], rows)


def heads_table(of):
    own = of["rules"]["softmax"]["bleu"]
    rows = [[head["head"], head["entropy"], head["distance"], head["diagonal"], head["end"], head["punctuation"],
             signed(head["bleu"] - own), signed(head["bleu_hard"] - own)] for head in of["heads"]]  # fmt: skip
    return table(["block.head", "entropy, bits", "distance from the diagonal", "within 2 tokens of it", "on the end token",
                  "on punctuation", "BLEU if uniform", "BLEU if hard"], rows)  # fmt: skip


def kinds_table():
    of = Comparison.read(PAIRS)
    (data,) = {run["data"] for run in of.content["runs"]}
    first, *_ = arms = of.content["arms"]
    rows = []
    for arm in arms:
        runs, others = of.runs(arm, data), of.runs(first, data)
        bleu = interval([run["bleu"] for run in runs.values()])
        difference = interval([runs[seed]["bleu"] - others[seed]["bleu"] for seed in runs if seed in others])
        rows.append([kind(arm), str(bleu), "" if arm == first else difference.difference(), str(of.accuracy(arm, data)),
                     "" if arm == first else of.difference(arm, first, data).difference(),
                     f"{of.mean(arm, data, 'parameters'):,.0f}",
                     f"{of.content['speeds'][arm]['training']:.0f}"])  # fmt: skip
    return table(["cross-attention", "BLEU", "difference", "tokens right, %", "difference", "parameters", "trains, pairs/s"],
                 rows)  # fmt: skip


def quote(text):
    return text.strip().replace("|", "\\|")


def difference_words(arm, value, scale=1):
    """−2.53 ± 1.47"""
    of = Comparison.read(PAIRS)
    (data,) = {run["data"] for run in of.content["runs"]}
    runs, others = of.runs(arm, data), of.runs(of.content["arms"][0], data)
    found = interval([scale * (runs[seed][value] - others[seed][value]) for seed in runs if seed in others])
    return f"{signed(found.mean)} ± {found.half:.2f}"


def kinds_sentences():
    return [f"shared {difference_words('shared', 'bleu')} BLEU",
            f"{difference_words('merged', 'bleu')} BLEU and {difference_words('merged', 'top1', 100)} points"]  # fmt: skip


def examples_table(of):
    rows = [[quote(one[key]) for key in ("source", "softmax", "hard", "uniform")] for one in of["examples"]]
    return table(["English", "softmax", "hard look-up", "uniform"], rows, left=4)


def sentences(of):
    """What the prose says of the numbers."""
    own = of["rules"]["softmax"]["bleu"]
    worst = min(of["heads"], key=lambda head: head["bleu"])
    least = max(of["heads"], key=lambda head: head["bleu"])
    return [f"{of['lines']} lines that it has not seen",
            f"from {own:.1f} to {of['rules']['hard']['bleu']:.1f}",
            f"leave {of['rules']['uniform']['bleu']:.1f} of {own:.1f} BLEU",
            f"reaches {of['rules']['gaussian']['bleu']:.1f}",
            f"loss is bad nevertheless ({of['rules']['gaussian']['loss']:.1f}",
            f"between {signed(worst['bleu'] - own)} and {signed(least['bleu'] - own)} BLEU"]  # fmt: skip


def picture(of):
    """SVG: BLEU by each rule, and what each head's loss costs beside what it does."""
    width, label, row, top = 560, 250, 24, 34
    rules = list(TITLES)
    greatest = max(of["rules"][name]["bleu"] for name in rules)
    x = svg.Axis(0, greatest * 1.02, 10 + label, width - label - 70)
    parts = [svg.text(10, 18, f"BLEU of {of['lines']} lines, with all heads replaced", "title")]
    y = top
    for name in rules:
        bleu = of["rules"][name]["bleu"]
        parts += [svg.text(4 + label, y + 14, TITLES[name].partition(":")[0], "small", "end"),
                  f'<rect x="{x(0):.1f}" y="{y + 3}" width="{x(bleu) - x(0):.1f}" height="15" '
                  f'class="{"own" if name == "softmax" else "f1"}"/>',
                  svg.text(x(bleu) + 5, y + 15, f"{bleu:.1f}", "small")]  # fmt: skip
        y += row
    own = of["rules"]["softmax"]["bleu"]
    losses = [own - head["bleu"] for head in of["heads"]]
    far = max(*losses, 0.1)
    y += 34
    parts.append(svg.text(10, y - 10, "BLEU lost if one head alone is uniform, by block.head", "title"))
    x = svg.Axis(0, far * 1.02, 10 + label, width - label - 70)
    for head, lost in zip(of["heads"], losses):
        words = f"{head['head']}   {head['diagonal']} on the diagonal, {head['end']} on the end"
        parts += [svg.text(4 + label, y + 14, words, "small", "end"),
                  f'<rect x="{x(0):.1f}" y="{y + 3}" width="{max(x(lost) - x(0), 1):.1f}" height="15" class="f0"/>',
                  svg.text(max(x(lost), x(0)) + 5, y + 15, f"{lost:.1f}", "small")]  # fmt: skip
        y += 19
    return svg.document(width, y + 12, parts)


def parts():
    """([(name of a part of the page, its text)], sentences, {path: SVG}); nothing without results."""
    texts, says, pictures = [], [], {}
    if RESULT.exists():
        of = read()
        texts += [("cross-rules", rules_table(of)), ("cross-heads", heads_table(of)), ("cross-examples", examples_table(of))]
        says += sentences(of)
        pictures[common.ROOT / "docs/pictures/cross-attention.svg"] = picture(of)
    if (FOLDER / f"{PAIRS}.json").exists():
        texts.append(("cross-kinds", kinds_table()))
        says += kinds_sentences()
    return texts, says, pictures
