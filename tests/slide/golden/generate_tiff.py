#!/usr/bin/env python3
"""Writes tests/slide/golden/tiff: small slides in TIFF, and what OpenSlide or tifffile make of them.

    PYTHON tests/slide/golden/generate_tiff.py [QKV_DATA]      # openslide-bin 4.0.1, tifffile, imagecodecs, numpy

NAME.tiff           the slides
expected.json      for each: levels (width, height, downsample), scale, magnification, pictures beside it, the CRC-32 of
                   each level's pixels (RGB over white), and which package said so; for real files under QKV_DATA the
                   CRC-32 of regions by OpenSlide
NAME_LEVEL.rgb      pixels of levels that may differ a little
"""
import io
import json
import pathlib
import struct
import sys
import tempfile
import zlib

import imagecodecs
import numpy as np
import openslide
import tifffile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "golden"))
from pack import pack, unpacked  # noqa: E402

WIDTH, HEIGHT, TILE = 53, 42, 16
APERIO = ("Aperio Image Library v11.2.1 \r\n{}x{} [0,0 {}x{}] (16x16) JPEG/RGB Q=30;x\r\n|AppMag = 20|StripeWidth = 2040"
          "|Note|Empty=|MPP = 0,4990|Left = 25.691574")


def picture(width=WIDTH, height=HEIGHT, seed=0):
    """Tissue on glass: smooth, so that it packs well, and with some steps."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    spots = sum(np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * (width / 9) ** 2))
                for cx, cy in rng.uniform(0, 1, (6, 2)) * (width, height))
    rgb = 240 - np.clip(spots, 0, 1)[..., None] * np.array([60, 130, 50])
    rgb[(x // 5 + y // 7) % 4 == 0] -= 9
    return rgb.clip(0, 255).astype(np.uint8)


def reduced(image, factor):
    h, w = image.shape[0] // factor, image.shape[1] // factor
    return image[:h * factor, :w * factor].reshape(h, factor, w, factor, 3).mean((1, 3)).round().astype(np.uint8)


def write(pages, **options):
    """A TIFF of pages (array, options of the page)."""
    out = io.BytesIO()
    with tifffile.TiffWriter(out, **options) as tiff:
        for array, page in pages:
            tiff.write(array, metadata=None, software=False, **page)
    return out.getvalue()


def tiled(**page):
    return {"photometric": "rgb", "tile": (TILE, TILE), **page}


def pyramid(image, factors=(2, 4), **page):
    return [(image, tiled(**page))] + [(reduced(image, f), tiled(subfiletype=1, **page)) for f in factors]


def svs(image, **page):
    h, w = image.shape[:2]
    thumbnail = (reduced(image, 2), {"photometric": "rgb", "rowsperstrip": 8, "compression": "lzw",
                                     "description": "Aperio Image Library v11.2.1 \r\n53x42 -> 26x21 - |AppMag = 20"})
    label = (picture(20, 18, 5), {"photometric": "rgb", "compression": "lzw", "predictor": True, "subfiletype": 1,
                                  "description": "Aperio Image Library v11.2.1 \r\nlabel 20x18"})
    macro = (picture(40, 12, 6), {"photometric": "rgb", "compression": "lzw", "subfiletype": 9,
                                  "description": "Aperio Image Library v11.2.1 \r\nmacro 40x12"})
    first = (image, tiled(description=APERIO.format(w, h, w, h), **page))
    coarser = [(reduced(image, f), tiled(description=APERIO.format(w, h, w // f, h // f), **page)) for f in (2, 4)]
    return write([first, thumbnail, *coarser, label, macro])


def ome(image, factors=(2, 4), in_sub_directories=True):
    h, w = image.shape[:2]
    xml = f"""<?xml version="1.0" encoding="UTF-8"?><!-- a comment with < and > -->
<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Instrument ID="Instrument:0">
<Objective ID="Objective:0:0" NominalMagnification="10"/><Objective ID="Objective:0:1" NominalMagnification="40.0"/>
</Instrument><Image ID="Image:0" Name="macro image"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8"
SizeX="40" SizeY="12" SizeC="3" SizeZ="1" SizeT="1"><Channel ID="Channel:0:0" SamplesPerPixel="3"/>
<TiffData IFD="1" PlaneCount="1"/></Pixels></Image><Image ID="Image:1" Name="slide &#38; more">
<ObjectiveSettings ID="Objective:0:1"/><Pixels ID="Pixels:1" DimensionOrder="XYCZT" Type="uint8" SizeX="{w}"
SizeY="{h}" SizeC="3" SizeZ="1" SizeT="1" PhysicalSizeX="0.00025" PhysicalSizeXUnit="mm" PhysicalSizeY="0.26">
<Channel ID="Channel:1:0" SamplesPerPixel="3"/><TiffData IFD="0" PlaneCount="1"/></Pixels></Image></OME>"""
    page = tiled(compression="deflate")
    macro = (picture(40, 12, 6), {"photometric": "rgb", "compression": "lzw"})
    if not in_sub_directories:
        return write([(image, {**page, "description": xml.encode()}), macro, *pyramid(image, factors, compression="lzw")[1:]])
    out = io.BytesIO()
    with tifffile.TiffWriter(out, bigtiff=True) as tiff:
        common = {"metadata": None, "software": False}
        tiff.write(image, subifds=len(factors), description=xml.encode(), **page, **common)
        for factor in factors:
            tiff.write(reduced(image, factor), subfiletype=1, **page, **common)
        tiff.write(macro[0], **macro[1], **common)
    return out.getvalue()


def with_tag(data, tag, index, value):
    """A classic little-endian TIFF with one value of an array of the first directory replaced."""
    data = bytearray(data)
    at = struct.unpack_from("<I", data, 4)[0]
    for i in range(struct.unpack_from("<H", data, at)[0]):
        entry = at + 2 + 12 * i
        name, kind, count, place = struct.unpack_from("<HHII", data, entry)
        if name == tag:
            size, form = {3: (2, "<H"), 4: (4, "<I")}[kind]
            base = entry + 8 if count * size <= 4 else place
            struct.pack_into(form, data, base + index * size, value)
            return bytes(data)
    raise KeyError(tag)


OFFSETS, COUNTS = 324, 325


def slides(image):
    grey = image[..., 1].copy()
    deep = image.astype(np.uint16) * 256 + np.arange(image.shape[1], dtype=np.uint16)[None, :, None]
    palette = np.stack([np.arange(256) * 257, np.arange(255, -1, -1) * 257, np.arange(256) * 128]).astype(np.uint16)
    jpeg = {"compression": "jpeg", "compressionargs": {"level": 90}}
    rgb_jpeg = {"compression": "jpeg", "compressionargs": {"level": 90, "outcolorspace": "rgb"}}
    grey_jpeg = {"level": 90, "colorspace": "minisblack", "outcolorspace": "minisblack"}
    plain = pyramid(image, compression="deflate", predictor=True, resolution=(40000, 39000), resolutionunit="CENTIMETER")
    alpha = np.dstack([image, (np.arange(image.shape[1], dtype=np.uint8) * 3)[None].repeat(image.shape[0], 0)])
    lzw = write(pyramid(image, compression="lzw"))
    jp2 = write(pyramid(image, compression="aperio_jp2000_rgb"))
    files = {
        "svs_jpeg": svs(image, **rgb_jpeg),
        "svs_33003": svs(image, compression="aperio_jp2000_ycbc"),
        "svs_33005": svs(image, compression="aperio_jp2000_rgb"),
        "svs_sparse": with_tag(with_tag(svs(image, compression="lzw"), COUNTS, 6, 0), OFFSETS, 6, 0),
        "ome_sub": ome(image),
        "ome_later": ome(image, in_sub_directories=False),
        "pyramid_deflate": write(plain),
        "pyramid_lzw": lzw,
        "pyramid_big": write(pyramid(image, compression="packbits"), bigtiff=True),
        "pyramid_motorola": write(pyramid(image, compression="lzma"), byteorder=">"),
        "pyramid_webp": write(pyramid(image, (2,), compression="webp", compressionargs={"lossless": True})),
        "pyramid_zstd": write(pyramid(image, (2,), compression="zstd")),
        "jpeg_420": write([(image, tiled(subsampling=(2, 2), **jpeg))]),
        "jpeg_422": write([(image, tiled(subsampling=(2, 1), **jpeg))]),
        "jpeg_444": write([(image, tiled(subsampling=(1, 1), **jpeg))]),
        "jpeg_grey": write([(grey, {**tiled(compression="jpeg", compressionargs=grey_jpeg), "photometric": "minisblack"})]),
        "jp2_34712": write([(image, tiled(compression="jpeg2000"))]),
        "grey": write([(grey, {"photometric": "minisblack", "tile": (TILE, 2 * TILE), "compression": "deflate"})]),
        "white_is_zero": write([(255 - grey, {"photometric": "miniswhite", "tile": (TILE, TILE), "compression": "lzw"})]),
        "palette": write([(grey, {"photometric": "palette", "colormap": palette, "tile": (TILE, TILE),
                                  "compression": "deflate"})]),
        "alpha": write([(alpha, tiled(extrasamples=["unassalpha"], compression="deflate"))]),
        "deep": write([(deep, tiled(compression="deflate", predictor=True))], byteorder=">"),
        "planar": write([(np.moveaxis(image, 2, 0), tiled(planarconfig="separate", compression="deflate"))]),
        "flat_strips": write([(image, {"photometric": "rgb", "rowsperstrip": 7, "compression": "lzw"})]),
        "flat_one_strip": write([(image, {"photometric": "rgb"})]),
        "flat_planar": write([(np.moveaxis(image, 2, 0), {"photometric": "rgb", "planarconfig": "separate",
                                                          "rowsperstrip": 9, "compression": "deflate"})]),
        "sparse": with_tag(with_tag(lzw, COUNTS, 6, 0), OFFSETS, 6, 0),
        "damaged_lzw": with_tag(lzw, OFFSETS, 6, 0x7FFFFFF0),
        "damaged_jp2": with_tag(jp2, COUNTS, 6, 60),
    }
    return files


# Pixels of these are stored, as they may differ: by another libjpeg's interpolation, by the filter where a coarser tile is
# absent, by the rounding of alpha.
STORED = ("jpeg_420", "svs_sparse", "alpha")


def over_white(rgba):
    rgba = np.array(rgba).astype(int)
    alpha = rgba[..., 3:]
    return ((rgba[..., :3] * alpha + 127) // 255 + 255 - alpha).astype(np.uint8)


def by_openslide(data, folder):
    """Levels as [width, height, downsample, pixels] and what is said of the slide; nothing if OpenSlide refuses it."""
    path = folder / "slide.tiff"
    path.write_bytes(data)
    try:
        slide = openslide.OpenSlide(path)
    except openslide.OpenSlideError:
        return None
    levels = []
    for i, (size, downsample) in enumerate(zip(slide.level_dimensions, slide.level_downsamples)):
        try:
            pixels = over_white(slide.read_region((0, 0), i, size))
        except openslide.OpenSlideError:
            return None
        levels.append([*size, downsample, pixels])
    mpp, power = slide.properties.get("openslide.mpp-x"), slide.properties.get("openslide.objective-power")
    pictures = {name: np.array(image.convert("RGB")) for name, image in slide.associated_images.items()}
    return {"levels": levels, "mpp": mpp and float(mpp), "magnification": power and float(power), "pictures": pictures}


def by_tifffile(data):
    levels = []
    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        first = tiff.pages[0]
        for page in [*tiff.pages, *(first.pages or [])]:
            pixels = page.asarray()
            pixels = np.moveaxis(pixels, 0, 2) if pixels.ndim == 3 and pixels.shape[0] == 3 else pixels
            pixels = (pixels >> 8).astype(np.uint8) if pixels.dtype == np.uint16 else pixels
            if page.photometric.name == "RGB" and page.imagewidth * first.imagelength // 100 == \
                    page.imagelength * first.imagewidth // 100 or page is first or page.subfiletype == 1:
                scale = (first.imagewidth / page.imagewidth + first.imagelength / page.imagelength) / 2
                levels.append([page.imagewidth, page.imagelength, scale, pixels])
    return {"levels": levels, "mpp": None, "magnification": None, "pictures": {}}


def crc(pixels):
    return zlib.crc32(np.ascontiguousarray(pixels).tobytes())


def expected(name, data, folder, stored):
    ome = name.startswith("ome")
    found, source = None if ome else by_openslide(data, folder), "OpenSlide"
    if found is None:
        found, source = by_tifffile(data), "tifffile"
    if ome:
        found |= {"mpp": 0.25, "magnification": 40.0, "pictures": {"macro": picture(40, 12, 6)}}
    levels = [{"width": w, "height": h, "downsample": d, "crc": crc(pixels)} for w, h, d, pixels in found["levels"]]
    if name in STORED:
        for i, level in enumerate(found["levels"]):
            levels[i].pop("crc")
            stored[f"{name}_{i}"] = level[3]
    pictures = {key: crc(pixels) for key, pixels in found["pictures"].items()}
    return {"by": source, "levels": levels, "mpp": found["mpp"], "magnification": found["magnification"],
            "pictures": pictures}


def regions(data):
    """Regions of real slides by OpenSlide: {file: [[level, x, y, width, height, CRC-32], …]}."""
    rng, found = np.random.default_rng(1), {}
    for name in ("slides/cmu_small_region.svs", "dicom-wsi/small.svs", "dicom-wsi/boxes.tiff"):
        slide = openslide.OpenSlide(data / "medical" / name)
        found[name] = []
        for level, (width, height) in enumerate(slide.level_dimensions):
            for _ in range(12):
                w, h = rng.integers(1, 300, 2)
                x, y = rng.integers(0, width), rng.integers(0, height)
                if level > 0:
                    x = y = 0  # OpenSlide takes coordinates of level 0
                pixels = over_white(slide.read_region((int(x), int(y)), level, (int(w), int(h))))
                found[name].append([level, int(x), int(y), int(w), int(h), crc(pixels)])
    return found


def main():
    folder = unpacked("tests/slide/golden/tiff")
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    stored, results = {}, {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, data in slides(picture()).items():
            (folder / f"{name}.tiff").write_bytes(data)
            if not name.startswith("damaged"):
                results[name] = expected(name, data, pathlib.Path(temporary), stored)
    document = {"slides": results, "regions": regions(pathlib.Path(sys.argv[1])) if len(sys.argv) > 1 else {}}
    (folder / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    for name, pixels in stored.items():
        (folder / f"{name}.rgb").write_bytes(np.ascontiguousarray(pixels).tobytes())
    pack()


if __name__ == "__main__":
    main()
