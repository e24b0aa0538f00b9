"""The thread's example: separate projections, re-associated, merged beforehand; qkv and NumPy in turns.

    python bench/orders.py --qkv build/release/qkv [--rounds 7] [--threads 2]

Scores X W_Q (X W_K)ᵀ of X N×D projected to E, in float64 and float32, at the thread's two sizes. Each round runs every
order once in both, so that both see the same machine; times are the best of all rounds. qkv has its weights packed
beforehand, as inference has. The prediction is that of `qkv qk plan`. Exit status 1 unless, at the large size in
float64, merged is at least twice as fast as separate, the prediction of that ratio within 15 %, and qkv nowhere slower
than NumPy.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import common

SIZES = [(2, 3, 4), (2000, 3000, 4000)]
ORDERS = {"projected": "separate", "absorbed": "re-associated", "merged": "merged beforehand"}


def command(qkv, threads, dtype, size, *more):
    tokens, width, head = size
    return [str(qkv), "qk", "plan", "--tokens", str(tokens), "--width", str(width), "--head-width", str(head), "--read",
            "scores", "--dtype", dtype, "--threads", str(threads), *more]  # fmt: skip


def numpy_orders(dtype, size):
    import numpy as np

    tokens, width, head = size
    random = np.random.default_rng(1)
    kind = {"fp64": np.float64, "fp32": np.float32}[dtype]
    x, w_q, w_k = (random.random(shape).astype(kind) for shape in ((tokens, width), (head, width), (head, width)))
    merged = w_q.T @ w_k
    return {
        "projected": lambda: (x @ w_q.T) @ (x @ w_k.T).T,
        "absorbed": lambda: x @ w_q.T @ w_k @ x.T,
        "merged": lambda: x @ merged @ x.T,
    }


def measure(qkv, threads, dtype, size, rounds):
    """{order: {"qkv_ms", "numpy_ms", "predicted_ms"}}, the best of all rounds."""
    plan = json.loads(subprocess.run(command(qkv, threads, dtype, size, "--json"), check=True, capture_output=True).stdout)
    found = {one["scores"]: {"predicted_ms": one["predicted_ms"], "multiply_adds": one["multiply_adds"], "qkv_ms": [],
                             "numpy_ms": []} for one in plan["orders"] if one["scores"] in ORDERS}  # fmt: skip
    peers = numpy_orders(dtype, size)
    program = subprocess.Popen(command(qkv, threads, dtype, size, "--stdin"), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, bufsize=1)  # fmt: skip
    for round in range(rounds + 1):
        for order in ORDERS:
            program.stdin.write(order + "\n")
            program.stdin.flush()
            mine = float(program.stdout.readline())
            begin = time.perf_counter()
            peers[order]()
            theirs = 1e3 * (time.perf_counter() - begin)
            time.sleep(common.PAUSE if size[0] > 100 else 0)
            if round > 0:  # round 0 warms up memory
                found[order]["qkv_ms"].append(mine)
                found[order]["numpy_ms"].append(theirs)
    program.stdin.close()
    program.wait()
    for one in found.values():
        one["qkv_ms"], one["numpy_ms"] = min(one["qkv_ms"]), min(one["numpy_ms"])
    return found


def milliseconds(value):
    return f"{1e3 * value:.1f} µs" if value < 1 else f"{value:.0f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", type=Path, default=common.ROOT / "build/release/qkv")
    parser.add_argument("--threads", type=int, default=common.CORES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dtype", nargs="+", choices=["fp64", "fp32"], default=["fp64", "fp32"])
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)  # before NumPy is imported
    common.require_program(options.qkv)
    results, wrong = [], []
    print("| N×D→E | type | order | multiply-adds | qkv | NumPy | predicted | separate / this, qkv | predicted |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|")
    for size in SIZES:
        for dtype in options.dtype:
            rounds = options.rounds if size[0] > 100 else 300
            found = measure(options.qkv, options.threads, dtype, size, rounds)
            base = found["projected"]
            name = f"{size[0]}×{size[1]}→{size[2]}"
            for order, one in found.items():
                ratio, predicted = base["qkv_ms"] / one["qkv_ms"], base["predicted_ms"] / one["predicted_ms"]
                results.append({"size": size, "dtype": dtype, "order": order, **one})
                print(f"| {name} | {dtype} | {ORDERS[order]} | {one['multiply_adds']:.3g} | {milliseconds(one['qkv_ms'])} "
                      f"| {milliseconds(one['numpy_ms'])} | {milliseconds(one['predicted_ms'])} | {ratio:.2f} "
                      f"| {predicted:.2f} |")  # fmt: skip
                if one["qkv_ms"] > one["numpy_ms"]:
                    wrong.append(f"{name} {dtype} {ORDERS[order]}: slower than NumPy")
                if (dtype, order) == ("fp64", "merged") and size[0] > 100:
                    if ratio < 2:
                        wrong.append(f"merged is {ratio:.2f} times as fast, expected 2")
                    if abs(predicted / ratio - 1) > 0.15:
                        wrong.append(f"predicted {predicted:.2f} times, measured {ratio:.2f}")
    if options.json:
        common.write_json(options.json, {"machine": common.machine(options.threads), "orders": results})
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
