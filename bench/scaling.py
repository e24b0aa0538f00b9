"""How the time of a forward pass grows with tokens, batch and threads, in qkv and in its peers, interleaved.

    python bench/scaling.py [--model NAME] [--sizes N…] [--batches N…] [--threads N…] [--rounds N]

Three sweeps in fp32, each from the model's own size, batch 1, all cores: the input's side (224: 197
tokens), the batch, and the threads. Each point is measured as bench/peers.py measures one.
"""

import argparse
import sys
from pathlib import Path

import common
import peers
import svg

PROGRAMS = ["onnxruntime", "openvino"]  # the fastest peers; for PyTorch see bench/peers.py
PATCH = 16


def tokens(row):
    return (row["size"] // PATCH) ** 2 + 1


# sweep: (the row's x, its name, the row's y, its name)
SWEEPS = {
    "tokens": (tokens, "tokens", lambda r: r["median"], "ms a pass"),
    "batch": (lambda r: r["batch"], "images a pass", lambda r: r["median"] / r["batch"], "ms an image"),
    "threads": (lambda r: r["threads"], "threads", lambda r: 1e3 / r["median"], "images/s"),
}


def series(rows, sweep):
    """{program: [(x, y)]} of one sweep"""
    x, _, y, _ = SWEEPS[sweep]
    lines = {}
    for row in rows:
        if sweep in row["sweeps"]:
            lines.setdefault(row["program"], []).append((x(row), y(row)))
    return {program: sorted(points) for program, points in lines.items()}


def report(data):
    """Markdown: a table for each sweep, of medians."""
    parts = [peers.machine_line(data["machine"]) + f"; medians of {data['rounds']} rounds.\n"]
    for sweep in SWEEPS:
        lines = series(data["rows"], sweep)
        if not lines:
            continue
        _, x_name, _, y_name = SWEEPS[sweep]
        parts += [f"{common.title(data['model'])}, {y_name}:\n",
                  f"| {x_name} | " + " | ".join(common.TITLES.get(p, p) for p in lines) + " |",
                  "|---:|" + "---:|" * len(lines)]  # fmt: skip
        for i, (x, _) in enumerate(lines["qkv"]):
            parts.append(f"| {x} | " + " | ".join(svg.number(points[i][1]) for points in lines.values()) + " |")
        parts.append("")
    return "\n".join(parts) + "\n"


def chart(data):
    panels = []
    for sweep, (_, x_name, _, y_name) in SWEEPS.items():
        lines = [svg.Line(common.TITLES.get(p, p), points) for p, points in series(data["rows"], sweep).items()]
        if lines:
            panels.append((sweep, x_name, y_name, lines))
    return svg.lines(panels, [f"{common.title(data['model'])} in fp32; medians"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", default="vit_base_patch16_224", help="a name of timm's with patches of 16 (default: %(default)s)")
    add(
        "--sizes",
        nargs="*",
        type=int,
        default=[224, 288, 336, 384, 448],
        metavar="N",
        help="sides of the input, multiples of 16",
    )
    add("--batches", nargs="*", type=int, default=[1, 2, 4, 8, 16, 32], metavar="N")
    add("--threads", nargs="*", type=int, default=sorted({1, *(1 << i for i in range(common.CORES.bit_length())), common.CORES}
        & set(range(1, common.CORES + 1))), metavar="N", help="default: powers of two to all cores")  # fmt: skip
    add(
        "--peers",
        nargs="*",
        default=PROGRAMS,
        choices=list(common.PEERS),
        metavar="PEER",
        help=f"default: {' '.join(PROGRAMS)}",
    )
    add("--rounds", type=int, default=9, help="timed passes of each (default: 9)")
    add("--qkv", type=Path, default=common.ROOT / "build/release/qkv", metavar="PROGRAM")
    add("--json", type=Path, default=common.result("scaling.json"), metavar="FILE", help="all times go there")
    add("--svg", type=Path, default=common.result("scaling.svg"), metavar="FILE", help="the chart goes there")
    options = parser.parse_args()
    common.require_program(options.qkv)

    base = {"model": options.model, "batch": 1, "threads": common.CORES, "size": 224}
    sweeps = [("tokens", {**base, "size": size}) for size in options.sizes]
    sweeps += [("batch", {**base, "batch": batch}) for batch in options.batches]
    sweeps += [("threads", {**base, "threads": threads}) for threads in options.threads]
    cases = []  # each once; sweeps overlap
    for _, case in sweeps:
        if case not in cases:
            cases.append(case)
    data = {"machine": common.machine(common.CORES), "model": options.model, "rounds": options.rounds, "rows": []}
    for case in cases:
        rows, left_out = common.measure(options.qkv, case, common.entries(options.peers, ["fp32"]), options.rounds)
        if left_out:
            sys.exit("\n".join(f"{x['program']}: {x['why']}" for x in left_out))
        names = [sweep for sweep, swept in sweeps if swept == case]
        data["rows"] += [{**row, "sweeps": names} for row in rows]
        common.write_json(options.json, data)
    print(report(data))
    common.write(options.svg, chart(data))
    wrong = [r for r in data["rows"] if not peers.agrees(r)]
    for r in wrong:
        print(f"{peers.heading(r)}: logits of {r['program']} differ by {r['difference']:.1e}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
