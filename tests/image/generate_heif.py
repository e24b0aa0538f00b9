#!/usr/bin/env python3
"""Writes tests/image/golden/heif.safetensors: small HEIC and AVIF files, and what pillow-heif and Pillow make of them.

    pip install pillow-heif numpy safetensors     # pillow-heif 1.8.1 (libheif 1.23), Pillow 13.0
    PYTHON tests/image/generate_heif.py

"file/NAME" (the bytes), "rgb/NAME" (upright, convert("RGB")), "alpha/NAME" (where there is one). Names that begin with
"exact" decode to the same bytes by every version of the libraries: nothing is lost in them but, in AVIF, a rounding of the
colour space.
"""
import io
import pathlib
import sys

import numpy as np
import pillow_heif
from PIL import Image
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from golden_files import picture  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from pack import pack, unpacked  # noqa: E402

GOLDEN = pathlib.Path(__file__).parent / "golden"
pillow_heif.register_heif_opener()


def heic(image, **options):
    out = io.BytesIO()
    image.save(out, "HEIF", **options)
    return out.getvalue()


def avif(image, **options):
    out = io.BytesIO()
    image.save(out, "AVIF", **options)
    return out.getvalue()


def main():
    rgb = Image.fromarray(picture(37, 29), "RGB")
    rgba = Image.fromarray(picture(37, 29, 4), "RGBA")
    exact = dict(quality=-1, chroma=444, matrix_coefficients=0)
    exif = Image.Exif()
    exif[0x0112] = 6
    files = {
        "exact_rgb.heic": heic(rgb, **exact),
        "exact_alpha.heic": heic(rgba, **exact),
        "exact_turned.heic": heic(rgb, exif=exif.tobytes(), **exact),
        "exact_grey.heic": heic(Image.fromarray(picture(20, 17, 1)[..., 0], "L"), quality=-1),
        "lossy_420.heic": heic(rgb, quality=70),
        "lossy_420.avif": avif(rgb, quality=70),
        "lossy_444.avif": avif(rgb, quality=100, subsampling="4:4:4"),
        "lossy_alpha.avif": avif(rgba, quality=90, subsampling="4:4:4"),
        "lossy_turned.avif": avif(rgb, quality=90, subsampling="4:4:4", exif=exif.tobytes()),
    }
    tensors = {}
    for name, data in files.items():
        image = Image.open(io.BytesIO(data))
        image.load()
        turned = "turned" in name and image.size == rgb.size
        print(name, len(data), image.mode, image.size, "orientation", image.getexif().get(0x0112))
        if turned:  # Pillow's AVIF reader leaves the turn to EXIF
            from PIL import ImageOps

            image = ImageOps.exif_transpose(image)
        tensors[f"file/{name}"] = np.frombuffer(data, np.uint8)
        tensors[f"rgb/{name}"] = np.array(image.convert("RGB"))
        if image.mode == "RGBA":
            tensors[f"alpha/{name}"] = np.ascontiguousarray(np.array(image)[..., 3])
        if name in ("exact_rgb.heic", "lossy_alpha.avif"):
            (unpacked("tests/image/golden/files") / name).write_bytes(data)
    save_file(tensors, GOLDEN / "heif.safetensors")
    pack()


main()
