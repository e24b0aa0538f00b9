"""Times one forward pass of ViTs in qkv and in its peers, interleaved, and checks that all give the same answer.

    python bench/peers.py [--models NAME…] [--batches N…] [--precisions P…] [--peers NAME…] [--rounds N]

Peers are PyTorch (eager; compiled; compiled with frozen weights; bf16 by autocast; int8 by dynamic
quantisation), ONNX Runtime (fp32; int8 by dynamic quantisation) and OpenVINO (fp32; bf16; int8 by
NNCF, calibrated). All run the same weights on the same pixels, each in a process of its own that
stays: a round asks each of them once for one timed pass, in an order that changes. What cannot run
here is left out, with the reason.

Photos in $QKV_DATA/photos are the pixels and the calibration; without them, both are random.
"""

import argparse
import sys
from pathlib import Path

import common

FP32_TOLERANCE = 1e-4  # of the greatest |logit|: float32 summed in another order, twelve blocks deep
# A greater difference means another function. For the accuracy of a precision see `qkv evaluate`.
COSINE_FLOORS = {"bf16": 0.999, "int8": 0.99}


def agrees(row):
    if row["precision"] == "fp32":
        return row["difference"] <= FP32_TOLERANCE
    return row["cosine"] >= COSINE_FLOORS[row["precision"]]


def cases(rows):
    """[rows of one case], in order of measurement"""
    groups = {}
    for row in rows:
        groups.setdefault((row["model"], row["size"], row["batch"], row["threads"]), []).append(row)
    return list(groups.values())


def ratios(row, rows):
    """How many times faster qkv is than this row at the same precision, by best and by median; None if qkv was not measured."""
    own = [r for r in rows if r["program"] == "qkv" and r["precision"] == row["precision"]]
    return (row["best"] / own[0]["best"], row["median"] / own[0]["median"]) if own else (None, None)


def rival(rows, precision, kind):
    """The peer with the least best or median time at a precision, or None."""
    peers = [r for r in rows if r["precision"] == precision and r["program"] in common.PEERS]
    return min(peers, key=lambda r: r[kind]) if peers else None


def heading(row):
    return f"{common.title(row['model'])} at {row['size']}, batch {row['batch']}"


def table(rows):
    """Markdown of one case. The ratios to the fastest peer at each precision are bold, by best and by median."""
    lines = [
        "| precision | program | best, ms | median, ms | images/s | qkv is faster, by best | by median | logits |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for r in rows:
        name = common.TITLES.get(r["program"], r["program"])
        by = ["", ""]
        if r["program"] != "qkv":
            for i, (kind, ratio) in enumerate(zip(("best", "median"), ratios(r, rows))):
                strong = "**" if r is rival(rows, r["precision"], kind) else ""
                by[i] = f"{strong}{ratio:.2f}×{strong}" if ratio else ""
        logits = f"differ by {r['difference']:.0e}" if r["precision"] == "fp32" else f"cosine {r['cosine']:.5f}"
        lines.append(
            f"| {r['precision']} | {name} | {r['best']:.2f} | {r['median']:.2f} "
            f"| {1e3 * r['batch'] / r['median']:.1f} | {by[0]} | {by[1]} | {logits} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def machine_line(machine):
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    held = f" under QKV_ISA={machine['isa']}" if "isa" in machine else ""
    peers_held = f", peers restricted to {common.ISAS[machine['peers_isa']]}" if "peers_isa" in machine else ""
    return (f"{machine['processor']} ({machine['family']}; {', '.join(machine['instructions'])}), {machine['threads']} "
            f"threads; qkv {machine['commit']}{held}, {versions}{peers_held}; {machine['date']}")  # fmt: skip


def report(data):
    """Markdown from this program's JSON."""
    first = data["rows"][0]
    parts = [machine_line(data["machine"]) + f"; {data['rounds']} rounds. OpenVINO's int8 was calibrated on "
             f"{first['calibration']}.\n"]  # fmt: skip
    for rows in cases(data["rows"]):
        parts += [f"### {heading(rows[0])}\n", table(rows)]
    reasons = {f"Left out: {common.TITLES.get(x['program'], x['program'])} {x['precision']} ({x['why']})."
               for x in data["left_out"]}  # fmt: skip
    return "\n".join(parts + sorted(reasons)) + "\n"


def chart(data):
    """SVG: a panel for each case; bars are solid to the best and pale to the median."""
    import svg

    panels = []
    for rows in cases(data["rows"]):
        groups = []
        for precision in common.PRECISIONS:
            bars = []
            for r in rows:
                if r["precision"] == precision:
                    ratio = "" if r["program"] == "qkv" else ratios(r, rows)[1]
                    bars.append(svg.Bar(common.TITLES.get(r["program"], r["program"]), r["best"], r["median"],
                                        f"{ratio:.2f}×" if ratio else "", r["program"] not in common.PEERS))  # fmt: skip
            if bars:
                groups.append((precision, bars))
        panels.append((heading(rows[0]), groups))
    return svg.bars(panels, ["Milliseconds a pass: best (solid) / median (pale);",
                             "factor: the program's median over qkv's at the same precision."])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--models", nargs="+", default=["vit_base_patch16_224", "vit_tiny_patch16_224"], metavar="MODEL",
        help="names of timm's, with random weights, or folders of checkpoints in timm's layout")  # fmt: skip
    add("--batches", nargs="+", type=int, default=[1, 8], metavar="N", help="images a pass (default: 1 8)")
    add("--precisions", nargs="+", default=common.PRECISIONS, choices=common.PRECISIONS, metavar="P",
        help="fp32, bf16, int8 (default: all)")  # fmt: skip
    add("--peers", nargs="+", default=list(common.PEERS), choices=list(common.PEERS), metavar="PEER",
        help=f"default: all of {', '.join(common.PEERS)}")  # fmt: skip
    add("--variant", action="append", default=[], type=common.parse_variant, metavar="'NAME: FLAGS'",
        help="also measure qkv with these flags of `qkv bench` and `qkv run`; variables may stand before the flags: "
             "--variant 'qkv AVX2: QKV_ISA=avx2'")  # fmt: skip
    add("--rounds", type=int, default=20, help="timed passes of each (default: 20)")
    add("--threads", type=int, default=common.CORES, help="of each contender (default: all cores)")
    add("--qkv", type=Path, default=common.ROOT / "build/release/qkv", metavar="PROGRAM")
    add("--json", type=Path, default=common.result("peers.json"), metavar="FILE", help="all times go there")
    add("--output", type=Path, metavar="FILE", help="write the Markdown there as well as on stdout")
    add("--svg", type=Path, default=common.result("peers.svg"), metavar="FILE", help="the chart goes there")
    options = parser.parse_args()
    common.require_program(options.qkv)

    data = {"machine": common.machine(options.threads), "rounds": options.rounds, "rows": [], "left_out": []}
    for model in options.models:
        for batch in options.batches:
            case = {"model": model, "batch": batch, "threads": options.threads, "size": None}
            chosen = common.entries(options.peers, options.precisions, options.variant)
            rows, left_out = common.measure(options.qkv, case, chosen, options.rounds)
            data["rows"] += rows
            data["left_out"] += left_out
            common.write_json(options.json, data)
    text = report(data)
    print(text)
    if options.output:
        common.write(options.output, text)
    common.write(options.svg, chart(data))
    wrong = [r for r in data["rows"] if not agrees(r)]
    for r in wrong:
        print(f"{heading(r)}: the logits of {r['program']} in {r['precision']} are others: they differ by "
              f"{r['difference']:.1e}, cosine {r['cosine']:.4f}", file=sys.stderr)  # fmt: skip
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
