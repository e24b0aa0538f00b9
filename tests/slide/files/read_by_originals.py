"""PYTHON tests/slide/files/read_by_originals.py FOLDER: what feature_file_test.cc wrote, read by h5py and torch, as
far as PYTHON has them.
"""
import pathlib
import sys

import numpy

try:
    import h5py
except ImportError:
    h5py = None
try:
    import torch
except ImportError:
    torch = None

FOLDER = pathlib.Path(sys.argv[1])
TILES, WIDTH = 11, 6
FEATURES = ((numpy.arange(TILES * WIDTH) * 37 % 256 - 128) * 0.125).reshape(TILES, WIDTH).astype("f4")
COORDS = numpy.stack([256 * numpy.arange(TILES), 7 * numpy.arange(TILES) ** 2], 1)


def check(dataset, values, attributes):
    assert dataset.dtype == values.dtype and dataset.shape == values.shape, (dataset, values)
    assert dataset.chunks == (1,) + values.shape[1:] and dataset.maxshape == (None,) + values.shape[1:], dataset
    assert (dataset[:] == values).all()
    assert dict(dataset.attrs) == attributes, dict(dataset.attrs)
    for value in dataset.attrs.values():
        assert type(value) in (str, numpy.int64, numpy.float64), type(value)


def read_by_h5py():
    feature_attributes = {"encoder": "uni_v1", "name": "slidé", "savetodir": ""}
    coord_attributes = {"patch_size": 256, "level0_magnification": 40, "mpp": 0.25, "name": "slidé"}
    with h5py.File(FOLDER / "features.h5") as file:
        assert sorted(file) == ["coords", "features"]
        check(file["features"], FEATURES, feature_attributes)
        check(file["coords"], COORDS, coord_attributes)
    with h5py.File(FOLDER / "empty.h5") as file:
        check(file["features"], FEATURES[:0], {})
        check(file["coords"], COORDS[:0], {})
    with h5py.File(FOLDER / "slide.h5") as file:
        check(file["features"], FEATURES[:1], {})
        check(file["coords"], COORDS, {})
    with h5py.File(FOLDER / "coords.h5") as file:
        assert list(file) == ["coords"]
        check(file["coords"], COORDS, coord_attributes)
    with h5py.File(FOLDER / "features.h5", "a") as file:  # CLAM appends
        file["features"].resize(TILES + 1, axis=0)
        file["features"][-1:] = FEATURES[:1]
        assert (file["features"][:] == numpy.concatenate([FEATURES, FEATURES[:1]])).all()


def read_by_torch():
    for mmap in (False, True):
        tensor = torch.load(FOLDER / "features.pt", weights_only=True, mmap=mmap)
        assert tensor.dtype == torch.float32 and (tensor.numpy() == FEATURES).all()
        assert torch.load(FOLDER / "empty.pt", weights_only=True, mmap=mmap).shape == (0, WIDTH)


assert h5py or torch
if h5py:
    read_by_h5py()
if torch:
    read_by_torch()
