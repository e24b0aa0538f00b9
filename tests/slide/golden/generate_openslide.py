"""Writes openslide.txt: checksums of tiles as openslide-python reads them (pip install openslide-python openslide-bin).

    python tests/slide/golden/generate_openslide.py $QKV_DATA/medical > tests/slide/golden/openslide.txt
"""
import sys
import zlib
from pathlib import Path

import openslide

SIDE = 200  # divides no tile of the files
FILES = """slides/cmu_small_region.svs dicom-wsi/small.svs dicom-wsi/boxes.tiff dicom-wsi/boxes_0.dcm dicom-wsi/boxes_1.dcm
dicom-wsi/sm_image.dcm dicom-wsi/sm_image_dots.dcm dicom-wsi/sm_image_control.dcm dicom-wsi/sm_image_numbers.dcm"""

print(openslide.__library_version__)
for name in FILES.split():
    slide = openslide.OpenSlide(Path(sys.argv[1]) / name)
    for level, (width, height) in enumerate(slide.level_dimensions):
        step = SIDE if width > 2000 else SIDE // 2
        side = min(SIDE, width, height)
        for y in range(0, height - side + 1, step):
            for x in range(0, width - side + 1, step):
                downsample = slide.level_downsamples[level]
                tile = slide.read_region((round(x * downsample), round(y * downsample)), level, (side, side))
                if tile.getextrema()[3] != (255, 255):
                    continue  # partly transparent: qkv has a background there, convert("RGB") does not
                print(name, level, x, y, side, side, zlib.crc32(tile.convert("RGB").tobytes()))
