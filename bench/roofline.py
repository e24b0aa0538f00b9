"""The linear layers of ViT-B/16 against what this machine can do: a table of fractions and a roofline picture.

    [QKV_ISA=avx2] python bench/roofline.py [--repetitions N] [--program build/bench/bench/micro/qkv_micro_bench]

Runs the micro-benchmarks of the peaks (multiply-adds on registers, memory passing through) and of the
layers in turns, so that both come from the same minutes. 197 rows are batch 1, 1576 are batch 8; 1 and
8 rows are what is left of the last block when only the class token is read. A layer's operations a
byte count its weights, inputs and outputs once each. The peak of a table is the greatest of all turns;
since the clock changes meanwhile, layers of 197 rows and more in float are also measured against the peak
of the millisecond after each product ("of its moment's": the median). Under QKV_ISA the peaks are those of that
instruction set, and the results lie beside the others (roofline-avx2.json).
"""

import argparse
import json
import re
import statistics
import tempfile
from pathlib import Path

import common
import peers
import svg

LAYERS = {(2304, 768): "q, k, v", (768, 768): "projection", (3072, 768): "MLP up", (768, 3072): "MLP down"}
WEIGHT_BYTES = {"fp32": 4, "bf16": 2, "int8": 1}
# The least instruction set with each instruction (bench/micro/dot_peak_bench.cc lists those of the machine).
NEEDS = {"AVX2": "avx2", "AVX_VNNI": "avxvnni", "AVX512_BF16": "avx512", "AVX512_VNNI": "avx512", "AMX": "amx"}
LAYER = re.compile(r"Layer(Bf16|Int8|)/M:(\d+)/N:(\d+)/K:(\d+)/")
PEAK = re.compile(r"Peak(Bf16|Int8|)(?:/(\w+))?/real_time")
MEMORY = re.compile(r"Memory(\w+)/real_time")


def precision(word):
    return word.lower() or "fp32"


def usable(instruction, isa):
    """`isa`: the one that qkv is restricted to, or None."""
    order = list(common.ISAS)
    return isa is None or order.index(NEEDS[instruction]) <= order.index(isa)


def run(program, filter_, threads, repetitions, seconds):
    """{benchmark's name: [[GFLOP/s or GB/s, share of the moment's peak or None]]} of those that match the filter, interleaved"""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [program, f"--benchmark_filter={filter_}", f"--benchmark_repetitions={repetitions}",
                   "--benchmark_enable_random_interleaving=true", f"--benchmark_min_time={seconds}",
                   f"--benchmark_out={out}", "--benchmark_out_format=json"]  # fmt: skip
        common.progress(f"measuring {filter_} in turns")
        common.output(command, preexec_fn=common.keep_to_cores(threads))
        common.progress("")
        rates = {}
        for one in json.loads(out.read_text())["benchmarks"]:
            if one["run_type"] == "iteration":
                rates.setdefault(one["name"], []).append([one.get("GFLOP/s", one.get("GB/s")), one.get("of_peak_then")])
        return rates


def summarise(rates, isa):
    """{"peaks": {precision: {instruction: GFLOP/s}}, "memory": {kind: GB/s}, "layers": [{…, "best", "median", "of_peak_then"}]}"""
    found = {"peaks": {}, "memory": {}, "layers": []}
    for name, turns in rates.items():
        values, shares = zip(*turns)
        if match := PEAK.match(name):
            if match[2] and not usable(match[2], isa):
                continue
            found["peaks"].setdefault(precision(match[1]), {})[match[2] or "FMA"] = max(values)
        elif match := MEMORY.match(name):
            found["memory"][match[1].lower()] = max(values)
        elif match := LAYER.match(name):
            M, N, K = (int(match[i]) for i in (2, 3, 4))
            found["layers"].append({"precision": precision(match[1]), "M": M, "N": N, "K": K, "best": max(values),
                                    "median": statistics.median(values),
                                    "of_peak_then": None if None in shares else statistics.median(shares)})  # fmt: skip
    order = list(WEIGHT_BYTES)
    found["layers"].sort(
        key=lambda one: (order.index(one["precision"]), one["M"], list(LAYERS).index((one["N"], one["K"])))
    )
    found["peaks"] = {kind: found["peaks"][kind] for kind in order if kind in found["peaks"]}
    return found


def fastest(data, kind):
    """(GFLOP/s, instruction); a precision without instructions here, or with slower ones, is computed in fp32."""
    return max(
        (rate, name) for peaks in (data["peaks"].get(kind, {}), data["peaks"]["fp32"]) for name, rate in peaks.items()
    )


def peak(data, kind):
    return fastest(data, kind)[0]


def bandwidth(data):
    return max(data["memory"].values())


def intensity(layer):
    """Operations per byte of traffic: weights in their precision, inputs and outputs as floats."""
    M, N, K = layer["M"], layer["N"], layer["K"]
    return 2 * M * N * K / (N * K * WEIGHT_BYTES[layer["precision"]] + 4 * (M * K + M * N))


def limit(data, layer):
    """GFLOP/s limit of the roofline."""
    return min(peak(data, layer["precision"]), bandwidth(data) * intensity(layer))


def one_after_the_other(data, kind, rows, key):
    """GFLOP/s of the layers of a block together at this number of rows, by this key; None if not measured."""
    layers = [layer for layer in data["layers"] if (layer["precision"], layer["M"]) == (kind, rows)]
    if any(layer.get(key) is None for layer in layers):
        return None
    work = [layer["N"] * layer["K"] for layer in layers]
    return sum(work) / sum(w / layer[key] for w, layer in zip(work, layers))


def together(data, kind, rows, key="best"):
    """Share of the peak of the layers of a block together at this number of rows, by best or median."""
    return one_after_the_other(data, kind, rows, key) / peak(data, kind)


def of_moment(data, rows):
    """Share of the simultaneous peaks in fp32, or None."""
    return one_after_the_other(data, "fp32", rows, "of_peak_then")


def report(data):
    """Markdown."""
    peaks = ", ".join(
        f"{kind} {number:.0f} ({name})" for kind in data["peaks"] for name, number in data["peaks"][kind].items()
    )
    moments = of_moment(data, 197) is not None
    parts = [peers.machine_line(data["machine"]) + ".\n",
             f"Peaks, GFLOP/s: {peaks}. Memory, GB/s: "
             + ", ".join(f"{kind} {number:.1f}" for kind, number in data["memory"].items()) + ".\n",
             "| precision | layer | N×K | rows | GFLOP/s, best | median | of the peak | "
             + "of its moment's | " * moments + "of the roofline |",
             "|---|---|---|" + "---:|" * (5 + moments)]  # fmt: skip
    for layer in data["layers"]:
        then = layer.get("of_peak_then")
        parts.append(f"| {layer['precision']} | {LAYERS[layer['N'], layer['K']]} | {layer['N']}×{layer['K']} | {layer['M']} "
                     f"| {layer['best']:.0f} | {layer['median']:.0f} | {layer['best'] / peak(data, layer['precision']):.2f} | "
                     + (f"{then:.2f} | " if then else " | " * moments)
                     + f"{layer['best'] / limit(data, layer):.2f} |")  # fmt: skip
    kinds = dict.fromkeys(layer["precision"] for layer in data["layers"])
    sums = [f"{kind} {together(data, kind, 197):.2f} and {together(data, kind, 1576):.2f}" for kind in kinds]
    parts.append(f"\nAll layers of a block together, of the peak at 197 and at 1576 rows: {', '.join(sums)}.")
    if moments:
        parts[-1] += f" Of their moments' peaks: fp32 {of_moment(data, 197):.2f} and {of_moment(data, 1576):.2f}."
    return "\n".join(parts) + "\n"


def chart(data):
    best = {kind: fastest(data, kind) for kind in data["peaks"]}
    roofs = [(f"{kind} {name}", rate) for kind, (rate, name) in best.items() if name in data["peaks"][kind]]
    points = [(layer["precision"], intensity(layer), layer["best"], layer["M"],
               f"{LAYERS[layer['N'], layer['K']]}, {layer['M']} rows: {layer['best']:.0f} GFLOP/s")
              for layer in data["layers"]]  # fmt: skip
    held = f" in {common.ISAS[data['machine']['isa']]}" if "isa" in data["machine"] else ""
    return svg.roofline(
        roofs,
        bandwidth(data),
        points,
        [f"Linear layers of ViT-B/16{held}, best GFLOP/s. The numbers are rows: 197 are batch 1, 1576 are batch 8."],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--program", type=Path, default=common.ROOT / "build/bench/bench/micro/qkv_micro_bench", metavar="PROGRAM")
    add("--threads", type=int, default=common.CORES, help="default: all cores")
    add("--repetitions", type=int, default=15, help="turns of each benchmark (default: 15)")
    add("--seconds", type=float, default=0.1, help="least time of a turn (default: 0.1)")
    add("--json", type=Path, default=common.result("roofline.json"), metavar="FILE")
    add("--svg", type=Path, default=common.result("roofline.svg"), metavar="FILE", help="the picture goes there")
    options = parser.parse_args()
    common.require_program(options.program, common.built_by("qkv_micro_bench"))
    rates = run(options.program, "^(Peak|Memory|Layer(Bf16|Int8)?/)", options.threads, options.repetitions, options.seconds)
    data = {"machine": common.machine(options.threads), **summarise(rates, common.ISA), "rates": rates}
    common.write_json(options.json, data)
    print(report(data))
    common.write(options.svg, chart(data))


if __name__ == "__main__":
    main()
