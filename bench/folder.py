"""Classifies a folder of photos from files to answers, in qkv and in Python pipelines, in turns; checks that they agree.

    QKV_DATA=FOLDER python bench/folder.py [--photos FOLDER] [--copies N] [--pipelines NAME…] [--rounds N]

Every photo is there --copies times. The pipelines (bench/folder_peer.py says how each works): PyTorch
compiled behind a DataLoader; ONNX Runtime, and OpenVINO in its throughput mode, behind decoding
threads; OpenVINO behind OpenCV's decoding; OpenVINO in a process a core. Two rates are given: from the
list of files to the last answer, where a pipeline's imports, loading and compiling are not counted
but qkv's whole run is; and the whole process.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import peers
import svg

PIPELINES = {
    "pytorch": "PyTorch compiled, DataLoader",
    "onnxruntime": "ONNX Runtime, threads",
    "openvino": "OpenVINO, threads",
    "openvino-opencv": "OpenVINO, OpenCV threads",
    "openvino-processes": "OpenVINO, processes",
}
AGREEMENT = 0.99  # of the best classes; random weights give near ties, which the last bit of a pixel can flip


def copy_photos(source, copies, folder):
    """Fills FOLDER/0…copies-1/, each with all photos (as links, if the file system supports them)."""
    files = [path for path in sorted(source.rglob("*")) if path.suffix.lower() in (".jpg", ".jpeg")]
    for copy in range(copies):
        (folder / str(copy)).mkdir(parents=True)
        for path in files:
            target = folder / str(copy) / path.name
            try:
                os.link(path, target)
            except OSError:
                target.write_bytes(path.read_bytes())
    return copies * len(files)


def run_qkv(options, model, photos, out):
    """{"classes", "seconds": {"work", "process"}}"""
    command = [options.qkv, "classify", "-q", "--json", "-m", model / "model", "--threads", options.threads,
               *options.qkv_flags.split(), photos]  # fmt: skip
    start = time.perf_counter()
    with open(out, "w") as lines:
        subprocess.run([str(c) for c in command], check=True, stdout=lines, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    answers = [json.loads(line) for line in open(out)]
    classes = {str(Path(a["path"]).relative_to(photos)): a["top"][0]["index"] for a in answers}
    return {"classes": classes, "seconds": {"work": seconds, "process": seconds}}


def run_pipeline(name, options, model, photos, out):
    """{"classes", "seconds": {"imports", "preparation", "work", "process"}}"""
    command = [sys.executable, common.ROOT / "bench/folder_peer.py", name, model, photos, options.threads, out]
    start = time.perf_counter()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})  # fmt: skip
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-4000:]}")
    answer = json.loads(out.read_text())
    answer["seconds"]["process"] = time.perf_counter() - start
    return answer


def run(name, *arguments):
    """The result of run_qkv or run_pipeline, with the processor time in its "seconds"."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = run_qkv(*arguments) if name == "qkv" else run_pipeline(name, *arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer["seconds"]["processors"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return answer


def rate(data, row, kind):
    """images/s of the best run and of the median one"""
    seconds = [one[kind] for one in row["seconds"]]
    return data["images"] / min(seconds), data["images"] / statistics.median(seconds)


def busy(data, row):
    """Share of its threads' time that the process computed or spun, median; "" in older measurements."""
    shares = [one["processors"] / one["process"] for one in row["seconds"] if "processors" in one]
    return f"{100 * statistics.median(shares) / data['machine']['threads']:.0f} %" if shares else ""


def report(data):
    """Markdown."""
    qkv = data["rows"][0]
    lines = [peers.machine_line(data["machine"]) + f"; {data['rounds']} rounds, {data['images']} photos.\n",
             f"{common.title(data['model'])}, images/s:\n",
             "| | files to answers, best | median | qkv is faster, by best | by median | whole process, best | its cores "
             "busy | same class |", "|---|---:|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    for row in data["rows"]:
        (best, median), (process, _) = rate(data, row, "work"), rate(data, row, "process")
        own = rate(data, qkv, "work")
        by = ["", ""] if row is qkv else [f"{own[0] / best:.2f}×", f"{own[1] / median:.2f}×"]
        lines.append(f"| {PIPELINES.get(row['program'], row['program'])} | {best:.1f} | {median:.1f} | {by[0]} | {by[1]} "
                     f"| {process:.1f} | {busy(data, row)} | {100 * row['agreement']:.1f} % |")  # fmt: skip
    return "\n".join(lines) + "\n"


def chart(data):
    def milliseconds(row, kind):
        seconds = [one[kind] for one in row["seconds"]]
        return 1e3 * min(seconds) / data["images"], 1e3 * statistics.median(seconds) / data["images"]

    groups = []
    for kind, name in [("work", "from files to answers"), ("process", "the whole process")]:
        own = milliseconds(data["rows"][0], kind)
        bars = []
        for i, row in enumerate(data["rows"]):
            best, median = milliseconds(row, kind)
            bars.append(svg.Bar(PIPELINES.get(row["program"], row["program"]), best, median,
                                f"{median / own[1]:.2f}×" if i else "", i == 0))  # fmt: skip
        groups.append((name, bars))
    return svg.bars([(f"{data['images']} photos, {common.title(data['model'])}", groups)],
                    ["Milliseconds an image: best (solid) / median (pale);", "factor: the program's median over qkv's."])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    data_folder = os.environ.get("QKV_DATA")
    add("--photos", type=Path, default=data_folder and Path(data_folder) / "photos", metavar="FOLDER",
        help="JPEG photos (default: $QKV_DATA/photos)")  # fmt: skip
    add("--copies", type=int, default=10, help="of each photo (default: 10)")
    add("--model", default="vit_tiny_patch16_224", help="a name of timm's, with random weights (default: %(default)s)")
    add("--pipelines", nargs="+", default=list(PIPELINES), choices=list(PIPELINES), metavar="PIPELINE",
        help=f"default: all of {', '.join(PIPELINES)}")  # fmt: skip
    add("--rounds", type=int, default=5, help="runs of each (default: 5)")
    add("--threads", type=int, default=common.CORES, help="default: all cores")
    add("--qkv", type=Path, default=common.ROOT / "build/release/qkv", metavar="PROGRAM")
    add("--qkv-flags", default="", metavar="FLAGS", help="more flags for `qkv classify`")
    add("--json", type=Path, default=common.result("folder.json"), metavar="FILE")
    add("--svg", type=Path, default=common.result("folder.svg"), metavar="FILE", help="the chart goes there")
    options = parser.parse_args()
    common.require_program(options.qkv)
    if not options.photos or not options.photos.is_dir():
        sys.exit("bench/folder.py: no photos; set QKV_DATA to the folder that has photos/ in it, or give --photos")

    names = ["qkv", *options.pipelines]
    answers = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="qkv-folder-") as temporary:
        folder = Path(temporary)
        common.progress("copying photos, making the model")
        images = copy_photos(options.photos, options.copies, folder / "photos")
        common.save_random_model(options.model, folder / "model")
        for round_ in range(options.rounds):
            for name in random.sample(names, len(names)):
                common.progress(f"round {round_ + 1} of {options.rounds}: {name}")
                answers[name].append(run(name, options, folder, folder / "photos", folder / "out.json"))
        common.progress("")
    # All pipelines on Pillow prepare a photo alike; PyTorch's result is the reference if it was measured.
    reference = answers["pytorch" if "pytorch" in answers else names[1]][0]["classes"]
    rows = []
    for name in names:
        classes = [one["classes"] for one in answers[name]]
        same = [sum(reference[path] == found.get(path) for path in reference) / images for found in classes]
        rows.append({"program": name, "seconds": [one["seconds"] for one in answers[name]], "agreement": min(same)})
    data = {"machine": common.machine(options.threads), "model": options.model, "rounds": options.rounds, "images": images,
            "classes": len(set(reference.values())), "rows": rows}  # fmt: skip
    common.write_json(options.json, data)
    print(report(data))
    common.write(options.svg, chart(data))
    if rows[0]["agreement"] < AGREEMENT:
        sys.exit(f"qkv answers as {names[1]} for {100 * rows[0]['agreement']:.1f} % of the photos only")


if __name__ == "__main__":
    main()
