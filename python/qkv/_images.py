"""Images as people have them, for the engine: paths, bytes, PIL's, arrays, folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import items

if TYPE_CHECKING:
    from ._types import Images

_ORIENTATION = 0x0112  # of EXIF
_KINDS = "paths, bytes, PIL images, arrays or folders"


def listed(images: Images) -> tuple[Iterable[Any], bool, int | None]:
    """The images, whether it was a single one, and how many if that is known. A folder is all the images in it."""
    if _is_image(images):
        if _is_folder(images):
            found = _core.find_images([os.fspath(images)])  # type: ignore[arg-type, unused-ignore]
            return found, False, len(found)
        return [_checked(images)], True, 1
    if hasattr(images, "read"):
        raise TypeError("images: a file object; pass its bytes, .read()")
    several = _with_folders(items("images", images, _KINDS))
    if not isinstance(images, Sized):
        return several, False, None
    known = list(several)  # what is no image is told before the first is read
    return known, False, len(known)


def chunks(images: Iterable[Any], size: int) -> Iterator[tuple[list[Any], list[str]]]:
    """Some images at a time as the engine takes them, and their names: a path, or "image N"."""
    some: list[Any] = []
    first = 0
    for image in images:
        some.append(_converted(image))
        if len(some) == size:
            yield some, names(some, first)
            first, some = first + size, []
    if some:
        yield some, names(some, first)


def all_of(images: Images) -> list[Any]:
    """All images at once as the engine takes them."""
    return [_converted(image) for image in listed(images)[0]]


def only(images: Images, otherwise: str) -> Any:
    """The one image as the engine takes it. Raises Error, which says `otherwise`, for a list or a folder."""
    several, single, _ = listed(images)
    if not single:
        raise _core.Error(otherwise)
    (image,) = several
    return _converted(image)


def names(several: Iterable[Any], first: int = 0) -> list[str]:
    """The path of each image, or "image N" of what is in memory; the first is image `first`."""
    return [
        os.fsdecode(image) if isinstance(image, (str, os.PathLike)) else f"image {first + i}"
        for i, image in enumerate(several)
    ]


def _is_folder(image: Any) -> bool:
    return isinstance(image, (str, os.PathLike)) and os.path.isdir(image)


def _with_folders(several: Iterable[Any]) -> Iterator[Any]:
    for i, image in enumerate(several):
        if _is_folder(image):
            yield from _core.find_images([os.fspath(image)])
        else:
            yield _checked(image, f"item {i}: ")


def _is_image(value: Any) -> bool:
    if isinstance(value, (str, os.PathLike, bytes, bytearray, memoryview)) or _is_pil(value):
        return True
    # An array of four axes is a batch, whose rows are the images; a column of a table or one of paths is a list.
    shape = getattr(value, "shape", None)
    if shape is None or hasattr(value, "columns") or len(shape) >= 4:
        return False
    return not (len(shape) == 1 and (hasattr(value, "to_list") or _holds_paths(value)))


def _holds_paths(array: Any) -> bool:
    return getattr(getattr(array, "dtype", None), "kind", "") in ("U", "O", "T")


def _is_pil(value: Any) -> bool:
    return hasattr(value, "convert") and hasattr(value, "mode") and hasattr(value, "getbands")


def _checked(image: Any, where: str = "") -> Any:
    """The image, if its type is one of an image."""
    if isinstance(image, (str, os.PathLike, bytes, bytearray, memoryview)) or _is_pil(image):
        return image
    shape, dtype = getattr(image, "shape", None), str(getattr(image, "dtype", ""))
    if shape is None:
        advice = f'; give its column: dataset["{next(iter(image), "image")}"]' if isinstance(image, dict) else ""
        raise TypeError(f"{where}a {type(image).__name__} is no image, expected {_KINDS}{advice}")
    if not dtype.endswith("uint8"):
        raise TypeError(
            f"{where}an array of {dtype}, expected uint8 [height, width, channels]; preprocessed pixels go to model.forward"
        )
    if len(shape) == 3 and shape[2] > 4:
        first = "array.transpose(1, 2, 0) if channels come first, " if shape[0] <= 4 else ""
        raise _core.Error(
            f"{where}an array {list(shape)}, expected [height, width, 1 to 4 channels]; try {first}array[..., None] if it "
            "is a batch of grey images"
        )
    return image


def _converted(image: Any) -> Any:
    if isinstance(image, (str, os.PathLike)):
        path = os.fspath(image)
        return path if isinstance(path, str) else os.fsdecode(path)
    if isinstance(image, (bytearray, memoryview)):
        return bytes(image)
    return _pil(image) if _is_pil(image) else image


def _pil(image: Any) -> Any:
    """Upright, as the file would be read, and as transformers' pipelines read it."""
    import numpy
    import PIL.ImageOps

    if image.getexif().get(_ORIENTATION, 1) != 1:
        image = PIL.ImageOps.exif_transpose(image)
    return numpy.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
