#!/usr/bin/env python3
"""Writes tests/image/golden/large.safetensors: "file/NAME", images of a megapixel whose decoding takes more memory than
the libraries' fixed buffers. They are flat, so that the files are short.

    pip install pillow-heif numpy safetensors     # pillow-heif 1.8.1, Pillow 13.0
    PYTHON tests/image/generate_large.py
"""
import io
import pathlib
import sys

import numpy as np
import pillow_heif
from PIL import Image
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from golden_files import bmp, exif, png, save  # noqa: E402

GOLDEN = pathlib.Path(__file__).parent / "golden"
W, H = 1203, 901


def flat(channels, dtype=np.uint8):
    """Squares, each of one colour."""
    y, x = np.mgrid[0:H, 0:W] // 150
    planes = [(40 * x + 23 * y * (c + 1)) % 256 for c in range(channels)]
    image = np.stack(planes, -1)
    return (image * 257 if dtype == np.uint16 else image).astype(dtype)


def pil(mode):
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    data = flat(channels)
    return Image.fromarray(data[..., 0] if channels == 1 else data, mode)


def png_and_bmp_files():
    grey, grey_alpha, rgba = flat(1), flat(2, np.uint16), flat(4, np.uint16)
    palette = bytes(range(256)) * 3
    row = b"".join(bytes([min(200, W - x), x // 200]) for x in range(0, W, 200)) + b"\0\0"
    return {
        "png_grey_1_interlaced.png": png(grey >> 7, 1, 0, True),
        "png_palette.png": png(grey, 8, 3, False, [(b"PLTE", palette), (b"tRNS", bytes(200))]),
        "png_palette_interlaced.png": png(grey, 8, 3, True, [(b"PLTE", palette)]),
        "png_grey_16.png": png(flat(1, np.uint16), 16, 0),
        "png_grey_alpha_16_interlaced.png": png(grey_alpha, 16, 4, True),
        "png_rgba_16.png": png(rgba, 16, 6),
        "png_rgba_16_interlaced.png": png(rgba, 16, 6, True),
        "png_turned.png": save(pil("RGBA"), "PNG", exif=exif(6)),
        "bmp_rle8.bmp": bmp(row * H + b"\0\1", W, H, 8, 1, palette + bytes(256)),
    }


def jpeg_files():
    files = {}
    for name, mode, options in (("420", "RGB", {}), ("444", "RGB", {"subsampling": 0}), ("grey", "L", {}), ("cmyk", "CMYK", {})):
        for progressive in (False, True):
            end = "_progressive" if progressive else ""
            files[f"jpeg_{name}{end}.jpg"] = save(pil(mode), "JPEG", quality=50, progressive=progressive, **options)
    files["jpeg_turned.jpg"] = save(pil("RGB"), "JPEG", quality=50, exif=exif(8))
    files["jpeg_progressive_turned.jpg"] = save(pil("RGB"), "JPEG", quality=50, progressive=True, exif=exif(3))
    return files


def webp_and_gif_files():
    more = dict(save_all=True, append_images=[pil("RGB").transpose(Image.Transpose.FLIP_LEFT_RIGHT)])
    return {
        "webp_lossy.webp": save(pil("RGB"), "WEBP", quality=50),
        "webp_lossy_alpha.webp": save(pil("RGBA"), "WEBP", quality=50),
        "webp_lossless.webp": save(pil("RGB"), "WEBP", lossless=True),
        "webp_lossless_alpha.webp": save(pil("RGBA"), "WEBP", lossless=True),
        "webp_animation.webp": save(pil("RGB"), "WEBP", **more),
        "gif_animation.gif": save(pil("RGB"), "GIF", **more),
        "gif_transparent.gif": save(pil("L").convert("P"), "GIF", transparency=3),
    }


def tiff_files():
    files = {}
    for name, mode, options in (
        ("deflate", "RGBA", {"compression": "tiff_adobe_deflate"}),
        ("lzw", "RGB", {"compression": "tiff_lzw"}),
        ("group4", "1", {"compression": "group4"}),
        ("cmyk", "CMYK", {"compression": "tiff_lzw"}),
        ("jpeg", "RGB", {"compression": "jpeg", "quality": 50}),
        ("ycbcr", "YCbCr", {"compression": "jpeg", "quality": 50}),
        ("lzma", "RGB", {"compression": "lzma"}),
        ("zstd", "RGB", {"compression": "zstd"}),
    ):
        image = pil("L").point(lambda x: 255 * (x > 127)).convert("1", dither=Image.Dither.NONE) if mode == "1" else pil("RGB").convert(mode) if mode == "YCbCr" else pil(mode)
        for rows in (64, H):
            end = "_one_strip" if rows == H else ""
            files[f"tiff_{name}{end}.tif"] = save(image, "TIFF", tiffinfo={278: rows}, **options)
    return files


def heif_files():
    grey10 = (flat(1, np.uint16)[..., 0] >> 6 << 6).astype(np.uint16)
    out = io.BytesIO()
    pillow_heif.encode("L;16", (W, H), grey10.tobytes(), out, quality=50)
    return {
        "heic_420.heic": save(pil("RGB"), "HEIF", quality=50),
        "heic_alpha.heic": save(pil("RGBA"), "HEIF", quality=50, chroma=444),
        "heic_grey_10.heic": out.getvalue(),
        "avif_420.avif": save(pil("RGB"), "AVIF", quality=50),
        "avif_alpha.avif": save(pil("RGBA"), "AVIF", quality=50, subsampling="4:4:4"),
    }


def main():
    pillow_heif.register_heif_opener()
    files = png_and_bmp_files() | jpeg_files() | webp_and_gif_files() | tiff_files() | heif_files()
    for name, data in files.items():
        print(name, len(data))
    save_file({f"file/{name}": np.frombuffer(data, np.uint8) for name, data in files.items()},
              GOLDEN / "large.safetensors")


main()
