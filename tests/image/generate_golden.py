#!/usr/bin/env python3
"""Writes tests/image/golden: what Pillow, timm and transformers make of small images and of the photos.

    tools/reference_env.sh                        # the Python with all of them; prints its path
    PYTHON tests/image/generate_golden.py [--photos FOLDER] [--files FOLDER]

decode.safetensors      "file/NAME" (the bytes), "rgb/NAME" (upright), "stored/NAME" (as it lies in the file, where that
                        differs), "grey/NAME" (convert("L"), for some), "alpha/NAME" (where there is one)
resize.safetensors      "in/HxWxC", "FILTER/HxWxC/HxW"
preprocess.safetensors  "image/NAME", "out/NUMBER"; the metadata's "cases" has the configurations
files.tar               a few of the files themselves, for fuzz/seeds.sh
photos.json             for each photo CRC-32s of Pillow's pixels and of both libraries' pixels before normalisation

--photos: rewrite photos.json. --files: also write the image files there, to look at.
"""
import argparse
import io
import json
import pathlib
import sys
import warnings
import zlib

import numpy as np
import torchvision_stub  # noqa: F401  must come before timm
from PIL import Image, ImageOps
from safetensors.numpy import save_file
from timm.data import create_transform, resolve_data_config
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil
from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import golden_files  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from pack import pack, unpacked  # noqa: E402

FOLDER = pathlib.Path(__file__).parent / "golden"
PROCESSORS = {"ViT": ViTImageProcessorPil, "DeiT": DeiTImageProcessorPil, "Bit": BitImageProcessorPil,
              "Yolos": YolosImageProcessorPil}
HALF = [0.5, 0.5, 0.5]


def decode_golden(files):
    tensors = {}
    for name, data in files.items():
        image = Image.open(io.BytesIO(data))
        upright = ImageOps.exif_transpose(image)
        image = Image.open(io.BytesIO(data))  # as it lies: exif_transpose may have turned it in place
        tensors[f"file/{name}"] = np.frombuffer(data, np.uint8)
        rgb = np.array(upright.convert("RGB"))
        tensors[f"rgb/{name}"] = rgb
        if name.startswith(("jpeg_4", "png_palette", "png_grey_alpha", "png_grey_16", "jpeg_cmyk", "gif", "tiff_float")):
            tensors[f"grey/{name}"] = np.array(upright.convert("L"))
        stored = np.array(image.convert("RGB"))
        if stored.shape != rgb.shape or (stored != rgb).any():
            tensors[f"stored/{name}"] = stored
        # 16-bit grey with a transparent level: qkv leaves that level opaque.
        if upright.has_transparency_data and upright.mode != "I;16":
            tensors[f"alpha/{name}"] = np.ascontiguousarray(np.array(upright.convert("RGBA"))[..., 3])
    save_file(tensors, FOLDER / "decode.safetensors")


SEEDS = (
    "jpeg_420_progressive.jpg", "jpeg_cmyk.jpg", "jpeg_exif_6.jpg", "png_palette_4_interlaced.png", "png_rgba_16.png",
    "png_raw_profile_6.png", "webp_lossy_alpha.webp", "webp_lossless.webp", "gif_interlaced.gif", "gif_animation.gif",
    "bmp_rle8.bmp", "bmp_16_565.bmp", "tiff_lzw_predictor.tif", "tiff_jpeg.tif", "tiff_rgb_tiles_planar.tif",
    "tiff_group4.tif", "tiff_float.tif", "pnm_p3.ppm", "pnm_p4.pbm", "pnm_p5_12bit.pgm",
)


def seed_files(files):
    folder = unpacked("tests/image/golden/files")
    for name in SEEDS:
        (folder / name).write_bytes(files[name])
    pack()


FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}


def resize_golden():
    tensors = {}

    def add(width, height, channels, filters, sizes):
        data = golden_files.picture(width, height, channels, seed=channels)
        # Full swings make the wider filters overshoot, so that clipping is tested.
        data = np.clip((data.astype(int) - 128) * 3 + 128, 0, 255).astype(np.uint8)
        tensors[f"in/{height}x{width}x{channels}"] = data
        modes = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
        image = Image.fromarray(data[..., 0] if channels == 1 else data, modes[channels])
        for name in filters:
            for h, w in sizes:
                out = np.array(image.resize((w, h), FILTERS[name])).reshape(h, w, channels)
                tensors[f"{name}/{height}x{width}x{channels}/{h}x{w}"] = out

    sizes = [(13, 17), (33, 41), (29, 20), (40, 37), (1, 1), (3, 90), (29, 37)]
    add(37, 29, 3, FILTERS, sizes)
    for channels in (1, 2, 4):
        add(37, 29, channels, ("nearest", "bicubic", "lanczos"), sizes)
    add(1, 1, 3, FILTERS, [(5, 9)])
    add(200, 3, 3, FILTERS, [(2, 7), (5, 199)])
    add(3, 211, 3, FILTERS, [(9, 2), (210, 4)])
    save_file(tensors, FOLDER / "resize.safetensors")


def timm_transform(config, size=None):
    args = {"input_size": (config.get("input_size", [3])[0], *size)} if size else {}
    return create_transform(**resolve_data_config(args, pretrained_cfg=config), is_training=False)


def hf_processor(config):
    config = dict(config)
    return PROCESSORS[config.pop("image_processor_type").removesuffix("ImageProcessor")](**config)


def timm_cases():
    base = {"input_size": [3, 20, 20], "mean": HALF, "std": HALF, "interpolation": "bicubic", "crop_pct": 0.9}
    wide = {"input_size": [3, 20, 28]}
    imagenet = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
    for change in (
        {}, imagenet, {"crop_pct": 1.0}, {"crop_pct": 0.875, "interpolation": "bilinear"}, {"crop_pct": 0.95},
        {"crop_mode": "squash"}, {"crop_mode": "squash", "crop_pct": 1.0}, {"crop_mode": "border"},
        {"crop_mode": "border", "crop_pct": 1.0} | imagenet, {"interpolation": "lanczos"},
        {"interpolation": "nearest"}, {"interpolation": "hamming"}, {"interpolation": "box"},
        wide, wide | {"crop_mode": "border"}, wide | {"crop_mode": "squash"}, wide | {"crop_pct": 1.0},
        {"input_size": [3, 25, 25], "crop_pct": 1.0}, {"input_size": [3, 31, 31], "crop_pct": 0.7},
        {"input_size": [1, 20, 20], "mean": [0.5], "std": [0.5]},
        {"input_size": [1, 20, 20], "mean": [0.1307], "std": [0.3081], "crop_mode": "border"},
        {"crop_mode": None, "interpolation": "", "crop_pct": 0},
    ):
        yield base | change, None
    yield {"input_size": [3, 16, 16]}, None
    yield base, (20, 20)
    yield base, (30, 18)
    yield base | {"crop_mode": "squash"}, (18, 30)


def hf_cases():
    """(configuration, configuration that `size` should amount to, size)"""
    vit = {"image_processor_type": "ViTImageProcessor", "size": {"height": 20, "width": 20}}
    deit = {"image_processor_type": "DeiTImageProcessor", "size": {"height": 24, "width": 24},
            "crop_size": {"height": 20, "width": 20}}
    bit = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 23},
           "crop_size": {"height": 20, "width": 20}}
    imagenet = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    for config in (
        vit, vit | {"resample": 3}, vit | {"resample": 1}, vit | {"resample": 0}, vit | {"resample": 4},
        vit | {"resample": 5}, vit | {"size": 20}, vit | {"size": {"height": 18, "width": 26}}, vit | imagenet,
        vit | {"do_normalize": False}, vit | {"do_rescale": False}, vit | {"rescale_factor": 1 / 127.5},
        vit | {"do_rescale": False, "do_normalize": False}, vit | {"rescale_factor": 0.01},
        vit | {"do_resize": False}, vit | {"size": {"shortest_edge": 20}}, vit | {"size": [18, 26]},
        vit | {"do_center_crop": True, "crop_size": 21}, vit | {"image_mean": 0.3, "image_std": 0.2},
        vit | {"do_resize": None}, vit | {"do_center_crop": None, "crop_size": None}, vit | {"do_normalize": None},
        deit, deit | imagenet, deit | {"crop_size": 19}, deit | {"crop_size": {"height": 32, "width": 17}},
        deit | {"do_center_crop": False}, deit | {"do_resize": False},
        bit, bit | imagenet, bit | {"size": 22}, bit | {"crop_size": 29}, bit | {"do_resize": False},
        bit | {"crop_size": {"height": 19, "width": 24}},
    ):
        yield config, config, None
    yield vit, vit | {"size": {"height": 20, "width": 26}}, (20, 26)
    yield deit, deit | {"size": {"height": 20, "width": 26}, "crop_size": {"height": 20, "width": 26}}, (20, 26)
    yield bit, bit | {"size": {"shortest_edge": 26}, "crop_size": {"height": 20, "width": 26}}, (20, 26)


def preprocess_golden():
    images = {
        "wide": golden_files.picture(45, 30), "tall": golden_files.picture(30, 41, seed=1),
        "small": golden_files.picture(20, 17, seed=2), "grey": golden_files.picture(33, 31, 1, seed=3)[..., 0],
        "strip": golden_files.picture(70, 9, seed=4),
    }
    tensors = {f"image/{name}": data if data.ndim == 3 else data[..., None] for name, data in images.items()}
    cases = []

    def add(library, config, size, channels, out, image):
        tensors[f"out/{len(cases)}"] = np.ascontiguousarray(out, np.float32)
        cases.append({"library": library, "config": config, "size": size, "channels": channels, "image": image})

    names = list(images)
    for i, (config, size) in enumerate(timm_cases()):
        channels = config["input_size"][0]
        for name in sorted({"wide", "strip"} if i == 0 else {names[i % len(names)]}):
            image = Image.fromarray(images[name]).convert("RGB" if channels == 3 else "L")
            add("timm", config, size, channels, timm_transform(config, size)(image).numpy(), name)
    for i, (config, effective, size) in enumerate(hf_cases()):
        for name in sorted({"tall", "strip"} if i == 0 else {names[i % len(names)]}):
            image = Image.fromarray(images[name]).convert("RGB")
            out = hf_processor(effective)(image, return_tensors="np")["pixel_values"][0]
            add("transformers", config, size, 3, out, name)
    grey = {"image_processor_type": "ViTImageProcessor", "size": 24, "image_mean": [0.5], "image_std": [0.5]}
    image = Image.fromarray(images["wide"]).convert("L")
    add("transformers", grey, None, 1, hf_processor(grey)(image, return_tensors="np")["pixel_values"][0], "wide")
    yolos = {"image_processor_type": "YolosImageProcessor", "size": {"shortest_edge": 33, "longest_edge": 125}}
    half = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    for config in (yolos, yolos | {"size": {"shortest_edge": 40, "longest_edge": 51}, "resample": 3}, yolos | half,
                   yolos | {"size": 20, "max_size": 140}, yolos | {"do_resize": False}, yolos | {"do_pad": False}):
        for name in ("tall", "wide", "strip"):
            if config["size"] == {"shortest_edge": 40, "longest_edge": 51} and name == "strip":
                continue  # nothing would be left of the shorter edge
            out = hf_processor(config)(Image.fromarray(images[name]), return_tensors="np")["pixel_values"][0]
            add("transformers", config, None, 3, out, name)
    save_file(tensors, FOLDER / "preprocess.safetensors", {"cases": json.dumps(cases)})


def photos_golden(folder):
    """Digests for ViT's usual pipelines. HF's is the PIL backend; pixels before normalisation, [3, 224, 224]."""
    config = {"input_size": [3, 224, 224], "interpolation": "bicubic", "crop_pct": 0.9, "mean": HALF, "std": HALF}
    resize_and_crop = timm_transform(config).transforms[:2]
    processors = {"vit": ViTImageProcessorPil(do_rescale=False, do_normalize=False),
                  "dinov2": BitImageProcessorPil(size={"shortest_edge": 256}, do_rescale=False, do_normalize=False)}
    digests = {}
    crc = lambda array: zlib.crc32(np.ascontiguousarray(array, np.uint8).tobytes())
    for path in sorted(folder.iterdir()):
        image = ImageOps.exif_transpose(Image.open(path))
        digest = {"decoded": crc(np.array(image)), "channels": len(image.getbands())}
        image = image.convert("RGB")
        digest["resized"] = crc(np.array(image.resize((224, 224), Image.Resampling.BICUBIC)))
        cropped = image
        for step in resize_and_crop:
            cropped = step(cropped)
        digest["timm"] = crc(np.array(cropped).transpose(2, 0, 1))
        for name, processor in processors.items():
            digest[name] = crc(processor(image, return_tensors="np")["pixel_values"][0])
        digests[path.name] = digest
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(digest)}" for name, digest in digests.items())
    (FOLDER / "photos.json").write_text("{\n" + text + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=pathlib.Path)
    parser.add_argument("--files", type=pathlib.Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    FOLDER.mkdir(exist_ok=True)
    files = golden_files.all_files()
    if options.files:
        options.files.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (options.files / name).write_bytes(data)
    decode_golden(files)
    seed_files(files)
    resize_golden()
    preprocess_golden()
    if options.photos:
        photos_golden(options.photos)


if __name__ == "__main__":
    main()
