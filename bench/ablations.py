"""Tables and sentences of docs/why-separate-q-and-k.md from the results of `qkv ablate` in data/ablations/."""

import json
from dataclasses import dataclass
from statistics import mean, stdev

import common

FOLDER = common.ROOT / "data/ablations"
# Student's t of 95 %, both sides, by the number of values less one.
T95 = {1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445}
KINDS = {"separate": "separate", "separate:qkv-bias=false": "separate, without biases", "shared": "shared",
         "unified": "unified", "shared_kv": "K = V", "merged": "merged", "low_rank:rank=16": "low rank, 16 of 32",
         "low_rank:rank=4": "low rank, 4 of 8", "symmetric:rank=32": "symmetric, 32",
         "symmetric:rank=8": "symmetric, 8"}  # fmt: skip


def signed(value):
    """−0.07, 0.00, +0.25"""
    text = f"{abs(value):.2f}"
    return text if float(text) == 0 else f"{'−' if value < 0 else '+'}{text}"


def table(heading, rows, left=1):
    """Markdown. heading: the cells of the first line; the first `left` columns are text, the others numbers."""
    rule = ["---" if i < left else "---:" for i in range(len(heading))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [heading, rule, *rows])


@dataclass
class Interval:
    """mean ± half, of 95 %; half is None for a single value."""

    mean: float
    half: float

    def __str__(self):
        return f"{self.mean:.2f}" + ("" if self.half is None else f" ± {self.half:.2f}")

    def difference(self):
        """With a sign, and bold where it excludes 0."""
        if self.mean == self.half == 0:
            return "0"
        text = signed(self.mean) + ("" if self.half is None else f" ± {self.half:.2f}")
        return f"**{text}**" if self.half is not None and abs(self.mean) > self.half else text


def interval(values):
    n = len(values)
    return Interval(mean(values), T95[n - 1] * stdev(values) / n**0.5 if n > 1 else None)


@dataclass
class Comparison:
    """The results of `qkv ablate` in FOLDER/NAME.json."""

    content: dict

    @classmethod
    def read(cls, name):
        return cls(json.loads((FOLDER / f"{name}.json").read_text()))

    def runs(self, arm, data):
        """{seed: run}"""
        return {run["seed"]: run for run in self.content["runs"] if (run["arm"], run["data"]) == (arm, data)}

    def mean(self, arm, data, key):
        return mean(run[key] for run in self.runs(arm, data).values())

    def accuracy(self, arm, data):
        return interval([100 * run["top1"] for run in self.runs(arm, data).values()])

    def difference(self, arm, other, data):
        """Of accuracies in points, paired by seed."""
        own, others = self.runs(arm, data), self.runs(other, data)
        return interval([100 * (own[seed]["top1"] - others[seed]["top1"]) for seed in own if seed in others])


def kinds_table():
    of = Comparison.read("cifar10")
    first, *_ = arms = of.content["arms"]
    heading = ["kind", "accuracy", "difference", "on training images, augmented", "parameters", "MFLOP", "trains, images/s",
               "symmetry of M", "directions of M for 99 %"]  # fmt: skip
    rows = []
    for arm in arms:
        rows.append([KINDS[arm], str(of.accuracy(arm, "cifar10")),
                     "" if arm == first else of.difference(arm, first, "cifar10").difference(),
                     f"{100 * of.mean(arm, 'cifar10', 'train_top1'):.2f}", f"{of.mean(arm, 'cifar10', 'parameters'):,.0f}",
                     f"{of.mean(arm, 'cifar10', 'flops') / 1e6:.1f}", f"{of.content['speeds'][arm]['training']:.0f}",
                     f"{of.mean(arm, 'cifar10', 'symmetry'):.2f}", f"{of.mean(arm, 'cifar10', 'rank99'):.1f}"])  # fmt: skip
    return table(heading, rows)


def kinds_sentences():
    of = Comparison.read("cifar10")
    merged, separate = (of.mean(arm, "cifar10", "rank99") for arm in ("merged", "separate"))
    return [f"spreads over {merged:.0f} directions, compared to {separate:.0f} with two matrices"]


# Peak learning rates: the results that have them, and what an arm of them is called there.
RATES = {"5e-4": ("cifar10-lr", ":lr=5e-4"), "1e-3": ("cifar10", ""), "3e-3": ("cifar10-lr", ":lr=3e-3")}
RATED = ["separate", "shared", "merged", "low_rank:rank=16"]


def top1_by_rate():
    """{arm: {rate: {seed: top-1 in percent}}}"""
    files = {name: Comparison.read(name) for name, _ in RATES.values()}
    return {arm: {rate: {seed: 100 * run["top1"] for seed, run in files[name].runs(arm + suffix, "cifar10").items()}
                  for rate, (name, suffix) in RATES.items()} for arm in RATED}  # fmt: skip


def best_rate(by_rate):
    return max(by_rate, key=lambda rate: mean(by_rate[rate].values()))


def rates_table():
    of = top1_by_rate()
    base = of[RATED[0]]

    def difference(runs, others):
        return interval([runs[seed] - others[seed] for seed in runs]).difference()

    rows = []
    for arm, by_rate in of.items():
        best = best_rate(by_rate)
        rows.append([KINDS[arm], *(str(interval(list(runs.values()))) for runs in by_rate.values()), best,
                     *([""] * 2 if arm == RATED[0] else [difference(by_rate["1e-3"], base["1e-3"]),
                                                         difference(by_rate[best], base[best_rate(base)])])])  # fmt: skip
    heading = ["kind", *(f"at {rate}" for rate in RATES), "best", "difference at 1e-3", "difference, each at its best"]
    return table(heading, rows)


def tasks_table():
    of = Comparison.read("tasks")
    first, *_ = arms = of.content["arms"]
    rows = []
    for arm in arms:
        cells = [KINDS[arm]]
        for task in ("sort", "next-token"):
            cells += [str(of.accuracy(arm, task)), "" if arm == first else of.difference(arm, first, task).difference()]
        rows.append(cells)
    return table(["kind", "sort", "difference", "next-token", "difference"], rows)


def task_sentences():
    tasks, recall = Comparison.read("tasks"), Comparison.read("recall")
    symmetry = {task: tasks.mean("separate", task, "symmetry") for task in ("reverse", "swap", "sort", "next-token")}
    shared = recall.difference("shared", "separate", "recall")
    losses = [-tasks.difference(arm, "separate", task).mean for arm in ("shared", "unified", "symmetric:rank=8")
              for task in ("sort", "next-token")]  # fmt: skip
    learned = min(run["top1"] for run in tasks.content["runs"] if run["data"] in ("copy", "reverse", "swap"))
    return [
        f"all kinds reach {100 * learned:.2f} on copy, reverse and swap",
        f"costs {min(losses):.0f} to {max(losses):.0f} points on sorting and on finding the next token",
        f"symmetry {symmetry['reverse']:.2f} and {symmetry['swap']:.2f}",
        f"symmetry is {symmetry['next-token']:.2f} there, and {symmetry['sort']:.2f} for sort",
        f"shared {shared.mean:+.0f} ± {shared.half:.0f}",
    ]


def tile_results():
    """{(task, kind): runs, by seed} of bench/tile_kinds.cc"""
    results = {}
    for line in (FOLDER / "tiles.jsonl").read_text().splitlines():
        run = json.loads(line)
        results.setdefault((run["task"], run["kind"]), []).append(run)
    return results


LEARNED = 0.9  # AUC on bags as small as those of training


def learned_tiles(kind, task):
    return [run for run in tile_results()[task, kind] if run["64"]["auc"] > LEARNED]


def tiles_table():
    names = {"shared_kv": "K = V", "low_rank": "low rank, half", "separate+sines": "separate, with sines",
             "merged+sines": "merged, with sines", "abmil": "gated attention alone"}  # fmt: skip
    rows = []
    for kind in dict.fromkeys(kind for _, kind in tile_results()):
        cells = [names.get(kind, kind)]
        for task in ("direction", "same"):
            runs = learned_tiles(kind, task)
            cells += [str(len(runs)), f"{mean(run['20160']['auc'] for run in runs):.2f}" if runs else ""]
        rows.append(cells)
    return table(["kind", "direction: seeds of 8", "AUC, 20,160 tiles", "same: seeds of 8", "AUC, 20,160 tiles"], rows)


def tiles_sentences():
    without = sum(len(learned_tiles(kind, "direction")) for kind in ("shared", "unified"))
    others = sum(len(learned_tiles(kind, "direction")) for kind in ("separate", "symmetric", "low_rank"))
    return [f"in {without} of 16 runs", f"the three others with rotary positions in {others} of 24"]


def parts():
    """[(name of a part of the page, its text, sentences that the page must say)]"""
    return [("kinds", kinds_table(), kinds_sentences()), ("rates", rates_table(), []),
            ("tasks", tasks_table(), task_sentences()), ("tiles", tiles_table(), tiles_sentences())]  # fmt: skip
