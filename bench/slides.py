"""Turns tiles of a slide into vectors, from the slide to a file of HDF5, in qkv and in Python pipelines, in turns.

    PYTHONPATH=FOLDER python bench/slides.py --slide SLIDE [--models NAME…] [--tiles N…] [--rounds N] [--programs NAME…]

FOLDER has openslide-python, openslide-bin, h5py and slide2vec with what they need (`pip install --target`); transformers
and torchvision are those of the peers. Models have random weights. All programs get the same tiles, of the encoder's own
size: N of those that `qkv slide tile` finds, in its order, from the middle of the slide. bench/slides_peer.py says how each
pipeline works. Two times are given: from the list of tiles to the written file, where imports, loading, compiling and
warming are not counted; and the whole process. For qkv the first is what `qkv slide embed` says it took for "features".
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import peers

# Precisions of qkv, then names of bench/slides_peer.py.
OWN = {f"qkv-{precision}": precision for precision in common.PRECISIONS}
TITLES = {
    "pytorch": "timm, OpenSlide, DataLoader, PyTorch",
    "pytorch-compiled": "timm, OpenSlide, DataLoader, PyTorch compiled",
    "onnxruntime": "OpenSlide, threads, ONNX Runtime",
    "onnxruntime-each": "OpenSlide, ONNX Runtime, a pass a thread",
    "slide2vec": "slide2vec",
}
PROGRAMS = [
    *OWN, "slide2vec-fp32", "pytorch-fp32", "pytorch-compiled-fp32", "onnxruntime-fp32", "onnxruntime-each-fp32",
    "pytorch-bf16", "pytorch-int8", "onnxruntime-int8", "onnxruntime-each-int8"]  # fmt: skip
# The best of 1, 4, 8, 16 and 32 images with ViT-S (`--batch` and `--workers` try others).
BATCH = {"slide2vec": 8, "pytorch": 8, "pytorch-compiled": 8, "onnxruntime": 1, "onnxruntime-each": 1}
WORKERS = {"slide2vec": 2, "pytorch": 2, "pytorch-compiled": 2, "onnxruntime": 2, "onnxruntime-each": 2}
TILE = 224  # the encoders' own
WHOLE = 15000  # tiles of a slide


def title(program):
    name, _, precision = program.rpartition("-")
    return f"{TITLES.get(name, name)}, {precision}"


def save_model(name, folder):
    """An encoder whose preprocessing leaves tiles of its size as they are."""
    if not (folder / "config.json").exists():
        common.save_random_model(name, folder, classes=0)
        config = json.loads((folder / "config.json").read_text())
        config["pretrained_cfg"]["crop_pct"] = 1.0
        common.write_json(folder / "config.json", config)


def find_tiles(qkv, slide, count, folder):
    """`count` consecutive tiles [x, y] of the slide's tissue, and microns a pixel; they need no reading of coarser levels."""
    import h5py

    out = folder / "tiles"
    state = json.loads(common.output([qkv, "slide", "tile", "-q", slide, "-o", out, "--tile", TILE]))
    with h5py.File(next(out.rglob("*_patches.h5"))) as file:
        coords, side = file["coords"][:].tolist(), int(file["coords"].attrs["patch_size_level0"])
    if side != TILE:
        sys.exit(f"{slide}: expected a slide of 20x, whose tiles need no resizing; a tile takes {side} pixels of level 0")
    if len(coords) < count:
        sys.exit(f"{slide}: {len(coords)} tiles show tissue, --tiles asks for {count}")
    begin = (len(coords) - count) // 2
    return coords[begin : begin + count], state["mpp"]


def write_areas(path, coords):
    """GeoJSON whose areas are the tiles: what `qkv slide embed` takes as the tissue."""

    def area(x, y):
        right, bottom = x + TILE, y + TILE
        ring = [[x, y], [right, y], [right, bottom], [x, bottom], [x, y]]
        return {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}

    common.write_json(path, {"type": "FeatureCollection", "features": [area(x, y) for x, y in coords]})


def run_process(command, log, environment):
    """{"process" (s), "processors" (s of user and system, also of processes that it waited for), "peak" (bytes)}. The peak
    is looked up, since the system's account of it begins with this program's own memory."""
    start = time.perf_counter()
    with open(log, "w") as lines, open(log.with_suffix(".err"), "w") as errors:
        process = subprocess.Popen([str(c) for c in command], stdout=lines, stderr=errors, env=environment)
        ended, peak = 0, 0
        while not ended:
            time.sleep(0.01)
            peak = max(peak, common.memory(process.pid).get("VmHWM", 0))
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {log.with_suffix('.err').read_text()[-4000:]}")
    return {"process": seconds, "processors": usage.ru_utime + usage.ru_stime, "peak": peak}


def run_qkv(options, program, model, slide, coords, folder):
    """The measurement, and the file of vectors."""
    out = folder / "out"
    write_areas(out / "contours_geojson" / f"{slide.stem}.geojson", coords)
    command = [options.qkv, "slide", "embed", "-q", slide, "-m", model, "-o", out, "--tile", TILE, "--dtype", OWN[program],
               "--threads", options.threads, *options.qkv_flags.split()]  # fmt: skip
    measured = run_process(command, folder / "log", dict(os.environ))
    measured["work"] = json.loads((folder / "log").read_text())["seconds"]["features"]
    return measured, next(out.rglob("features_*/*.h5"))


def run_pipeline(options, program, model, slide, coords, spacing, folder):
    name = program.rpartition("-")[0]
    batch = options.batch or BATCH[name]
    shaped = model.parent / f"batch-{batch}"  # exported models have one shape
    shaped.mkdir(exist_ok=True)
    if not (shaped / "model").exists():
        (shaped / "model").symlink_to(model)
    workers = WORKERS[name] if options.workers is None else options.workers
    job = {"slide": str(slide), "coords": coords, "tile": TILE, "model": str(shaped / "model"), "spacing": spacing,
           "threads": options.threads, "batch": batch, "workers": workers, "out": str(folder / "out")}  # fmt: skip
    common.write_json(folder / "job.json", job)
    command = [sys.executable, common.ROOT / "bench/slides_peer.py", program, folder / "job.json"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    measured = run_process(command, folder / "log", environment)
    measured["work"] = json.loads((folder / "out.json").read_text())["seconds"]["work"]
    return measured, folder / "out.h5"


def run(options, program, model, slide, coords, spacing):
    """The measurement, and {(x, y): vector}."""
    import h5py

    with tempfile.TemporaryDirectory(prefix="qkv-slides-") as temporary:
        folder = Path(temporary)
        if program in OWN:
            measured, file = run_qkv(options, program, model, slide, coords, folder)
        else:
            measured, file = run_pipeline(options, program, model, slide, coords, spacing, folder)
        with h5py.File(file) as made:
            vectors = dict(zip(map(tuple, made["coords"][:].tolist()), made["features"][:]))
    if set(vectors) != set(map(tuple, coords)):
        sys.exit(f"{program}: vectors of {len(vectors)} tiles, expected those of the {len(coords)} given")
    return measured, vectors


def cosines(vectors, reference):
    """(mean, least) over the tiles"""
    import numpy as np

    a, b = (np.array([some[key] for key in reference], np.float64) for some in (vectors, reference))
    found = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return float(found.mean()), float(found.min())


def measure(options, name, tiles, folder):
    """One model: {"model", "tiles", "weights" (bytes of its file), "rows"}"""
    model = folder / name / "model"
    common.progress(f"{common.title(name)}: making the model")
    save_model(name, model)
    coords, spacing = find_tiles(options.qkv, options.slide, tiles, folder / name)
    rows = {program: {"program": program, "runs": []} for program in options.programs}
    vectors = {}
    for round_ in range(options.rounds):
        for program in random.sample(options.programs, len(options.programs)):
            common.progress(f"{common.title(name)}, round {round_ + 1} of {options.rounds}: {title(program)}")
            measured, vectors[program] = run(options, program, model, options.slide, coords, spacing)
            measured["load"] = os.getloadavg()[0]
            rows[program]["runs"].append(measured)
    common.progress("")
    reference = vectors.get("pytorch-fp32") or vectors[options.programs[0]]
    for program, row in rows.items():
        row["cosine"] = cosines(vectors[program], reference)
    weights = (model / "model.safetensors").stat().st_size
    return {"model": name, "tiles": tiles, "weights": weights, "rows": list(rows.values())}


def best(row, kind):
    return min(one[kind] for one in row["runs"])


def median(row, kind):
    return statistics.median(one[kind] for one in row["runs"])


def whole_slide(case, row):
    """Seconds for WHOLE tiles: what a process takes beside its tiles, by median, and the tiles at their rate."""
    return median(row, "process") - median(row, "work") + WHOLE / case["tiles"] * median(row, "work")


def table(case, threads):
    """Markdown."""
    lines = [f"{common.title(case['model'])}, {case['tiles']} tiles:\n",
             "| | tiles/s, best | median | qkv's rate over it, by best | by median | whole process, s | cores busy "
             f"| peak memory, MB | {WHOLE:,} tiles, min | cosine to PyTorch's fp32, mean | least |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    own = {OWN[row["program"]]: row for row in case["rows"] if row["program"] in OWN}
    for row in case["rows"]:
        mine = own.get(row["program"].rpartition("-")[2])
        by = ["", ""]
        if mine and row is not mine:
            by = [f"{kind(row, 'work') / kind(mine, 'work'):.2f}×" for kind in (best, median)]
        busy = statistics.median(one["processors"] / one["process"] for one in row["runs"]) / threads
        lines.append(f"| {title(row['program'])} | {case['tiles'] / best(row, 'work'):.1f} "
                     f"| {case['tiles'] / median(row, 'work'):.1f} | {by[0]} | {by[1]} | {median(row, 'process'):.1f} "
                     f"| {100 * busy:.0f} % | {median(row, 'peak') / 1e6:.0f} | {whole_slide(case, row) / 60:.1f} "
                     f"| {row['cosine'][0]:.6f} | {row['cosine'][1]:.6f} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def report(data):
    """Markdown."""
    loads = [one["load"] for case in data["cases"] for row in case["rows"] for one in row["runs"]]
    parts = [f"{peers.machine_line(data['machine'])}; {data['rounds']} rounds; load {min(loads):.1f} to {max(loads):.1f}.\n"]
    for case in data["cases"]:
        parts.append(table(case, data["machine"]["threads"]))
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--slide", type=Path, required=True, help="of 20x; tools/sparse_slide.py makes one")
    add("--models", nargs="+", default=[f"vit_{size}_patch16_224" for size in ("small", "base", "large")], metavar="NAME",
        help="names of timm's (default: %(default)s)")  # fmt: skip
    add("--tiles", type=int, nargs="+", default=[768, 256, 96], metavar="N", help="for each model (default: %(default)s)")
    add("--rounds", type=int, default=3, help="runs of each (default: 3)")
    add("--threads", type=int, default=common.CORES, help="default: all cores")
    add("--programs", nargs="+", default=PROGRAMS, choices=PROGRAMS, metavar="NAME", help="default: %(default)s")
    add("--batch", type=int, help="of the pipelines (default: the best of each)")
    add("--workers", type=int, help="of the pipelines (default: the best of each)")
    add("--qkv", type=Path, default=common.ROOT / "build/release/qkv", metavar="PROGRAM")
    add("--qkv-flags", default="", metavar="FLAGS", help="more flags for `qkv slide embed`")
    add("--keep-models", type=Path, metavar="FOLDER", help="made there, and found there the next time")
    add("--json", type=Path, default=common.result("slides.json"), metavar="FILE")
    options = parser.parse_args()
    common.require_program(options.qkv)
    options.slide = options.slide.resolve()
    if len(options.tiles) != len(options.models):
        sys.exit(f"{len(options.models)} models, but {len(options.tiles)} numbers of tiles")
    if "bf16" in OWN.values() and "avx512_bf16" not in common.machine(1)["instructions"]:
        options.programs = [program for program in options.programs if not program.endswith("bf16")]
    with tempfile.TemporaryDirectory(prefix="qkv-slides-") as temporary:
        folder = (options.keep_models or Path(temporary)).resolve()
        cases = [measure(options, name, tiles, folder) for name, tiles in zip(options.models, options.tiles)]
    data = {"machine": common.machine(options.threads), "rounds": options.rounds, "cases": cases}
    common.write_json(options.json, data)
    print(report(data))


if __name__ == "__main__":
    main()
