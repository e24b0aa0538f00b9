"""The products of training (`simd::MatMul`: x Wᵀ, dy W, dyᵀ x) against what this machine can do: a table of fractions.

    [QKV_ISA=avx2] python bench/products.py [--threads N…] [--repetitions N]

Runs the micro-benchmarks of the peaks (multiply-adds on registers) and of the products in turns, so that both come from
the same minutes; each counts by its best turn. A number of the table is the mean over the four linear layers of a block,
each at two sizes of a chunk of images, whose operands come from behind the second-level cache. bfloat16 is held against
its own instruction's peak, and left out where there is none.
"""

import argparse
import re
import statistics
from pathlib import Path

import common
import peers
import roofline

PASSES = ["Forward", "Inputs", "Weights"]  # x Wᵀ, dy W, dyᵀ x
NAME = re.compile(r"Training/(Forward|Inputs|Weights)(Bf16|)/M:\d+/N:(\d+)/K:(\d+)/threads:\d+/")


def fractions(rates, isa):
    """{(precision, D): [share of the peak in each pass]}"""
    peaks = {kind: max(found.values()) for kind, found in roofline.summarise(rates, isa)["peaks"].items()}
    shares = {}
    for name, values in rates.items():
        if match := NAME.match(name):
            kind, width = roofline.precision(match[2]), min(int(match[3]), int(match[4]))
            if kind in peaks:
                passes = shares.setdefault((kind, width), {word: [] for word in PASSES})
                passes[match[1]].append(max(rate for rate, _ in values) / peaks[kind])
    return {key: [statistics.mean(passes[word]) for word in PASSES] for key, passes in shares.items()}


def report(data):
    """Markdown."""
    widths = sorted({width for row in data["rows"] for width in row["shares"]}, key=int)
    lines = [peers.machine_line(data["machine"]) + ".\n",
             "| x Wᵀ, dy W, dyᵀ x | " + " | ".join(f"D = {width}" for width in widths) + " |",
             "|---|" + "---|" * len(widths)]  # fmt: skip
    for row in data["rows"]:
        cells = [", ".join(f"{share:.2f}" for share in row["shares"][width]) for width in widths]
        threads = f"{row['threads']} thread{'s' * (row['threads'] > 1)}"
        lines.append(f"| {row['precision']}, {threads} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--program", type=Path, default=common.ROOT / "build/bench/bench/micro/qkv_micro_bench", metavar="PROGRAM")
    add("--threads", type=int, nargs="+", default=[1, 2][: common.CORES], choices=[1, 2], help="default: 1 2")
    add("--repetitions", type=int, default=5, help="turns of each benchmark (default: 5)")
    add("--seconds", type=float, default=0.02, help="least time of a turn (default: 0.02)")
    add("--json", type=Path, default=common.result("products.json"), metavar="FILE")
    options = parser.parse_args()
    common.require_program(options.program, common.built_by("qkv_micro_bench"))
    data = {"machine": common.machine(max(options.threads)), "rows": []}
    for threads in options.threads:
        filter_ = f"^(Peak|Training/.*/threads:{threads}/)"
        rates = roofline.run(options.program, filter_, threads, options.repetitions, options.seconds)
        shares = fractions(rates, common.ISA)
        for kind in dict.fromkeys(kind for kind, _ in shares):
            of_kind = {str(width): row for (found, width), row in shares.items() if found == kind}
            data["rows"].append({"precision": kind, "threads": threads, "shares": of_kind})
    common.write_json(options.json, data)
    print(report(data))


if __name__ == "__main__":
    main()
