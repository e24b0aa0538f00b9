#!/usr/bin/env python3
"""Writes tests/image/golden/jpeg2000.safetensors: small JPEG 2000 files, and what imagecodecs and Pillow make of them.

    pip install imagecodecs pillow numpy safetensors     # imagecodecs 2026.3.6 (OpenJPEG 2.5), Pillow 13.0
    apt-get install libopenjp2-tools                     # opj_compress: subsampled components
    PYTHON tests/image/generate_jpeg2000.py

"file/NAME" (the bytes), "samples/NAME" (as stored, modulo 65,536), "rgb/NAME" (Pillow's convert("RGB"), where Pillow reads it),
"alpha/NAME" (where there is one). Some of the files also go to files.tar, for fuzz/seeds.sh.
"""
import io
import pathlib
import subprocess
import sys
import tempfile

import imagecodecs
import numpy as np
from PIL import Image
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from golden_files import picture  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from pack import pack, unpacked  # noqa: E402

GOLDEN = pathlib.Path(__file__).parent / "golden"
WIDTH, HEIGHT = 36, 28


def saved(array, mode, **options):
    out = io.BytesIO()
    Image.fromarray(array, mode).save(out, "JPEG2000", **options)
    return out.getvalue()


def encoded(array, codec="j2k"):
    return imagecodecs.jpeg2k_encode(array, level=0, reversible=True, codecformat=codec)


def compressed(planes, steps, name, bits=8, signed="u"):
    """By opj_compress: planes of one file, each with steps of "XxY" pixels."""
    with tempfile.TemporaryDirectory() as folder:
        raw, out = pathlib.Path(folder) / "a.rawl", pathlib.Path(folder) / name
        raw.write_bytes(b"".join(p.tobytes() for p in planes))
        form = f"{WIDTH},{HEIGHT},{len(planes)},{bits},{signed}@{':'.join(steps)}"
        subprocess.run(["opj_compress", "-i", raw, "-o", out, "-F", form, "-mct", "0", "-n", "4"], check=True,
                       capture_output=True)
        return out.read_bytes()


def main():
    rgb, rgba, grey = picture(WIDTH, HEIGHT), picture(WIDTH, HEIGHT, 4), picture(WIDTH, HEIGHT, 1)[..., 0]
    grey_alpha = np.ascontiguousarray(rgba[..., 2:])
    # Pillow turns levels above this to black: it rounds them to 256.
    deep = np.minimum(rgb.astype(np.uint16) << 8 | rgb[::-1], 65407)
    signed = (deep[..., 0].astype(np.int32) - 32768).astype(np.int16)
    halves = [rgb[..., 0], np.ascontiguousarray(rgb[::2, ::2, 1]), np.ascontiguousarray(rgb[:, ::2, 2])]
    files = {
        "grey.j2k": (encoded(grey), grey),
        "grey.jp2": (encoded(grey, "jp2"), grey),
        "grey_16.j2k": (encoded(deep[..., 1].copy()), deep[..., 1]),
        "grey_16_signed.jp2": (encoded(signed, "jp2"), signed),
        "grey_12.j2k": (compressed([(deep[..., 0] >> 4).astype("<u2")], ["1x1"], "a.j2k", 12), deep[..., 0] >> 4),
        "grey_4.jp2": (compressed([grey >> 4], ["1x1"], "a.jp2", 4), grey >> 4),
        "grey_alpha.jp2": (saved(grey_alpha, "LA"), grey_alpha),
        "rgb.j2k": (encoded(rgb), rgb),
        "rgb.jp2": (encoded(rgb, "jp2"), rgb),
        "rgb_16.jp2": (encoded(deep, "jp2"), deep),
        "rgb_tiles.jp2": (saved(rgb, "RGB", tile_size=(16, 11)), rgb),
        "rgb_offset.jp2": (saved(rgb, "RGB", tile_size=(16, 16), offset=(5, 3), tile_offset=(2, 1)), rgb),
        "rgb_lossy.jp2": (saved(rgb, "RGB", irreversible=True, quality_layers=[20, 5]), None),
        "rgba.jp2": (saved(rgba, "RGBA"), rgba),
        "ycc.jp2": (saved(rgb, "YCbCr", mct=0), rgb),
        "subsampled.j2k": (compressed(halves, ["1x1", "2x2", "2x1"], "a.j2k"),
                           np.dstack([halves[0], halves[1].repeat(2, 0).repeat(2, 1), halves[2].repeat(2, 1)])),
    }
    tensors = {}
    for name, (data, samples) in files.items():
        tensors[f"file/{name}"] = np.frombuffer(data, np.uint8)
        if samples is None:
            samples = imagecodecs.jpeg2k_decode(data)
        if name in ("grey_16_signed.jp2", "rgb.j2k", "rgb_tiles.jp2", "subsampled.j2k"):
            (unpacked("tests/image/golden/files") / name).write_bytes(data)
        tensors[f"samples/{name}"] = samples.astype(np.int32).astype(np.uint16).reshape(HEIGHT, WIDTH, -1)
        if name.startswith("subsampled"):
            continue  # Pillow refuses them
        image = Image.open(io.BytesIO(data))
        tensors[f"rgb/{name}"] = np.array(image.convert("RGB"))
        if "alpha" in name or "rgba" in name:
            tensors[f"alpha/{name}"] = np.ascontiguousarray(np.array(image.convert("RGBA"))[..., 3])
    save_file(tensors, GOLDEN / "jpeg2000.safetensors")
    pack()


if __name__ == "__main__":
    main()
