"""Compares the project's aims with measurements on a machine: the first table of data/results/MACHINE.md.

Each row of AIMS has a reader. It takes the measurements of a machine and the suffix of its runs, and returns a cell;
LEGEND explains the cells.
"""

import attention
import common
import folder
import peers
import roofline

HELD = "-held-avx2"
LEGEND = """\
- Two ratios are to the fastest peer at the same precision, by best and by median time.
- "of" (upper bound): the ratio if matrix products ran at register peak and everything else were free. The peak is the
  greatest of all runs. The bound is loose in int8, because attention is computed in float.
- Linear layers: share of the peak by best and by median; after the semicolon, share of the peak measured right after each
  product, because clocks change from minute to minute.
- Attention: after the semicolon, share of the peak. Photos: after the semicolon, the ratios of the whole process, with start,
  loading and compilation.
- The aims for AVX2 are for machines without more, and for columns in which every program is restricted to AVX2
  (`bench/as_avx2.py`). No machine with AMX has been available; its aims stand beside AVX-512."""
# heads × tokens of attention: the case of attention.py
SIZES = {"12 × 197": "1x12x197x64", "96 × 197": "8x12x197x64", "16 × 1024": "1x16x1024x64", "16 × 4096": "1x16x4096x64",
         "16 × 16384": "1x16x16384x64"}  # fmt: skip
BASE, TINY = "vit_base_patch16_224", "vit_tiny_patch16_224"
# of one image, without the last block, which the exact savings nearly remove (`qkv info` counts the whole model)
GFLOP = {BASE: 32.2, TINY: 2.30}


def is_of(run, suffix):
    """True if the name of a run, such as "peers-held-avx2", has this suffix."""
    return run[len(run.partition("-")[0]) :] == suffix


def layers(data, suffix):
    """Measurements of roofline.py. It runs qkv alone, so the peers' instruction set does not matter."""
    return data.get("roofline" + suffix.replace("-held", ""))


def qkv_isa(data, suffix):
    """The instruction set that qkv used."""
    machine = next(run["machine"] for name, run in data.items() if is_of(name, suffix))
    return machine.get("isa") or common.best_isa(machine["instructions"])


def of_own(data, suffix, rows):
    """qkv's row of one case of attention, or None."""
    return next((r for r in rows if r["program"] == f"qkv, {qkv_isa(data, suffix)}"), None)


def attention_cases(data, suffix):
    return attention.cases(data.get("attention" + suffix, {}).get("rows", []))


def peak(data, suffix, precision):
    """GFLOP/s: the greatest of all runs, because clocks differ between them; or None."""
    run = layers(data, suffix)
    if not run:
        return None
    own = [of_own(data, suffix, rows) for rows in attention_cases(data, suffix).values()]
    seen = [row["gflops"] / row["of_peak"] for row in own if row and row["of_peak"]]
    quieter = max([1, *(rate / roofline.peak(run, "fp32") for rate in seen)])
    return quieter * roofline.peak(run, precision)


def of_peers(model, batch, precision):
    def read(data, suffix):
        rows = [r for r in data.get("peers" + suffix, {}).get("rows", [])
                if (r["model"], r["batch"], r["precision"]) == (model, batch, precision)]  # fmt: skip
        best, middle = (peers.rival(rows, precision, kind) for kind in ("best", "median"))
        if not best or peers.ratios(best, rows) == (None, None):
            return ""
        text = f"{peers.ratios(best, rows)[0]:.2f}×, {peers.ratios(middle, rows)[1]:.2f}×"
        rate = peak(data, suffix, precision)
        return text + (f" of {best['best'] * rate / (1e3 * GFLOP[model] * batch):.2f}×" if rate else "")

    return read


def of_attention(pass_, case):
    def read(data, suffix):
        rows = attention_cases(data, suffix).get((pass_, case), [])
        own = of_own(data, suffix, rows)
        if not own:
            return ""
        text = ", ".join(f"{attention.ratio(own, rows, key):.2f}×" for key in ("best", "median"))
        return text if pass_.endswith("bf16") else text + f"; {own['of_peak']:.2f}"

    return read


def of_layers(rows):
    """The four layers of a block together."""

    def read(data, suffix):
        run = layers(data, suffix)
        if not run:
            return ""
        shares = ", ".join(f"{roofline.together(run, 'fp32', rows, key):.2f}" for key in ("best", "median"))
        moment = roofline.of_moment(run, rows)
        return f"{shares}; {moment:.2f}" if moment else shares

    return read


def of_folder(data, suffix):
    run = data.get("folder" + suffix)
    if not run:
        return ""

    def ratios(kind):
        own, *others = (folder.rate(run, row, kind) for row in run["rows"])
        return ", ".join(f"{rate / max(others):.2f}×" for rate, *others in zip(own, *others))

    return f"{ratios('work')}; {ratios('process')}"


AIMS = [  # work, aim with AVX2, aim with AMX, reader
    *((f"linear layers of ViT-B, fp32, {rows} rows", "0.90", "0.82", of_layers(rows)) for rows in (197, 1576)),
    *((f"ViT-B, {precision}, batch {batch}", avx2, amx, of_peers(BASE, batch, precision))
      for precision, avx2, amx in (("fp32", "1.15×", "1.15×"), ("bf16", "", "1.4×"), ("int8", "1.4×", "1.4×"))
      for batch in (1, 8)),
    *((f"ViT-Ti, {precision}, batch 1", avx2, "1.5×", of_peers(TINY, 1, precision))
      for precision, avx2 in (("fp32", "1.5×"), ("bf16", ""), ("int8", "1.5×"))),
    *((f"attention, {size}", aim, "", of_attention("forward", case)) for (size, case), aim in
      zip(SIZES.items(), ("1.5×", "1.8×", "1.1×; 0.74", "1.1×; 0.74", "1.1×; 0.74"))),
    *((f"attention, bf16, {size}", "", "2×", of_attention("forward-bf16", case)) for size, case in SIZES.items()),
    *((f"attention with backward, {size}", aim, "", of_attention("training", case)) for (size, case), aim in
      zip(SIZES.items(), ("1.4×", "1.4×", "1.1×", "1.1×", "1.1×"))),
    *((f"attention with backward, bf16, {size}", "", "1.8×", of_attention("training-bf16", case))
      for size, case in SIZES.items()),
    ("1000 photos with ViT-Ti, fp32", "1.5×", "2×", of_folder),
]  # fmt: skip


def table(name, data):
    """Markdown; data: measurements on the machine `name`. Rows without a measurement are omitted."""
    columns = [suffix for suffix in (HELD, "") if any(is_of(run, suffix) for run in data)]
    heads = ["all restricted to AVX2" if suffix else common.ISAS[qkv_isa(data, suffix)] for suffix in columns]
    lines = [f"| {name} | aim, AVX2 | aim, AMX | " + " | ".join(heads) + " |", "|---" * (3 + len(heads)) + "|"]
    for work, avx2, amx, read in AIMS:
        cells = [read(data, suffix) for suffix in columns]
        if any(cells):
            lines.append(f"| {work} | {avx2} | {amx} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
