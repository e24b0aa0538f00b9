"""Times attention in qkv and in PyTorch's fused scaled_dot_product_attention, interleaved; prints Markdown.

    python bench/attention.py [--timer PROGRAM] [--rounds N] [--threads N] [--isas ISA...]
                              [--passes PASS...] [--cases CASE...]

A case is B x H [/ KEY HEADS] x QUERIES [: KEYS] x WIDTH [, causal | mask], for example 1x12x197x64 or
1x32/8x1:4096x64. A pass is forward or training (forward and backward), or either with -bf16
(products in bfloat16; PyTorch: tensors in bfloat16). Each contender is a process of its own (qkv once for
each instruction set) that answers a line with the milliseconds of the best of some passes in a row;
a round asks each of them once, in an order that changes. GFLOP/s counts 4 B H N_q N_k E operations
forward and 14 for both passes; `of peak` is their share of what registers alone can do in float
(bench/micro/peak_bench.cc), where that was built.
"""
import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import PAUSE, Contender

ROOT = Path(__file__).resolve().parents[1]
CASES = ["1x12x197x64", "8x12x197x64", "1x16x1024x64", "1x16x4096x64", "1x16x16384x64"]


def parse(case):
    match = re.fullmatch(r"(\d+)x(\d+)(?:/(\d+))?x(\d+)(?::(\d+))?x(\d+)(?:,(causal|mask))?", case)
    if not match:
        raise SystemExit(f"attention.py: cannot read the case {case!r}")
    batch, heads, key_heads, queries, keys, width, kind = match.groups()
    return [int(x) for x in (batch, heads, key_heads or heads, queries, keys or queries, width)] + [kind or "none"]


def serve_pytorch(passes, case, threads):
    """PyTorch's process: see Contender."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    batch, heads, key_heads, queries, keys, width, kind = parse(case)
    training = passes.startswith("training")
    kind_of = {"requires_grad": training, "dtype": torch.bfloat16 if passes.endswith("-bf16") else torch.float32}
    q = torch.randn(batch, heads, queries, width, **kind_of)
    k, v = (torch.randn(batch, key_heads, keys, width, **kind_of) for _ in range(2))
    dout = torch.randn(batch, heads, queries, width, dtype=q.dtype)
    mask = torch.rand(1, 1, queries, keys) < 0.8 if kind == "mask" else None

    def forward():
        return scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=kind == "causal", enable_gqa=heads != key_heads)  # fmt: skip

    def once():
        if training:
            torch.autograd.grad(forward(), (q, k, v), dout)
        else:
            with torch.inference_mode():
                forward()

    once()
    print("ready", flush=True)
    for _ in sys.stdin:
        best, start = float("inf"), time.perf_counter()
        while best == float("inf") or time.perf_counter() - start < 0.03:
            before = time.perf_counter()
            once()
            best = min(best, time.perf_counter() - before)
        print(1e3 * best, flush=True)


def peak(timer, isa, threads):
    """GFLOP/s of multiply-adds on registers, the best of many short runs; None where it was not built."""
    program = timer.parent / "micro" / "qkv_micro_bench"
    if not program.exists():
        return None
    cores = sorted(os.sched_getaffinity(0))[:threads]
    out = subprocess.run(
        [program, "--benchmark_filter=^Peak/", "--benchmark_min_time=0.001", "--benchmark_repetitions=60"],
        capture_output=True, text=True, env=os.environ | {"QKV_ISA": isa},
        preexec_fn=lambda: os.sched_setaffinity(0, cores)).stdout  # fmt: skip
    units = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}
    found = re.findall(r"GFLOP/s=([\d.]+)([kMG]?)", out)
    return max((float(number) * units[unit] for number, unit in found), default=None)


def measure(passes, case, options, log):
    numbers = parse(case)
    arguments = [str(x) for x in [passes, *numbers, options.threads]]
    contenders = [Contender(f"qkv {isa}", [options.timer, *arguments], os.environ | {"QKV_ISA": isa}, log)
                  for isa in options.isas]  # fmt: skip
    command = [sys.executable, __file__, "--serve", passes, case, str(options.threads)]
    contenders.append(Contender("pytorch", command, os.environ, log))
    for contender in contenders:
        if contender.line() != "ready":
            raise RuntimeError(f"{contender.name} did not say that it is ready")
    for _ in range(options.rounds):
        for contender in random.sample(contenders, len(contenders)):
            contender.times.append(contender.ask())
            time.sleep(PAUSE)
    for contender in contenders:
        contender.close()
    batch, heads, _, queries, keys, width, kind = numbers
    work = (14 if passes.startswith("training") else 4) * batch * heads * queries * keys * width / 1e6
    if kind == "causal":
        work /= 2
    theirs = contenders[-1]
    for contender in contenders:
        best, median = min(contender.times), statistics.median(contender.times)
        ratio = min(theirs.times) / best
        of_peak = options.peaks.get(contender.name)
        share = f"{work / best / of_peak:.2f}" if of_peak else ""
        print(f"| {passes} | {case} | {contender.name} | {best:.3f} | {median:.3f} | {work / best:.0f} | {share} "
              f"| {ratio:.2f} | {statistics.median(theirs.times) / median:.2f} |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timer", type=Path, default=ROOT / "build/bench/bench/qkv_attention_timer")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--isas", nargs="+", default=["avx512", "avx2"])
    parser.add_argument("--passes", nargs="+", default=["forward", "training"],
                        choices=["forward", "forward-bf16", "training", "training-bf16"])
    parser.add_argument("--cases", nargs="+", default=CASES)
    options = parser.parse_args()
    options.peaks = {f"qkv {isa}": peak(options.timer, isa, options.threads) for isa in options.isas}
    print("| pass | case | | best, ms | median, ms | GFLOP/s | of peak | PyTorch / it: best | median |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryFile() as log:
        for case in options.cases:
            for passes in options.passes:
                measure(passes, case, options, log)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_pytorch(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
