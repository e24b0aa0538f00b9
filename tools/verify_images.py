"""Compares the pixel tensors of `qkv run` with timm's and transformers' own, on real images.

    python tools/verify_images.py [--qkv PROGRAM] [IMAGE or FOLDER...]

Without arguments: the photos in $QKV_DATA/photos. For each pipeline a one-layer model with random
weights is saved as its library saves it, and `qkv run` is given all images. Printed: how many
tensors are equal to the last bit, and the greatest difference before normalisation, in 8-bit
levels. Exit 1 where that is more than one level. transformers runs its PIL backend (and torchvision's
too, for information: the library's own backends differ from each other).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torchvision_stub  # noqa: F401  must come before timm
import numpy as np
import timm
import torch
import transformers
from PIL import Image, ImageOps
from safetensors.numpy import load_file
from safetensors.torch import save_file
from timm.data import create_transform, resolve_data_config
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

ROOT = Path(__file__).resolve().parents[1]
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
HALF = {"mean": [0.5] * 3, "std": [0.5] * 3}

TIMM = {
    "bicubic 0.9": dict(HALF, input_size=[3, 224, 224], interpolation="bicubic", crop_pct=0.9),
    "bilinear 0.875": dict(IMAGENET, input_size=[3, 224, 224], interpolation="bilinear", crop_pct=0.875),
    "lanczos squash": dict(HALF, input_size=[3, 224, 224], interpolation="lanczos", crop_pct=1.0, crop_mode="squash"),
    "border 384": dict(IMAGENET, input_size=[3, 384, 384], interpolation="bicubic", crop_pct=1.0, crop_mode="border"),
    "192 x 256": dict(HALF, input_size=[3, 192, 256], interpolation="bicubic", crop_pct=0.95),
}
PROCESSORS = {
    "ViT": (ViTImageProcessorPil, transformers.ViTImageProcessor, {}),
    "ViT bicubic 384": (ViTImageProcessorPil, transformers.ViTImageProcessor,
                        {"resample": 3, "size": {"height": 384, "width": 384}}),
    "DeiT": (DeiTImageProcessorPil, transformers.DeiTImageProcessor, {}),
    "Bit, as DINOv2": (BitImageProcessorPil, transformers.BitImageProcessor,
                       {"size": {"shortest_edge": 256}, "image_mean": IMAGENET["mean"],
                        "image_std": IMAGENET["std"]}),
}


def save_timm(folder, config):
    args = dict(img_size=config["input_size"][1:], embed_dim=32, depth=1, num_heads=2, num_classes=2)
    model = timm.create_model("vit_tiny_patch16_224", **args)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(
        {"architecture": "vit_tiny_patch16_224", "num_classes": 2, "model_args": args, "pretrained_cfg": config}))


def save_hf(folder, processor):
    size = getattr(processor.crop_size, "height", None) or processor.size["height"]
    config = transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
                                    image_size=size, patch_size=16)
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    processor.save_pretrained(folder)


def compare(name, ours, theirs, mean, std):
    """Prints a line; returns the greatest difference in levels."""
    equal, worst = 0, 0.0
    scale = 255 * np.asarray(std, np.float64).reshape(-1, 1, 1)
    for a, b in zip(ours, theirs):
        equal += bool((a == b).all())
        worst = max(worst, float(np.abs((a.astype(np.float64) - b) * scale).max()))
    print(f"{name:42} {equal:4} of {len(ours)} exactly equal, at most {worst:.3g} levels apart")
    return worst


def pixels(qkv, folder, paths):
    out = folder / "out.safetensors"
    run = subprocess.run([qkv, "run", "-q", "-m", folder, "--output", out, *paths], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"verify_images: qkv run: {run.stderr}")
    return load_file(out)["pixels"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", type=Path, default=ROOT / "build/release/qkv")
    parser.add_argument("images", nargs="*", type=Path)
    options = parser.parse_args()
    if not options.images and "QKV_DATA" not in os.environ:
        sys.exit("verify_images: give images, or set QKV_DATA to the folder that has photos/ in it")
    sources = options.images or [Path(os.environ["QKV_DATA"]) / "photos"]
    paths = [path for source in sources for path in (sorted(source.iterdir()) if source.is_dir() else [source])]
    upright = [ImageOps.exif_transpose(Image.open(path)).convert("RGB") for path in paths]
    torch.manual_seed(0)
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        for i, (name, config) in enumerate(TIMM.items()):
            folder = Path(temporary) / f"timm{i}"
            folder.mkdir()
            save_timm(folder, config)
            transform = create_transform(**resolve_data_config({}, pretrained_cfg=config), is_training=False)
            theirs = [transform(image).numpy() for image in upright]
            ours = pixels(options.qkv, folder, paths)
            worst = max(worst, compare(f"timm {name}", ours, theirs, config["mean"], config["std"]))
        for i, (name, (pil_class, fast_class, change)) in enumerate(PROCESSORS.items()):
            folder = Path(temporary) / f"hf{i}"
            processor = pil_class(**change)
            save_hf(folder, processor)
            ours = pixels(options.qkv, folder, paths)
            run = lambda p: [np.asarray(p(image, return_tensors="pt")["pixel_values"][0]) for image in upright]
            mean, std = processor.image_mean, processor.image_std
            worst = max(worst, compare(f"transformers {name}", ours, run(processor), mean, std))
            compare(f"  (torchvision backend, {name})", ours, run(fast_class(**change)), mean, std)
    sys.exit(worst > 1)


if __name__ == "__main__":
    main()
