"""DICOM goldens by pydicom: `golden/dicom.safetensors` (small files made here, and what they show in 8 bits) and
`golden/dicom.txt` (checksums of what the files of QKV_DATA show, of lossy ones the means of an 8 x 8 grid).

    QKV_DATA=/work/data /work/slideenv/bin/python tests/image/generate_dicom.py

pydicom decodes and converts colours; the way to 8 bits is written here after PS3.3 C.11 (pydicom's apply_voi_lut gives
other ranges)."""
import io
import json
import os
import struct
import warnings
import zlib
from pathlib import Path

import imagecodecs
import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixels import pixel_array
from pydicom.pixels.processing import apply_color_lut
from pydicom.sequence import Sequence
from pydicom.uid import (CTImageStorage, DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ExplicitVRLittleEndian,
                         ImplicitVRLittleEndian, JPEG2000Lossless, RLELossless)

warnings.simplefilter("ignore")
GOLDEN = Path(__file__).parent / "golden"
LOSSY = ("1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.51")
GRID = 8


def to_levels(x):
    x = np.clip(np.where(np.isnan(x), 0, x), 0, 1)
    return np.floor(255 * x + 0.5).astype(np.uint8)


def of_frame(ds, frame, group, name):
    """The value in the frame's functional groups, in those of all frames, or in the data set."""
    for sequence, item in (("PerFrameFunctionalGroupsSequence", frame), ("SharedFunctionalGroupsSequence", 0)):
        try:
            return getattr(getattr(getattr(ds, sequence)[item], group)[0], name)
        except (AttributeError, IndexError):
            pass
    return ds.get(name)


def first(value):
    if value is None:
        return None
    return float(value[0] if isinstance(value, (list, pydicom.multival.MultiValue)) else value)


def table(item, signed):
    count, begin, bits = item.LUTDescriptor
    count = count or 65536
    if signed and begin > 32767:
        begin -= 65536
    data = item.LUTData
    if isinstance(data, bytes):
        data = np.frombuffer(data, "<u2" if len(data) >= 2 * count else "u1")
    return begin, np.asarray(data, np.float64)[:count], 2.0**bits - 1


def rescale(ds, frame, raw, signed):
    if ds.get("ModalityLUTSequence"):
        begin, entries, _ = table(ds.ModalityLUTSequence[0], signed)
        return entries[np.clip(raw - begin, 0, len(entries) - 1)]
    slope = first(of_frame(ds, frame, "PixelValueTransformationSequence", "RescaleSlope"))
    intercept = first(of_frame(ds, frame, "PixelValueTransformationSequence", "RescaleIntercept"))
    return raw.astype(np.float64) * (1 if slope is None else slope) + (0 if intercept is None else intercept)


def picture_range(ds, raw, x):
    if ds.get("ModalityLUTSequence"):
        entries = table(ds.ModalityLUTSequence[0], False)[1]
        return entries.min(), entries.max()
    keep = np.ones(raw.shape, bool)
    if ds.get("PixelPaddingValue") is not None:
        ends = sorted((ds.PixelPaddingValue, ds.get("PixelPaddingRangeLimit", ds.PixelPaddingValue)))
        keep = (raw < ends[0]) | (raw > ends[1])
    return (x[keep].min(), x[keep].max()) if keep.any() else (0, 0)


def show_grey(ds, frame, raw, window):
    signed = ds.get("PixelRepresentation", 0) == 1
    x = rescale(ds, frame, raw, signed)
    center = first(of_frame(ds, frame, "FrameVOILUTSequence", "WindowCenter"))
    width = first(of_frame(ds, frame, "FrameVOILUTSequence", "WindowWidth"))
    function = of_frame(ds, frame, "FrameVOILUTSequence", "VOILUTFunction") or "LINEAR"
    if window:
        y = (x - window[0]) / (window[1] - window[0])
    elif ds.get("VOILUTSequence"):
        begin, entries, most = table(ds.VOILUTSequence[0], signed or x.min() < 0)
        y = entries[np.clip(x - begin, 0, len(entries) - 1).astype(int)] / most
    elif center is not None and width is not None and width >= (1 if function == "LINEAR" else 1e-300):
        if function == "SIGMOID":
            y = 1 / (1 + np.exp(-4 * (x - center) / width))
        else:
            if function == "LINEAR":
                center, width = center - 0.5, width - 1
            with np.errstate(all="ignore"):
                y = (x - center) / width + 0.5
            y = np.where(x <= center - width / 2, 0, np.where(x > center + width / 2, 1, y))
    elif ds.BitsStored <= 8 and not ds.get("ModalityLUTSequence"):
        y = (raw + (2.0**(ds.BitsStored - 1) if signed else 0)) / (2.0**ds.BitsStored - 1)
    else:
        low, high = picture_range(ds, raw, x)
        y = (x - low) / (high - low) if high > low else np.zeros(x.shape)
    return to_levels(y)


def stored_values(ds, raw):
    """Without what is beside the stored bits; pydicom takes the lowest for them."""
    if ds.HighBit == ds.BitsStored - 1:
        return raw.astype(np.int64)
    words = np.frombuffer(ds.PixelData, raw.dtype).reshape(raw.shape)
    value = words.astype(np.int64) >> (ds.HighBit - ds.BitsStored + 1) & (1 << ds.BitsStored) - 1
    sign = 1 << ds.BitsStored - 1 if ds.get("PixelRepresentation", 0) == 1 else 0
    return (value ^ sign) - sign


def show(file, frame=0, window=None):
    """[height, width] or [height, width, 3], 8 bits."""
    ds = pydicom.dcmread(file, force=True)
    if frame >= int(ds.get("NumberOfFrames", 1) or 1):
        raise IndexError(frame)
    if ds.get("SamplesPerPixel", 1) == 3:
        return (pixel_array(ds, index=frame) >> max(ds.BitsStored - 8, 0)).astype(np.uint8)
    raw = pixel_array(ds, index=frame, raw=True)
    if ds.PhotometricInterpretation == "PALETTE COLOR":
        colours = apply_color_lut(raw, ds)
        return (colours >> 8 if colours.dtype == np.uint16 else colours).astype(np.uint8)
    grey = show_grey(ds, frame, stored_values(ds, raw), window)
    return 255 - grey if ds.PhotometricInterpretation == "MONOCHROME1" else grey


# The small files: what they try and what makes them. All are 12 x 10 pixels.
ROWS, COLUMNS = 10, 12
RANDOM = np.random.default_rng(47)


def dataset(pixels, photometric="MONOCHROME2", stored=None, syntax=ExplicitVRLittleEndian, **values):
    """pixels: [frames, rows, columns(, 3)]"""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = syntax
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3.4"
    ds = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    ds.SOPClassUID, ds.SOPInstanceUID = CTImageStorage, "1.2.3.4"
    ds.PatientName = "Canary^Header"
    ds.Rows, ds.Columns, ds.NumberOfFrames = ROWS, COLUMNS, len(pixels)
    ds.SamplesPerPixel = 3 if pixels.ndim == 4 else 1
    if ds.SamplesPerPixel == 3:
        ds.PlanarConfiguration = 0
    ds.PhotometricInterpretation = photometric
    ds.BitsAllocated = 8 * pixels.dtype.itemsize
    ds.BitsStored = stored or ds.BitsAllocated
    ds.HighBit = ds.BitsStored - 1
    ds.PixelRepresentation = int(np.issubdtype(pixels.dtype, np.signedinteger))
    for name, value in values.items():
        setattr(ds, name, value)
    big = syntax == ExplicitVRBigEndian
    ds.PixelData = pixels.astype(pixels.dtype.newbyteorder(">" if big else "<")).tobytes()
    ds["PixelData"].VR = "OW" if ds.BitsAllocated > 8 or syntax == ImplicitVRLittleEndian else "OB"
    return ds


def grey(low, high, kind=np.int16, frames=1):
    return RANDOM.integers(low, high, (frames, ROWS, COLUMNS)).astype(kind)


def colour(high=256, kind=np.uint8):
    return RANDOM.integers(0, high, (1, ROWS, COLUMNS, 3)).astype(kind)


def lut(entries, begin, bits, data):
    item = Dataset()
    item.add_new(0x00283002, "US", [entries, begin, bits])
    item.add_new(0x00283006, "US", [int(v) for v in data])
    return Sequence([item])


def groups(**values):
    """Functional groups: the value transformation and the window."""
    item = Dataset()
    item.PixelValueTransformationSequence = Sequence([Dataset()])
    item.FrameVOILUTSequence = Sequence([Dataset()])
    for name, value in values.items():
        group = item.PixelValueTransformationSequence if name.startswith("Rescale") else item.FrameVOILUTSequence
        setattr(group[0], name, value)
    return item


def planar():
    ds = dataset(colour(), "RGB", PlanarConfiguration=1)
    ds.PixelData = np.moveaxis(np.frombuffer(ds.PixelData, np.uint8).reshape(ROWS, COLUMNS, 3), 2, 0).tobytes()
    return ds


def ybr_422():
    ds = dataset(colour(), "YBR_FULL_422")
    ds.PixelData = RANDOM.integers(0, 256, ROWS * COLUMNS * 2).astype(np.uint8).tobytes()
    return ds


def palette(bits):
    ds = dataset(RANDOM.integers(0, 40, (1, ROWS, COLUMNS)).astype(np.uint8), "PALETTE COLOR")
    for name in ("Red", "Green", "Blue"):
        entries = RANDOM.integers(0, 2**bits, 32)
        setattr(ds, name + "PaletteColorLookupTableDescriptor", [32, 4, bits])
        kind = "<u2" if bits == 16 else np.uint8
        setattr(ds, name + "PaletteColorLookupTableData", entries.astype(kind).tobytes())
    return ds


def bits():
    """Three frames of 121 bits: the second begins within a byte."""
    ds = dataset(np.zeros((3, ROWS, COLUMNS), np.uint8), Rows=11, Columns=11, BitsAllocated=1, BitsStored=1, HighBit=0)
    ds.PixelData = np.packbits(RANDOM.integers(0, 2, 3 * 121).astype(np.uint8), bitorder="little").tobytes() + b"\0\0"
    return ds


def compressed(ds, syntax, **options):
    ds.compress(syntax, **options)
    return ds


def jpeg_2000(pixels, photometric="MONOCHROME2", fragments=1, has_table=True, **values):
    """pixels: [frames, rows, columns(, 3)]"""
    ds = dataset(pixels, photometric, **values)
    streams = [imagecodecs.jpeg2k_encode(p, level=0, codecformat="J2K", reversible=True, resolutions=2, mct=p.ndim == 3)
               for p in pixels]
    ds.file_meta.TransferSyntaxUID = JPEG2000Lossless
    ds.PixelData = encapsulate(streams, fragments_per_frame=fragments, has_bot=has_table)
    ds["PixelData"].VR = "OB"
    ds["PixelData"].is_undefined_length = True
    return ds


def small_files():
    window = dict(WindowCenter=40, WindowWidth=400)
    hounsfield = dict(RescaleSlope=1, RescaleIntercept=-1024)
    enhanced = dataset(grey(0, 4096, np.uint16, frames=2), stored=12)
    enhanced.SharedFunctionalGroupsSequence = Sequence([groups(RescaleSlope=2, RescaleIntercept=-100)])
    enhanced.PerFrameFunctionalGroupsSequence = Sequence(
        [groups(WindowCenter=3000, WindowWidth=1000),
         groups(WindowCenter=500, WindowWidth=800, VOILUTFunction="LINEAR_EXACT", RescaleSlope=1, RescaleIntercept=0)])
    overlaid = dataset(RANDOM.integers(0, 65536, (1, ROWS, COLUMNS)).astype(np.uint16), stored=10, HighBit=11)
    return {
        "linear": dataset(grey(0, 4096), stored=13, **window, **hounsfield),
        "linear_exact": dataset(grey(0, 4096), **window, **hounsfield, VOILUTFunction="LINEAR_EXACT"),
        "sigmoid": dataset(grey(0, 4096), **window, **hounsfield, VOILUTFunction="SIGMOID"),
        "narrowest": dataset(grey(30, 50), WindowCenter=40, WindowWidth=1),
        "no_width": dataset(grey(30, 50), WindowCenter=40, WindowWidth=0),
        "two_windows": dataset(grey(-1000, 1000), WindowCenter=[40, -600], WindowWidth=[400, 1500]),
        "range": dataset(grey(-1000, 3000), RescaleSlope=-0.5, RescaleIntercept=10),
        "padding": dataset(np.where(RANDOM.random((1, ROWS, COLUMNS)) < 0.3, -2000, grey(-500, 900)).astype(np.int16),
                           PixelPaddingValue=-2000),
        "flat": dataset(np.full((1, ROWS, COLUMNS), 7, np.int16)),
        "inverted": dataset(grey(0, 4096, np.uint16), "MONOCHROME1", 12, WindowCenter=2048, WindowWidth=4096),
        "modality_table": dataset(grey(0, 64, np.uint16), stored=12,
                                  ModalityLUTSequence=lut(48, 8, 16, RANDOM.integers(0, 5000, 48))),
        "voi_table": dataset(grey(0, 64, np.uint16), stored=12,
                             VOILUTSequence=lut(48, 8, 12, np.sort(RANDOM.integers(0, 4096, 48)))),
        "bytes": dataset(grey(0, 256, np.uint8)),
        "signed_bytes": dataset(grey(-128, 128, np.int8)),
        "five_bits": dataset(grey(0, 32, np.uint8), stored=5),
        "wide": dataset(grey(0, 2**32, np.uint32)),
        "wide_signed": dataset(grey(-2**31, 2**31, np.int32), WindowCenter=0, WindowWidth=2**31),
        "overlaid": overlaid,
        "bits": bits(),
        "rgb": dataset(colour(), "RGB"),
        "rgb_16": dataset(colour(65536, np.uint16), "RGB"),
        "rgb_12": dataset(colour(4096, np.uint16), "RGB", 12),
        "planar": planar(),
        "ybr": dataset(colour(), "YBR_FULL"),
        "ybr_422": ybr_422(),
        "palette_8": palette(8),
        "palette_16": palette(16),
        "big": dataset(grey(-1000, 1000), syntax=ExplicitVRBigEndian, **window),
        "big_bytes": dataset(grey(0, 256, np.uint8), syntax=ExplicitVRBigEndian),
        "implicit": dataset(grey(-1000, 1000), syntax=ImplicitVRLittleEndian, **window,
                            VOILUTSequence=lut(48, 8, 12, np.sort(RANDOM.integers(0, 4096, 48)))),
        "deflated": dataset(grey(-1000, 1000), syntax=DeflatedExplicitVRLittleEndian, **window),
        "rle": compressed(dataset(grey(-1000, 1000, frames=2), **window), RLELossless),
        "rle_rgb": compressed(dataset(colour(), "RGB"), RLELossless),
        "jpeg_2000": jpeg_2000(grey(-1000, 1000), **window),
        "jpeg_2000_rgb": jpeg_2000(colour(), "YBR_RCT"),
        "pieces": jpeg_2000(grey(0, 4096, np.uint16, frames=3), fragments=2),
        "pieces_without_table": jpeg_2000(grey(0, 4096, np.uint16, frames=3), fragments=2, has_table=False),
        "enhanced": enhanced,
    }


# A slide of 50 x 30 pixels in tiles of 16 x 8: full, sparse with every third tile missing, and its half in two files of
# a concatenation.
SLIDE_CLASS = "1.2.840.10008.5.1.4.1.1.77.1.6"


def slide_part(matrix, tiles, kind="VOLUME", positions=None, **values):
    """matrix: [height, width, 3]; tiles: [frames, 8, 16, 3]"""
    ds = dataset(tiles, "RGB", Rows=8, Columns=16, SOPClassUID=SLIDE_CLASS, SeriesInstanceUID="1.2.3", **values)
    ds.ImageType = ["ORIGINAL", "PRIMARY", kind, "NONE"]
    ds.TotalPixelMatrixRows, ds.TotalPixelMatrixColumns = matrix.shape[:2]
    ds.DimensionOrganizationType = "TILED_SPARSE" if positions else "TILED_FULL"
    measures = Dataset()
    measures.PixelSpacing = [0.0005, 0.00025]
    shared = Dataset()
    shared.PixelMeasuresSequence = Sequence([measures])
    ds.SharedFunctionalGroupsSequence = Sequence([shared])
    path = Dataset()
    path.ObjectiveLensPower = "20"
    ds.OpticalPathSequence = Sequence([path])
    if positions:
        ds.PerFrameFunctionalGroupsSequence = Sequence([])
        for x, y in positions:
            plane, group = Dataset(), Dataset()
            plane.ColumnPositionInTotalImagePixelMatrix, plane.RowPositionInTotalImagePixelMatrix = x + 1, y + 1
            group.PlanePositionSlideSequence = Sequence([plane])
            ds.PerFrameFunctionalGroupsSequence.append(group)
    return to_bytes(ds)


def slide_tiles(matrix):
    padded = np.full((-(-matrix.shape[0] // 8) * 8, -(-matrix.shape[1] // 16) * 16, 3), 99, np.uint8)
    padded[:matrix.shape[0], :matrix.shape[1]] = matrix
    places = [(x, y) for y in range(0, matrix.shape[0], 8) for x in range(0, matrix.shape[1], 16)]
    return places, np.stack([padded[y:y + 8, x:x + 16] for x, y in places])


def slides():
    matrix = RANDOM.integers(0, 255, (30, 50, 3)).astype(np.uint8)
    half = RANDOM.integers(0, 255, (15, 25, 3)).astype(np.uint8)
    places, tiles = slide_tiles(matrix)
    _, half_tiles = slide_tiles(half)
    label = RANDOM.integers(0, 255, (1, 8, 16, 3)).astype(np.uint8)
    kept = [i for i in range(len(places)) if i % 3 != 1]
    sparse = matrix.copy()
    for i, (x, y) in enumerate(places):
        if i not in kept:
            sparse[y:y + 8, x:x + 16] = 255
    order = RANDOM.permutation(kept)
    parts = {
        "slide/a": slide_part(matrix, tiles),
        "slide/b": slide_part(half, half_tiles[:3], ConcatenationFrameOffsetNumber=0),
        "slide/c": slide_part(half, half_tiles[3:], ConcatenationFrameOffsetNumber=3),
        "slide/d": slide_part(label[0], label, "LABEL"),
        "sparse/a": slide_part(matrix, tiles[order], positions=[places[i] for i in order]),
    }
    shown = {"matrix/0": matrix, "matrix/1": half, "matrix/label": label[0], "matrix/sparse": sparse}
    return {name: np.frombuffer(data, np.uint8) for name, data in parts.items()} | shown


def to_bytes(ds):
    buffer = io.BytesIO()
    syntax = ds.file_meta.TransferSyntaxUID
    ds._read_little = syntax != ExplicitVRBigEndian  # else pydicom takes it for a conversion
    ds._read_implicit = syntax == ImplicitVRLittleEndian
    ds.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def write_safetensors(path, tensors):
    header, blobs, offset = {}, [], 0
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": "U8", "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        blobs.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def write_small():
    tensors = {}
    made = {name: to_bytes(ds) for name, ds in small_files().items()}
    made["no_preamble"] = made["linear"][132:]
    made["no_meta"] = made["implicit"][made["implicit"].index(struct.pack("<HH", 8, 0x16)):]
    for name, data in made.items():
        tensors[f"file/{name}"] = np.frombuffer(data, np.uint8)
        readable = io.BytesIO(made["linear" if name == "no_preamble" else "implicit" if name == "no_meta" else name])
        for frame in range(3):
            try:
                tensors[f"shown/{name}#{frame}"] = show(io.BytesIO(readable.getvalue()), frame)
            except IndexError:
                break
    tensors["window/linear"] = show(io.BytesIO(made["linear"]), window=(-1350, 150))
    tensors["window/inverted"] = show(io.BytesIO(made["inverted"]), window=(1000, 3000))
    write_safetensors(GOLDEN / "dicom.safetensors", tensors)
    write_safetensors(GOLDEN / "dicom_slides.safetensors", slides())


def grid(image):
    rows = np.array_split(image.astype(np.float64), GRID, 0)
    return [float(cell.mean()) for row in rows for cell in np.array_split(row, GRID, 1)]


def write_real(data):
    lines = []
    files = sorted(Path(data, "medical").glob("dicom*/*.dcm"))
    for file in files:
        for frame in (0, 1, 24):
            try:
                image = show(file, frame)
                syntax = pydicom.dcmread(file, force=True).file_meta.TransferSyntaxUID
            except Exception:  # not an image, damaged, or fewer frames
                continue
            channels = 3 if image.ndim == 3 else 1
            line = f"{file.relative_to(Path(data, 'medical'))} {frame} {image.shape[0]} {image.shape[1]} {channels}"
            if syntax in LOSSY:
                lines.append(line + " near " + " ".join(f"{v:.2f}" for v in grid(image)))
            else:
                lines.append(line + f" exact {zlib.crc32(image.tobytes())}")
    (GOLDEN / "dicom.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_small()
    write_real(os.environ["QKV_DATA"])
