"""Photos and sentences to vectors in Python, by qkv and by the libraries that people use, whole processes in turns.

    PYTHON bench/python.py [--photos FOLDER] [--images N] [--sentences N] [--rounds N] [--work photos sentences]

PYTHON has the originals and qkv's wheel (tools/python_tests.sh --originals makes build/python-tests/bin/python). Photos are
copies of those in FOLDER (default: $QKV_DATA/photos). Models have random weights and the sizes of ViT-Ti/16 and
MiniLM. Each contestant has the same cores; seconds are of the whole process, imports and loading among them.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
from folder import copy_photos

PEERS = {"photos": ["transformers", "timm"], "sentences": ["sentence-transformers"]}


def make_vit(folder):
    """One model in both layouts: transformers' in FOLDER/transformers, timm's in FOLDER/timm."""
    common.save_random_model("vit_tiny_patch16_224", folder / "timm")
    import transformers  # after timm, beside its stub of torchvision

    config = transformers.ViTConfig(hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768)
    transformers.ViTModel(config).save_pretrained(folder / "transformers")
    transformers.ViTImageProcessor().save_pretrained(folder / "transformers")
    return {"transformers": folder / "transformers", "timm": folder / "timm"}


def make_sentences(folder):
    import text_cases

    minilm = folder / "minilm"
    text_cases.minilm(minilm)
    common.write_json(minilm / "1_Pooling/config.json",
                      {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True})  # fmt: skip
    common.write_json(minilm / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"})
    return {"sentence-transformers": minilm}


MAKERS = {"photos": make_vit, "sentences": make_sentences}


def run(name, folder, inputs, threads, out):
    command = [sys.executable, common.ROOT / "bench/python_peer.py", name, folder, inputs, threads, out]
    start = time.perf_counter()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(threads)})  # fmt: skip
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-4000:]}")
    return seconds, done.stdout


def cosine(a, b):
    import numpy

    a, b = numpy.load(a), numpy.load(b)
    unit = [x / numpy.linalg.norm(x, axis=1, keepdims=True) for x in (a, b)]
    return float((unit[0] * unit[1]).sum(axis=1).min())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    data = os.environ.get("QKV_DATA")
    add("--photos", type=Path, default=data and Path(data) / "photos", metavar="FOLDER")
    add("--images", type=int, default=10_000, help="at least so many (default: %(default)s)")
    add("--sentences", type=int, default=10_000)
    add("--rounds", type=int, default=3)
    add("--threads", type=int, default=common.CORES)
    add("--work", nargs="+", default=list(PEERS), choices=list(PEERS))
    options = parser.parse_args()
    print(common.machine(options.threads))
    with tempfile.TemporaryDirectory(prefix="qkv-python-") as temporary:
        folder = Path(temporary)
        for work in options.work:
            inputs = make_inputs(work, options, folder)
            models = MAKERS[work](folder)
            pairs = [(peer, models[peer]) for peer in PEERS[work]]
            times = {}
            for round_ in range(options.rounds):
                order = [(name, model) for peer, model in pairs for name in ("qkv", peer)]
                for name, model in random.sample(order, len(order)):
                    common.progress(f"{work}, round {round_ + 1} of {options.rounds}: {name} ({model.name})")
                    seconds, _ = run(name, model, inputs, options.threads, folder / f"{name}-{model.name}.npy")
                    times.setdefault((name, model.name), []).append(seconds)
            common.progress("")
            for peer, model in pairs:
                ours, theirs = times["qkv", model.name], times[peer, model.name]
                same = cosine(folder / f"qkv-{model.name}.npy", folder / f"{peer}-{model.name}.npy")
                print(f"{work}: qkv {min(ours):.1f} s, {peer} {min(theirs):.1f} s: {min(theirs) / min(ours):.2f}x by best, "
                      f"{statistics.median(theirs) / statistics.median(ours):.2f}x by median; least cosine {same:.6f}")  # fmt: skip


def make_inputs(work, options, folder):
    if work == "sentences":
        import text_cases

        file = folder / "sentences.txt"
        file.write_text("\n".join(text_cases.sentences(options.sentences)) + "\n")
        return file
    copies = -(-options.images // sum(path.suffix.lower() in (".jpg", ".jpeg") for path in options.photos.rglob("*")))
    copy_photos(options.photos, copies, folder / "photos")
    return folder / "photos"


if __name__ == "__main__":
    main()
