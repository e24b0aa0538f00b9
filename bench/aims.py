"""What the project aims at, beside what each kind of machine showed: the table that docs/performance.md begins with.

A reader of AIMS takes what was measured on a machine and the suffix of its runs, and gives a cell: ratios to the
fastest peer at the same precision, by best and by median, or shares of the greatest measured rate of float's
multiply-adds. "of" a ratio: what computing all products at the rate of the registers would give, all else for nothing;
a loose bound in int8, which attention is not computed in.
"""

from statistics import median

import common
import peers

HELD = "-held-avx2"
BASE, TINY = "vit_base_patch16_224", "vit_tiny_patch16_224"
# of an image, less the last block, of which exact savings leave next to nothing (`qkv info` counts the whole)
GFLOP = {BASE: 32.2, TINY: 2.30}


def roofline(data, suffix):
    return data.get("roofline" + ("-avx2" if suffix else ""), {})


def qkv_isa(data, suffix):
    """The instruction set that qkv ran in."""
    machine = next(run["machine"] for name, run in data.items() if name.endswith(HELD) == bool(suffix))
    return machine.get("isa") or common.best_isa(machine["instructions"])


def attention_rows(data, suffix):
    return data.get("attention" + suffix, {}).get("rows", [])


def peak(data, suffix, precision):
    """GFLOP/s: the greatest of all runs, whose minutes differ. A lower precision may be computed in float."""
    peaks = roofline(data, suffix).get("peaks", {})
    if not peaks:
        return None
    seen = [r["gflops"] / r["of_peak"] for r in attention_rows(data, suffix)
            if r["program"] == f"qkv, {qkv_isa(data, suffix)}" and r.get("of_peak")]  # fmt: skip
    quieter = max([1, *(rate / max(peaks["fp32"].values()) for rate in seen)])
    return quieter * max(rate for kind in {"fp32", precision} for rate in peaks.get(kind, {}).values())


def of_peers(model, batch, precision):
    def read(data, suffix):
        rows = [r for r in data.get("peers" + suffix, {}).get("rows", [])
                if (r["model"], r["batch"], r["precision"]) == (model, batch, precision)]  # fmt: skip
        own = [r for r in rows if r["program"] == "qkv"]
        rivals = {kind: peers.rival(rows, precision, kind) for kind in ("best", "median")}
        if not own or not rivals["best"]:
            return ""
        text = ", ".join(f"{rival[kind] / own[0][kind]:.2f}×" for kind, rival in rivals.items())
        rate = peak(data, suffix, precision)
        return text + (f" of {rivals['best']['best'] * rate / (1e3 * GFLOP[model] * batch):.2f}×" if rate else "")

    return read


def of_attention(pass_, case):
    def read(data, suffix):
        rows = [r for r in attention_rows(data, suffix) if (r["pass"], r["case"]) == (pass_, case)]
        own = [r for r in rows if r["program"] == f"qkv, {qkv_isa(data, suffix)}"]
        rival = [r for r in rows if r["program"] == "PyTorch"]
        if not own or not rival:
            return ""
        text = f"{rival[0]['best'] / own[0]['best']:.2f}×, {rival[0]['median'] / own[0]['median']:.2f}×"
        return text if pass_.endswith("bf16") else text + f"; {own[0]['of_peak']:.2f}"

    return read


def of_layers(rows):
    """The four layers of a block together."""

    def read(data, suffix):
        run = roofline(data, suffix)
        layers = [x for x in run.get("layers", []) if (x["M"], x["precision"]) == (rows, "fp32")]
        if not layers:
            return ""
        work = [x["N"] * x["K"] for x in layers]
        rates = [sum(work) / sum(w / x[kind] for w, x in zip(work, layers)) for kind in ("best", "median")]
        return ", ".join(f"{rate / max(run['peaks']['fp32'].values()):.2f}" for rate in rates)

    return read


def of_folder(data, suffix):
    rows = data.get("folder" + suffix, {}).get("rows", [])
    if not rows:
        return ""

    def seconds(row, of):
        return of(one["work"] for one in row["seconds"])

    return ", ".join(f"{min(seconds(r, of) for r in rows[1:]) / seconds(rows[0], of):.2f}×" for of in (min, median))


AIMS = [  # work, aim with AVX2, aim with AMX, reader
    *((f"linear layers of ViT-B, fp32, {rows} rows", "0.90", "0.82", of_layers(rows)) for rows in (197, 1576)),
    *((f"ViT-B, {precision}, batch {batch}", avx2, amx, of_peers(BASE, batch, precision))
      for precision, avx2, amx in (("fp32", "1.15×", "1.15×"), ("bf16", "", "1.4×"), ("int8", "1.4×", "1.4×"))
      for batch in (1, 8)),
    *((f"ViT-Ti, {precision}, batch 1", avx2, "1.5×", of_peers(TINY, 1, precision))
      for precision, avx2 in (("fp32", "1.5×"), ("bf16", ""), ("int8", "1.5×"))),
    *((f"attention, {heads} × {n}", aim, "", of_attention("forward", case))
      for heads, n, aim, case in ((12, 197, "1.5×", "1x12x197x64"), (96, 197, "1.8×", "8x12x197x64"),
                                  (16, 1024, "1.1×; 0.74", "1x16x1024x64"), (16, 4096, "1.1×; 0.74", "1x16x4096x64"),
                                  (16, 16384, "1.1×; 0.74", "1x16x16384x64"))),
    *((f"attention, bf16, {heads} × {n}", "", "2×", of_attention("forward-bf16", case))
      for heads, n, case in ((12, 197, "1x12x197x64"), (96, 197, "8x12x197x64"), (16, 1024, "1x16x1024x64"),
                             (16, 4096, "1x16x4096x64"))),
    *((f"attention with backward, {heads} × {n}", avx2, "1.8×", of_attention("training", case))
      for heads, n, avx2, case in ((12, 197, "1.4×", "1x12x197x64"), (96, 197, "1.4×", "8x12x197x64"),
                                   (16, 1024, "1.1×", "1x16x1024x64"), (16, 4096, "1.1×", "1x16x4096x64"))),
    ("1000 photos with ViT-Ti, fp32", "1.5×", "2×", of_folder),
]  # fmt: skip


def table(machines):
    """Markdown; machines: {name: what was measured there}."""
    columns = [(name, data, suffix) for name, data in machines.items() for suffix in (HELD, "")
               if any(run.endswith(HELD) == bool(suffix) for run in data)]  # fmt: skip
    heads = [f"{name}, all held to AVX2" if suffix else f"{name}, {common.ISAS[qkv_isa(data, suffix)]}"
             for name, data, suffix in columns]  # fmt: skip
    lines = ["| work | aim, AVX2 | aim, AMX | " + " | ".join(heads) + " |", "|---" * (3 + len(heads)) + "|"]
    for work, avx2, amx, read in AIMS:
        lines.append(f"| {work} | {avx2} | {amx} | " + " | ".join(read(data, suffix) for _, data, suffix in columns) + " |")
    return "\n".join(lines) + "\n"
