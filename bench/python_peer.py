"""Runs one contestant of bench/python.py, whole: python bench/python_peer.py CONTESTANT FOLDER INPUTS THREADS OUT

CONTESTANT is a name of RUNS with a variant behind a colon ("qkv:int8"), or "export", which writes the files of FOLDER that
sentence-transformers and fastembed read beside the checkpoint. INPUTS is a folder of photos or a file of sentences. The
vectors go to OUT, in the order of the inputs, and one JSON object to stdout: the process's greatest memory, and what it ran.
"""

import importlib.metadata
import json
import os
import resource
import sys
from pathlib import Path

import common

PHOTOS_TOGETHER, SENTENCES_TOGETHER = 16, 32
QUANTIZED = {"onnx-qint8": "onnx/model_qint8_{}.onnx", "openvino-qint8": "openvino/openvino_model_qint8_quantized.xml"}


def photos_of(folder):
    return sorted(str(path) for path in Path(folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def upright(file):
    """The photo as qkv and transformers read it. timm's own data sets leave out its orientation."""
    import PIL.Image
    import PIL.ImageOps

    return PIL.ImageOps.exif_transpose(PIL.Image.open(file)).convert("RGB")


def read_sentences(file):
    return file.read_text(encoding="utf-8").splitlines()


def run_qkv(folder, inputs, threads, dtype):
    import qkv

    model = qkv.load(folder, threads=threads, dtype=dtype)
    if inputs.is_dir():
        return model.embed(photos_of(inputs), pool="model", progress=False)
    return model.encode(read_sentences(inputs))


def use_threads(threads):
    import torch

    torch.set_num_threads(threads)
    return torch


def run_transformers(folder, inputs, threads, variant):
    torch = use_threads(threads)
    import transformers

    embed = transformers.pipeline("image-feature-extraction", model=str(folder), device="cpu", use_fast=True)
    rows = embed(photos_of(inputs), batch_size=PHOTOS_TOGETHER, pool=True, return_tensors=True)
    return torch.cat([row.reshape(1, -1) for row in rows]).numpy()


def run_timm(folder, inputs, threads, variant):
    torch = use_threads(threads)
    import timm

    model = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=0).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)

    class Photos(torch.utils.data.Dataset):
        files = photos_of(inputs)

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            return transform(upright(self.files[index]))

    loader = torch.utils.data.DataLoader(Photos(), PHOTOS_TOGETHER, num_workers=threads)
    with torch.inference_mode():
        return torch.cat([model(pixels) for pixels in loader]).numpy()


def run_sentence_transformers(folder, inputs, threads, variant):
    use_threads(threads)
    import numpy
    from sentence_transformers import SentenceTransformer

    backend = variant.partition("-")[0]
    files = {"file_name": QUANTIZED[variant].format(onnx_isa())} if variant in QUANTIZED else {}
    model = SentenceTransformer(str(folder), backend=backend, device="cpu", model_kwargs=files)
    if not inputs.is_dir():
        return model.encode(read_sentences(inputs), batch_size=SENTENCES_TOGETHER)
    files, some = photos_of(inputs), 16 * PHOTOS_TOGETHER  # decoded photos of all would not fit in memory
    parts = (files[first : first + some] for first in range(0, len(files), some))
    return numpy.concatenate([model.encode([upright(f) for f in part], batch_size=PHOTOS_TOGETHER) for part in parts])


def run_fastembed(folder, inputs, threads, variant):
    import numpy
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model("local/model", pooling=PoolingType.MEAN, normalization=True, dim=384,
                                   sources=ModelSource(hf="local/model"), model_file="onnx/model.onnx")  # fmt: skip
    model = TextEmbedding("local/model", specific_model_path=str(folder), threads=threads)
    return numpy.stack(list(model.embed(read_sentences(inputs), batch_size=SENTENCES_TOGETHER)))


def run_kjarni(folder, inputs, threads, variant):
    """Its models are names; here the one in its cache is a link to the folder."""
    import tempfile

    import kjarni
    import numpy

    with tempfile.TemporaryDirectory() as cache:
        (Path(cache) / "sentence-transformers_all-MiniLM-L6-v2").symlink_to(folder.resolve())
        model = kjarni.Embedder("minilm-l6-v2", cache_dir=cache, quiet=True)
        sentences = read_sentences(inputs)
        some = range(0, len(sentences), SENTENCES_TOGETHER)
        return numpy.concatenate([model.encode_batch(sentences[first : first + SENTENCES_TOGETHER]) for first in some])


RUNS = {
    "qkv": run_qkv,
    "transformers": run_transformers,
    "timm": run_timm,
    "sentence-transformers": run_sentence_transformers,
    "fastembed": run_fastembed,
    "kjarni": run_kjarni,
}


def onnx_isa():
    """sentence-transformers' name of the instruction set for which its ONNX file is quantised."""
    flags = set(common.machine(1)["instructions"])
    return "avx512_vnni" if "avx512_vnni" in flags else "avx512" if "avx512f" in flags else "avx2"


def export(folder, sentences):
    """What sentence-transformers' documentation on speed says to write: model.onnx, and both files in int8."""
    import sentence_transformers as st
    from optimum.intel import OVQuantizationConfig

    model = st.SentenceTransformer(str(folder), backend="onnx", device="cpu", model_kwargs={"export": True})
    model.save_pretrained(str(folder))
    st.export_dynamic_quantized_onnx_model(model, onnx_isa(), str(folder))
    calibration = folder / "calibration"
    calibration.mkdir()
    (calibration / "train.jsonl").write_text("".join(json.dumps({"sentence": s}) + "\n" for s in sentences[:300]))
    model = st.SentenceTransformer(str(folder), backend="openvino", device="cpu", model_kwargs={"export": True})
    model.save_pretrained(str(folder))
    st.export_static_quantized_openvino_model(model, OVQuantizationConfig(), str(folder), str(calibration), "default",
                                              "train", "sentence")  # fmt: skip


def version(program):
    """"" of qkv from a folder of links."""
    try:
        return importlib.metadata.version(program)
    except importlib.metadata.PackageNotFoundError:
        return ""


def main(contestant, folder, inputs, threads, out):
    os.environ.update(HF_HUB_OFFLINE="1", ORT_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="true")
    program, _, variant = contestant.partition(":")
    if program not in ("qkv", "fastembed", "kjarni"):
        sys.path.insert(0, str(common.TOOLS))
        import torchvision_stub  # noqa: F401
    if program == "export":
        return export(Path(folder), read_sentences(Path(inputs)))
    vectors = RUNS[program](Path(folder), Path(inputs), int(threads), variant)
    import numpy

    numpy.save(out, vectors)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"megabytes": peak, "version": version(program)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
