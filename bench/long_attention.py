"""Times attention alone and a whole Vision Transformer over more and more tokens, in qkv and in PyTorch's fused
scaled_dot_product_attention (with timm), interleaved, and their peak memory.

    python bench/long_attention.py [--tokens N...] [--precisions fp32 bf16] [--works attention pass] [--rounds N]
                                   [--model vit_small_patch16_224] [--qkv PROGRAM] [--timer PROGRAM] [--threads N]

Tokens are patches: a square image of sqrt(N) x sqrt(N) patches for a pass; the model has random weights. Every program is a
process of its own that stays loaded; a round asks each of them for one pass, in an order that changes. A long case has fewer
rounds. Memory is the most that the process has held (VmHWM), with its libraries and weights; that of the fewest tokens shows how
much that is.
"""

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import attention
import common
import peers
from common import PAUSE, ROOT, Contender

WORKS = {"attention": "attention of one block", "pass": "whole pass"}
LONGEST = 120  # s: a case that has taken as long gets no further round


def serve_pass(folder, precision, side, threads):
    """PyTorch's process for a whole pass: see Contender."""
    sys.path.insert(0, str(common.TOOLS))
    import torchvision_stub  # noqa: F401  before timm
    import timm
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = timm.create_model(f"local-dir:{folder}", pretrained=True, dynamic_img_size=True).eval()
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    net, pixels = net.to(dtype), torch.randn(1, 3, side, side, dtype=dtype)
    print("ready", flush=True)
    for _ in sys.stdin:
        before = time.perf_counter()
        with torch.inference_mode():
            net(pixels)
        print(1e3 * (time.perf_counter() - before), flush=True)


def peak(process):
    """MiB that a running process has held at most."""
    for line in open(f"/proc/{process.pid}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def contenders(work, precision, tokens, folder, options, log):
    """qkv's process and PyTorch's, both ready."""
    if work == "attention":
        case = f"1x{options.heads}x{tokens}x64"
        passes = "forward" if precision == "fp32" else "forward-bf16"
        numbers = [str(x) for x in [passes, *attention.parse(case), options.threads]]
        both = [Contender("qkv", [options.timer, *numbers], os.environ, log),
                Contender("PyTorch", [sys.executable, ROOT / "bench/attention.py", "--serve", passes, case,
                                      str(options.threads)], os.environ, log)]  # fmt: skip
        for contender in both:
            if contender.line() != "ready":
                raise RuntimeError(f"{contender.name} did not say that it is ready")
        return both
    side = 16 * math.isqrt(tokens)
    threads = str(options.threads)
    own = [options.qkv, "bench", "-m", folder, "--size", str(side), "--batch", "1", "--dtype", precision, "--threads",
           threads, "--stdin"]  # fmt: skip
    both = [Contender("qkv", own, os.environ, log),
            Contender("PyTorch", [sys.executable, __file__, "--serve", folder, precision, str(side), threads],
                      os.environ | {"OMP_NUM_THREADS": threads}, log)]  # fmt: skip
    if both[1].line() != "ready":
        raise RuntimeError("PyTorch did not say that it is ready")
    return both


def measure(work, precision, tokens, folder, options, log):
    """Rows {"work", "precision", "tokens", "program", "best", "median" (s), "rounds", "memory" (MiB)}, PyTorch's last."""
    both = contenders(work, precision, tokens, folder, options, log)
    start = time.perf_counter()
    for round_ in range(options.rounds):
        if round_ > 0 and time.perf_counter() - start > LONGEST:
            break
        for contender in random.sample(both, len(both)):
            contender.times.append(contender.ask() / 1e3)
            time.sleep(PAUSE)
    rows = [{"work": work, "precision": precision, "tokens": tokens, "program": contender.name,
             "best": min(contender.times), "median": statistics.median(contender.times),
             "rounds": len(contender.times), "memory": peak(contender.process)} for contender in both]  # fmt: skip
    for contender in both:
        contender.close()
    return rows


def report(data):
    """Markdown."""
    lines = [
        peers.machine_line(data["machine"]) + f"; {data['model']}, heads of 64 features; up to {data['rounds']} rounds.",
        "",
        "| work | precision | tokens | qkv, s: best / median | PyTorch, s | faster by best | by median | memory, MiB: qkv "
        "| PyTorch |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for own, other in zip(data["rows"][::2], data["rows"][1::2]):
        times = [f"{row['best']:.3g} / {row['median']:.3g}" for row in (own, other)]
        lines.append(f"| {WORKS[own['work']]} | {own['precision']} | {own['tokens']:,} | {times[0]} | {times[1]} "
                     f"| {other['best'] / own['best']:.2f}× | {other['median'] / own['median']:.2f}× "
                     f"| {own['memory']:.0f} | {other['memory']:.0f} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", nargs="+", type=int, default=[1024, 4096, 16384, 65536])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--works", nargs="+", default=list(WORKS), choices=list(WORKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="vit_small_patch16_224", help="of timm, with patches of 16 pixels")
    parser.add_argument("--heads", type=int, default=6, help="of attention alone")
    parser.add_argument("--qkv", type=Path, default=ROOT / "build/release/qkv")
    parser.add_argument("--timer", type=Path, default=ROOT / "build/bench/bench/qkv_attention_timer")
    parser.add_argument("--threads", type=int, default=common.CORES)
    parser.add_argument("--json", type=Path, default=common.result("long_attention.json"), metavar="FILE")
    options = parser.parse_args()
    if "attention" in options.works:
        common.require_program(options.timer, common.built_by("qkv_attention_timer"))
    if "pass" in options.works:
        common.require_program(options.qkv)
    data = {"machine": common.machine(options.threads), "model": options.model, "rounds": options.rounds, "rows": []}
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as folder:
        if "pass" in options.works:
            common.save_random_model(options.model, Path(folder) / "model")
        for work in options.works:
            for precision in options.precisions:
                for tokens in options.tokens:
                    common.progress(f"long attention: {WORKS[work]}, {precision}, {tokens} tokens")
                    data["rows"] += measure(work, precision, tokens, Path(folder) / "model", options, log)
                    common.write_json(options.json, data)
    common.progress("")
    print(report(data))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_pass(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
