"""Times one training step of ViTs in qkv and in PyTorch, interleaved: eager, compiled, in fp32 and by bf16 autocast.

    python bench/train.py [--shapes D,L,H,PATCH,IMAGE,BATCH…] [--precisions P…] [--rounds N]

A step is forward, loss, backward and AdamW on a batch that lies ready. Each contender is a process of its own that
stays: a round asks each of them once for one timed step, in an order that changes. What cannot run here is left out,
with the reason. Memory is the most that a process had, less what it had before it made a model.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

import common
import peers

PROGRAMS = ["pytorch-eager", "pytorch-compile"]
PRECISIONS = ["fp32", "bf16"]
# The shapes of the project's aims.
SHAPES = ["128,6,4,4,32,128", "192,9,3,4,32,64", "384,12,6,16,224,8"]


def shape(text):
    numbers = text.split(",")
    if len(numbers) != 6 or not all(n.isdigit() and int(n) > 0 for n in numbers):
        raise argparse.ArgumentTypeError(f"expected D,L,H,PATCH,IMAGE,BATCH, got {text!r}")
    return text


def parameters(text):
    """Number of parameters of timm's VisionTransformer with ten classes."""
    width, depth, _, patch, image, _ = (int(x) for x in text.split(","))
    block = 12 * width**2 + 13 * width
    embedding = (3 * patch**2 + 1) * width + width + ((image // patch) ** 2 + 1) * width
    return embedding + depth * block + 2 * width + 10 * width + 10


def heading(text):
    width, depth, heads, patch, image, batch = text.split(",")
    return f"width {width}, {depth} blocks of {heads} heads, {image}×{image} in patches of {patch}×{patch}, batch {batch}"


def start(qkv, program, precision, text, threads, folder):
    """A ready Contender, and the memory of its process before the model was created. Raises RuntimeError, with the
    reason, if this cannot run here."""
    key = f"{program}-{precision}"
    log = folder / f"{key}.log"
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    if program == "qkv":
        command = [qkv, "bench", "--train", text, "--dtype", precision, "--threads", threads, "--stdin"]
    else:
        command = [sys.executable, common.ROOT / "bench/train_peer.py", program, precision, text, threads]
    with open(log, "w") as log_file:
        contender = common.Contender(key, command, environment, log_file)
    try:
        if program == "qkv":
            contender.ask()
            return contender, 0
        word, _, before = contender.line().partition(" ")
        if word != "ready":
            raise RuntimeError(f"{key} did not say that it is ready")
        return contender, int(before)
    except (RuntimeError, BrokenPipeError):
        contender.close()
        raise RuntimeError(common.last_words(log)) from None


def measure(options, text):
    """(rows, left_out) of one shape, as of common.measure; rows also have "memory", in bytes."""
    label = heading(text)
    case = {"shape": text, "batch": int(text.split(",")[-1]), "threads": options.threads}
    running, rows, left_out = [], [], []
    with tempfile.TemporaryDirectory(prefix="qkv-bench-") as temporary:
        try:
            for precision in options.precisions:
                for program in ["qkv", *options.peers]:
                    common.progress(f"{label}: starting {program} {precision}")
                    try:
                        contender, before = start(options.qkv, program, precision, text, options.threads,
                                                  Path(temporary))  # fmt: skip
                        running.append((program, precision, contender, before))
                    except RuntimeError as why:
                        left_out.append({"program": program, "precision": precision, "why": str(why)})
            common.take_turns([contender for _, _, contender, _ in running], options.rounds, 2, label)
            for program, precision, contender, before in running:
                rows.append({**case, "program": program, "precision": precision, "best": min(contender.times),
                             "median": statistics.median(contender.times), "times": contender.times,
                             "memory": common.memory(contender.process.pid)["VmHWM"] - before})  # fmt: skip
        finally:
            for _, _, contender, _ in running:
                contender.close()
    return rows, left_out


def fastest(rows):
    """The fastest over all precisions, by median."""
    return min((r for r in rows if r["program"] != "qkv"), key=lambda r: r["median"], default=None)


def table(rows):
    """Markdown of one shape. PyTorch's fastest over all precisions is bold; ratios are to qkv at the row's precision."""
    lines = [
        "| precision | program | best, ms | median, ms | images/s | qkv is faster, by best | by median | memory, MiB "
        "| above 16 bytes a parameter |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    states = 16 * parameters(rows[0]["shape"])  # weights, gradients, two moments
    for r in rows:
        strong = "**" if r is fastest(rows) else ""
        name = common.TITLES.get(r["program"], r["program"])
        by = ["", ""]
        if r["program"] != "qkv":
            by = [f"{strong}{x:.2f}×{strong}" if x else "" for x in peers.ratios(r, rows)]
        lines.append(f"| {r['precision']} | {strong}{name}{strong} | {r['best']:.2f} | {r['median']:.2f} "
                     f"| {1e3 * r['batch'] / r['median']:.1f} | {by[0]} | {by[1]} | {r['memory'] / 2**20:.0f} "
                     f"| {(r['memory'] - states) / 2**20:.0f} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def verdict(rows):
    """qkv's fastest against PyTorch's fastest, each over all precisions."""
    own = min((r for r in rows if r["program"] == "qkv"), key=lambda r: r["median"], default=None)
    other = fastest(rows)
    if own is None or other is None:
        return ""
    return (f"qkv's fastest ({own['precision']}) takes {own['median']:.2f} ms, PyTorch's fastest "
            f"({common.TITLES[other['program']]}, {other['precision']}) {other['median']:.2f} ms: "
            f"{other['median'] / own['median']:.2f} times by median, {other['best'] / own['best']:.2f} by best.\n")  # fmt: skip


def report(data):
    """Markdown from this program's JSON."""
    parts = [f"{peers.machine_line(data['machine'])}; {data['rounds']} rounds.\n"]
    for text in dict.fromkeys(row["shape"] for row in data["rows"]):
        rows = [row for row in data["rows"] if row["shape"] == text]
        parts += [f"#### {heading(text)}\n", table(rows), verdict(rows)]
    reasons = {f"Left out: {common.TITLES.get(x['program'], x['program'])} {x['precision']} ({x['why']})."
               for x in data["left_out"]}  # fmt: skip
    return "\n".join(parts + sorted(reasons)) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--shapes", nargs="+", type=shape, default=SHAPES, metavar="D,L,H,PATCH,IMAGE,BATCH",
        help=f"default: {' '.join(SHAPES)}")  # fmt: skip
    add("--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS, metavar="P", help="default: fp32 bf16")
    add("--peers", nargs="+", default=PROGRAMS, choices=PROGRAMS, metavar="PEER", help=f"default: {' '.join(PROGRAMS)}")
    add("--rounds", type=int, default=20, help="timed steps of each (default: 20)")
    add("--threads", type=int, default=common.CORES, help="of each contender (default: all cores)")
    add("--qkv", type=Path, default=common.ROOT / "build/release/qkv", metavar="PROGRAM")
    add("--json", type=Path, default=common.result("train.json"), metavar="FILE", help="all times go there")
    add("--output", type=Path, metavar="FILE", help="write the Markdown there as well as on stdout")
    options = parser.parse_args()
    common.require_program(options.qkv)

    data = {"machine": common.machine(options.threads), "rounds": options.rounds, "rows": [], "left_out": []}
    for text in options.shapes:
        rows, left_out = measure(options, text)
        data["rows"] += rows
        data["left_out"] += left_out
        common.write_json(options.json, data)
    text = report(data)
    print(text)
    if options.output:
        common.write(options.output, text)


if __name__ == "__main__":
    main()
