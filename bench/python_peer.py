"""Runs one contestant of bench/python.py, whole: python bench/python_peer.py NAME FOLDER INPUTS THREADS OUT

NAME is qkv, transformers, timm or sentence-transformers, INPUTS a folder of photos or a file of sentences. The vectors go
to OUT.npy, in the order of the inputs, and one JSON object to stdout: seconds from the start of the process' own code to
the last vector, and the greatest memory.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

BEGAN = time.perf_counter()
PHOTOS_TOGETHER, SENTENCES_TOGETHER = 16, 32


def photos_of(folder):
    return sorted(str(path) for path in Path(folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def run_qkv(folder, inputs, threads):
    import qkv

    dtype = os.environ.get("QKV_BENCH_DTYPE", "fp32")
    model = qkv.load(folder, threads=threads, dtype=dtype)
    if inputs.is_dir():
        return model.embed(photos_of(inputs), pool="model", progress=False)
    return model.encode(inputs.read_text().splitlines())


def use_threads(threads):
    import torch

    torch.set_num_threads(threads)
    return torch


def run_transformers(folder, inputs, threads):
    torch = use_threads(threads)
    import transformers

    embed = transformers.pipeline("image-feature-extraction", model=str(folder), device="cpu", use_fast=True)
    rows = embed(photos_of(inputs), batch_size=PHOTOS_TOGETHER, pool=True, return_tensors=True)
    return torch.cat([row.reshape(1, -1) for row in rows]).numpy()


def run_timm(folder, inputs, threads):
    torch = use_threads(threads)
    import PIL.Image
    import timm

    model = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=0).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)

    class Photos(torch.utils.data.Dataset):
        files = photos_of(inputs)

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            return transform(PIL.Image.open(self.files[index]).convert("RGB"))

    loader = torch.utils.data.DataLoader(Photos(), PHOTOS_TOGETHER, num_workers=threads)
    with torch.inference_mode():
        return torch.cat([model(pixels) for pixels in loader]).numpy()


def run_sentence_transformers(folder, inputs, threads):
    use_threads(threads)
    from sentence_transformers import SentenceTransformer

    backend = os.environ.get("QKV_BENCH_BACKEND", "torch")
    model = SentenceTransformer(str(folder), backend=backend, device="cpu")
    if inputs.is_dir():
        import PIL.Image

        return model.encode([PIL.Image.open(file) for file in photos_of(inputs)], batch_size=PHOTOS_TOGETHER)
    return model.encode(inputs.read_text().splitlines(), batch_size=SENTENCES_TOGETHER)


RUNS = {"qkv": run_qkv, "transformers": run_transformers, "timm": run_timm, "sentence-transformers": run_sentence_transformers}


def main(name, folder, inputs, threads, out):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if name != "qkv":
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
        import torchvision_stub  # noqa: F401
    vectors = RUNS[name](Path(folder), Path(inputs), int(threads))
    seconds = time.perf_counter() - BEGAN
    import numpy

    numpy.save(out, vectors)
    print(json.dumps({"seconds": seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main(*sys.argv[1:])
