"""Writes golden/image_ops.safetensors: what Pillow makes of small images.

    python tests/train/generate_image_ops.py        (with pillow, numpy, safetensors)

Names are INPUT/OPERATION/ARGUMENT; image_ops_test.cc does the same to INPUT.
"""
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps
from safetensors.numpy import save_file

FILE = Path(__file__).parent / "golden/image_ops.safetensors"
FILL = (12, 130, 250)


def inputs():
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:13, 0:19]
    slopes = [128 + 90 * np.sin(0.4 * x * (c + 1) / 2 + 0.3 * y + c) for c in range(3)]
    noisy = np.clip(np.stack(slopes, -1) + rng.normal(0, 12, (13, 19, 3)), 0, 255).astype(np.uint8)
    return {
        "rgb": noisy,
        "grey": noisy[..., 0].copy(),
        "noise": rng.integers(0, 256, (24, 17, 3), dtype=np.uint8),
        "dark": (noisy // 5 + 20).astype(np.uint8),
        "flat": np.full((6, 5, 3), 77, np.uint8),
        "one_pixel": np.array([[[3, 200, 90]]], np.uint8),
        "two_levels": np.where(noisy > 128, 200, 10).astype(np.uint8),
    }


def hue(image, shift):  # torchvision's adjust_hue
    if image.mode == "L":
        return image
    h, s, v = image.convert("HSV").split()
    h = Image.fromarray(np.array(h) + np.uint8(shift), "L")
    return Image.merge("HSV", (h, s, v)).convert("RGB")


def solarize_add(image, add):  # timm's
    table = [min(255, i + add) if i < 128 else i for i in range(256)]
    return image.point(table * len(image.getbands()))


def affine(image, matrix):
    fill = FILL if image.mode == "RGB" else FILL[0]
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=fill)


def rotate(image, degrees):
    fill = FILL if image.mode == "RGB" else FILL[0]
    return image.rotate(degrees, Image.Resampling.BILINEAR, fillcolor=fill)


def results(image):
    yield "flip/0", ImageOps.mirror(image)
    yield "auto_contrast/0", ImageOps.autocontrast(image)
    yield "equalize/0", ImageOps.equalize(image)
    yield "invert/0", ImageOps.invert(image)
    for bits in (0, 1, 4, 7):  # ImageOps.posterize refuses 0, which is its mask all the same
        table = [i & ~(2 ** (8 - bits) - 1) for i in range(256)]
        yield f"posterize/{bits}", image.point(table * len(image.getbands()))
    for threshold in (0, 100, 256):
        yield f"solarize/{threshold}", ImageOps.solarize(image, threshold)
    for add in (0, 60, 110):
        yield f"solarize_add/{add}", solarize_add(image, add)
    for name, kind in [("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast),
                       ("saturation", ImageEnhance.Color), ("sharpness", ImageEnhance.Sharpness)]:
        for factor in (0.0, 0.1, 0.73, 1.0, 1.37, 1.9):
            yield f"{name}/{factor}", kind(image).enhance(factor)
    for shift in (0, 1, 77, 200):
        yield f"hue/{shift}", hue(image, shift)
    for degrees in (0.0, 17.3, -30.0, 90.0, 180.0):
        yield f"rotate/{degrees}", rotate(image, degrees)
    width, height = image.size
    for factor in (0.3, -0.17):
        yield f"shear_x/{factor}", affine(image, (1, factor, 0, 0, 1, 0))
        yield f"shear_y/{factor}", affine(image, (1, 0, 0, factor, 1, 0))
        yield f"translate_x/{factor}", affine(image, (1, 0, factor * width, 0, 1, 0))
        yield f"translate_y/{factor}", affine(image, (1, 0, 0, 0, 1, factor * height))


def main():
    tensors = {}
    for name, pixels in inputs().items():
        tensors[name] = pixels
        for case, image in results(Image.fromarray(pixels)):
            tensors[f"{name}/{case}"] = np.array(image)
    FILE.parent.mkdir(exist_ok=True)
    save_file(tensors, FILE)
    print(f"{FILE}: {len(tensors)} tensors, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
