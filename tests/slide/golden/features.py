#!/usr/bin/env python3
"""Writes tests/slide/golden/features.tar: feature files by h5py, of the kinds that are read and that are refused.

    PYTHON tests/slide/golden/features.py      PYTHON has h5py and numpy
"""
import pathlib
import shutil
import sys

import h5py
import numpy

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "golden"))
from pack import pack, unpacked  # noqa: E402

TILES, WIDTH = 11, 6
FOLDER = unpacked("tests/slide/golden") / "features"
# As the tests compute them.
FEATURES = ((numpy.arange(TILES * WIDTH) * 37 % 256 - 128) * 0.125).reshape(TILES, WIDTH)
COORDS = numpy.stack([256 * numpy.arange(TILES), 7 * numpy.arange(TILES) ** 2], 1)


def save_h5(path, assets, attributes):
    """The arithmetic of TRIDENT's save_h5: chunks of one row, an unlimited first axis."""
    with h5py.File(path, "w") as file:
        for name, value in assets.items():
            one_row, more_rows = (1,) + value.shape[1:], (None,) + value.shape[1:]
            dataset = file.create_dataset(name, shape=value.shape, maxshape=more_rows, chunks=one_row, dtype=value.dtype)
            dataset[:] = value
            for key, attribute in attributes.get(name, {}).items():
                dataset.attrs[key] = "None" if attribute is None else attribute


def write(name, features="f4", coords="i8", libver=None, values=FEATURES, with_coords=True, **options):
    with h5py.File(FOLDER / f"{name}.h5", "w", libver=libver) as file:
        file.create_dataset("features", data=values.astype(features), **options)
        if with_coords:
            file.create_dataset("coords", data=COORDS.astype(coords))
    return FOLDER / f"{name}.h5"


def write_read():
    coords = {"patch_size": 256, "patch_size_level0": 512, "level0_magnification": 40, "target_magnification": 20,
              "overlap": 0, "name": "slidé", "savetodir": "patches", "level0_width": 2220, "level0_height": 2967}
    save_h5(FOLDER / "trident.h5", {"features": FEATURES.astype("f4"), "coords": COORDS},
            {"features": {"name": "slidé", "savetodir": "features_uni_v1", "encoder": None}, "coords": coords})
    save_h5(FOLDER / "empty.h5", {"features": numpy.empty((0, WIDTH), "f4"), "coords": numpy.empty((0, 2), "i8")}, {})
    # CLAM's, which grows by batches.
    save_h5(FOLDER / "clam.h5", {"features": FEATURES[:4].astype("f4"), "coords": COORDS[:4].astype("i4")}, {})
    with h5py.File(FOLDER / "clam.h5", "a") as file:
        for name, value in (("features", FEATURES), ("coords", COORDS)):
            file[name].resize(TILES, axis=0)
            file[name][4:] = value[4:]
    write("half", features="f2")
    write("double", features="f8", coords="u2")
    write("gzip", compression="gzip", chunks=(4, WIDTH), maxshape=(None, WIDTH))
    write("shuffle_gzip", compression="gzip", shuffle=True, chunks=(4, 4))
    write("bag_of_one", values=FEATURES[None], chunks=(1, 2, WIDTH))
    write("v108", libver=("v108", "v108"), chunks=(1, WIDTH), maxshape=(None, WIDTH))
    with h5py.File(write("kinds"), "a") as file:
        attributes = file["features"].attrs
        values = {"int": -5, "uint": numpy.uint8(200), "float": numpy.float32(0.5), "half": numpy.float16(0.25),
                  "text": "é", "fixed": numpy.bytes_("abc"), "nothing": "", "yes": True, "one": [7],
                  "several": [1, 2], "null": h5py.Empty("f4")}
        for key, value in values.items():
            attributes[key] = value
    with h5py.File(write("shrunk", chunks=(2, WIDTH), maxshape=(None, WIDTH)), "a") as file:
        file["features"].resize(3, axis=0)


def write_refused():
    write("refused_latest", libver="latest", chunks=(1, WIDTH), maxshape=(None, WIDTH))
    write("refused_lzf", compression="lzf", chunks=(4, WIDTH))
    write("refused_checksum", fletcher32=True, chunks=(4, WIDTH))
    write("refused_big_endian", features=">f4")
    write("refused_integers", features="i4")
    write("refused_vector", values=FEATURES[0])
    write("refused_coords", coords="f4")
    with h5py.File(FOLDER / "refused_external_link.h5", "w") as file:
        file["features"] = h5py.ExternalLink("half.h5", "features")
    with h5py.File(FOLDER / "refused_soft_link.h5", "w") as file:
        file["features"] = h5py.SoftLink("/elsewhere")
    with h5py.File(FOLDER / "refused_external_storage.h5", "w") as file:
        file.create_dataset("features", shape=(3, 2), dtype="f4", external=[("/etc/passwd", 0, 24)])
    with h5py.File(FOLDER / "refused_virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((TILES, WIDTH), dtype="f8")
        layout[:] = h5py.VirtualSource("double.h5", "features", shape=(TILES, WIDTH))
        file.create_virtual_dataset("features", layout)
    with h5py.File(FOLDER / "refused_group.h5", "w") as file:
        file.create_group("features")
    with h5py.File(FOLDER / "refused_other_names.h5", "w") as file:
        file["feats"] = FEATURES
    with h5py.File(FOLDER / "refused_incomplete.h5", "w") as file:
        file.create_dataset("features", shape=(TILES, WIDTH), dtype="f4", chunks=(1, WIDTH))[:4] = FEATURES[:4]


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    write_read()
    write_refused()
    pack()


main()
