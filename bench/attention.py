"""Times attention in qkv and in PyTorch's fused scaled_dot_product_attention, interleaved.

    python bench/attention.py [--timer PROGRAM] [--rounds N] [--threads N] [--isas ISA...]
                              [--passes PASS...] [--cases CASE...]

A case is B x H [/ KEY HEADS] x QUERIES [: KEYS] x WIDTH [, causal | mask | windowN | bandN], for
example 1x12x197x64 or 1x32/8x1:4096x64. In windowN a query sees N keys to either side; bandN is the
same as a mask, and what PyTorch has for both. A pass is forward, training (forward and backward) or
gradient (backward alone), or one of them with -bf16 (products in bfloat16; PyTorch: tensors in
bfloat16). Each contender is a process of its own (qkv once for each instruction set) that answers a
line with the milliseconds of the best of some passes in a row; a round asks each of them once, in an
order that changes. GFLOP/s counts 4 B H N_q N_k E operations forward, 10 backward, of visible keys;
`of peak` is their share of what registers alone can do in float (bench/micro/peak_bench.cc). With
QKV_ISA set, that instruction set is the only one unless --isas names others, and the results lie
beside the others' (attention-avx2.json).
"""

import argparse
import os
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import common
import peers
import svg
from common import PAUSE, ROOT, Contender

PASSES = {
    "forward": "forward",
    "forward-bf16": "forward, bfloat16",
    "training": "forward and backward",
    "training-bf16": "forward and backward, bfloat16",
    "gradient": "backward",
    "gradient-bf16": "backward, bfloat16",
}
# Shapes of ViTs, long rows, and few heads: fewer than threads, or not a multiple.
CASES = ["1x12x197x64", "8x12x197x64", "1x16x1024x64", "1x16x4096x64", "1x16x16384x64", "1x3x197x64", "1x1x4096x64"]


LEAST_ROUNDS, LONGEST = 3, 60  # long passes get fewer rounds once a case has taken LONGEST seconds


def parse(case):
    match = re.fullmatch(r"(\d+)x(\d+)(?:/(\d+))?x(\d+)(?::(\d+))?x(\d+)(?:,(causal|mask|window\d+|band\d+))?", case)
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
    backward = not passes.startswith("forward")
    kind_of = {"requires_grad": backward, "dtype": torch.bfloat16 if passes.endswith("-bf16") else torch.float32}
    q = torch.randn(batch, heads, queries, width, **kind_of)
    k, v = (torch.randn(batch, key_heads, keys, width, **kind_of) for _ in range(2))
    dout = torch.randn(batch, heads, queries, width, dtype=q.dtype)
    mask = torch.rand(1, 1, queries, keys) < 0.8 if kind == "mask" else None
    if near := re.fullmatch(r"(?:window|band)(\d+)", kind):
        distance = (torch.arange(queries)[:, None] - torch.arange(keys)).abs()
        mask = (distance <= int(near[1]))[None, None]

    def forward():
        return scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=kind == "causal", enable_gqa=heads != key_heads)  # fmt: skip

    out = forward() if passes.startswith("gradient") else None

    def once():
        if backward:
            torch.autograd.grad(forward() if out is None else out, (q, k, v), dout, retain_graph=out is not None)
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
    """GFLOP/s of multiply-adds on registers, the best of many short runs."""
    program = timer.parent / "micro" / "qkv_micro_bench"
    common.require_program(program, f"{common.built_by('qkv_micro_bench')}; the column `of peak` needs it")
    out = common.output(
        [program, "--benchmark_filter=^Peak/", "--benchmark_min_time=0.001", "--benchmark_repetitions=60"],
        env=os.environ | {"QKV_ISA": isa}, preexec_fn=common.keep_to_cores(threads))  # fmt: skip
    units = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}
    found = re.findall(r"GFLOP/s=([\d.]+)([kMG]?)", out)
    return max(float(number) * units[unit] for number, unit in found)


def measure(passes, case, options, log):
    """Rows {"pass", "case", "program", "best", "median" (ms), "times", "gflops", "of_peak"}, PyTorch's last."""
    numbers = parse(case)
    arguments = [str(x) for x in [passes, *numbers, options.threads]]
    contenders = [Contender(f"qkv, {isa}", [options.timer, *arguments], os.environ | {"QKV_ISA": isa}, log)
                  for isa in options.isas]  # fmt: skip
    command = [sys.executable, __file__, "--serve", passes, case, str(options.threads)]
    contenders.append(Contender("PyTorch", command, os.environ, log))
    for contender in contenders:
        if contender.line() != "ready":
            raise RuntimeError(f"{contender.name} did not say that it is ready")
    start = time.perf_counter()
    for round_ in range(options.rounds):
        if round_ >= LEAST_ROUNDS and time.perf_counter() - start > LONGEST:
            break
        for contender in random.sample(contenders, len(contenders)):
            contender.times.append(contender.ask())
            time.sleep(PAUSE)
    for contender in contenders:
        contender.close()
    batch, heads, _, queries, keys, width, kind = numbers
    operations = {"forward": 4, "gradient": 10, "training": 14}[passes.partition("-")[0]]
    work = operations * batch * heads * queries * keys * width / 1e6
    if kind == "causal":
        work /= 2
    if kind.startswith(("window", "band")):
        side = int(re.sub(r"\D", "", kind))
        seen = sum(max(0, min(keys, i + side + 1) - max(0, i - side)) for i in range(queries))
        work *= seen / (queries * keys)
    rows = []
    for contender in contenders:
        best, peak_ = min(contender.times), options.peaks.get(contender.name)
        rows.append({"pass": passes, "case": case, "program": contender.name, "best": best,
                     "median": statistics.median(contender.times), "times": contender.times, "gflops": work / best,
                     "of_peak": work / best / peak_ if peak_ else None})  # fmt: skip
    return rows


def cases(rows):
    """{(pass, case): rows}"""
    groups = {}
    for row in rows:
        groups.setdefault((row["pass"], row["case"]), []).append(row)
    return groups


def ratio(row, rows, key):
    """PyTorch's time divided by this row's."""
    return rows[-1][key] / row[key]


def report(data):
    """Markdown. bfloat16 passes have no share of the peak, as their softmax is in float."""
    lines = [
        peers.machine_line(data["machine"]) + f"; best and median of {data['rounds']} rounds (fewer for long passes), each the best of 30 ms.",
        "",
        "| pass | B×H×N×E | program | best, ms | median, ms | GFLOP/s | of peak | faster than PyTorch, by best | by median |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (passes, case), rows in cases(data["rows"]).items():
        for row in rows:
            by = [f"{ratio(row, rows, key):.2f}×" if row is not rows[-1] else "" for key in ("best", "median")]
            share = f"{row['of_peak']:.2f}" if row["of_peak"] and not passes.endswith("bf16") else ""
            lines.append(f"| {PASSES[passes]} | {case.replace('x', '×')} | {row['program']} | {row['best']:.3g} "
                         f"| {row['median']:.3g} | {row['gflops']:.0f} | {share} | {by[0]} | {by[1]} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def chart(data):
    """SVG: a panel for each pass; bars are solid to the best and pale to the median."""
    panels = {}
    for (passes, case), rows in cases(data["rows"]).items():
        unit = rows[-1]["median"]  # cases differ by a factor of 10,000: each is drawn in PyTorch's time
        bars = [svg.Bar(row["program"], row["best"] / unit, row["median"] / unit,
                        f"{ratio(row, rows, 'median'):.2f}×" if row is not rows[-1] else "", row is not rows[-1])
                for row in rows]  # fmt: skip
        panels.setdefault(passes, []).append((case.replace("x", "×"), bars))
    return svg.bars([(PASSES[passes], groups) for passes, groups in panels.items()],
                    ["Time of attention, batch × heads × tokens × width of a head, in PyTorch's median time:",
                     "best (solid) / median (pale); factor: PyTorch's median over qkv's."])  # fmt: skip


def main():
    instructions = common.machine(common.CORES)["instructions"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timer", type=Path, default=ROOT / "build/bench/bench/qkv_attention_timer")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=common.CORES)
    best = common.best_isa(instructions)
    isas = [common.ISA] if common.ISA else [best, *(["avx2"] if best in ("avx512", "amx") else [])]
    parser.add_argument("--isas", nargs="+", default=isas, choices=list(common.ISAS))
    parser.add_argument("--passes", nargs="+", default=["forward", "forward-bf16", "training", "training-bf16"],
        choices=list(PASSES))  # fmt: skip
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--json", type=Path, default=common.result("attention.json"), metavar="FILE")
    parser.add_argument("--svg", type=Path, default=common.result("attention.svg"), metavar="FILE")
    options = parser.parse_args()
    common.require_program(options.timer, common.built_by("qkv_attention_timer"))
    options.peaks = {f"qkv, {isa}": peak(options.timer, isa, options.threads) for isa in options.isas}
    data = {"machine": common.machine(options.threads), "rounds": options.rounds, "rows": []}
    with tempfile.TemporaryFile() as log:
        for passes in options.passes:
            for case in options.cases:
                common.progress(f"attention: {PASSES[passes]}, {case}")
                data["rows"] += measure(passes, case, options, log)
                common.write_json(options.json, data)
    common.progress("")
    print(report(data))
    common.write(options.svg, chart(data))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_pytorch(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
