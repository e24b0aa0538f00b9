"""Images as people have them, for the engine: paths, bytes, PIL's, arrays, folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

from . import _core

if TYPE_CHECKING:
    import numpy
    import PIL.Image

    Image = Union[str, os.PathLike[str], bytes, bytearray, memoryview, PIL.Image.Image, numpy.ndarray]
    Images = Union[Image, Iterable[Image]]
else:
    Image = Images = Any


_ORIENTATION = 0x0112  # of EXIF


def listed(images: Images) -> tuple[list[Any], bool]:
    """The items for the engine, and whether `images` was a single image. A folder is all the images in it."""
    if _is_image(images):
        if isinstance(images, (str, os.PathLike)) and os.path.isdir(images):
            return _core.find_images([os.fspath(images)]), False
        return [_item(images)], True
    if hasattr(images, "read"):
        raise TypeError("images: a file object; pass its bytes, .read()")
    if not isinstance(images, Iterable):
        raise TypeError(f"images: a {type(images).__name__}, expected paths, bytes, PIL images, arrays or folders")
    items: list[Any] = []
    for image in images:
        if isinstance(image, (str, os.PathLike)) and os.path.isdir(image):
            items += _core.find_images([os.fspath(image)])
        else:
            items.append(_item(image))
    return items, False


def names(items: list[Any]) -> list[str]:
    """The path of each item; of what is in memory "image N"."""
    return [item if isinstance(item, str) else f"image {i}" for i, item in enumerate(items)]


def _is_image(value: Any) -> bool:
    if isinstance(value, (str, os.PathLike, bytes, bytearray, memoryview)) or _is_pil(value):
        return True
    # An array of four axes is a batch, whose rows are the images; one of paths is a list.
    shape = getattr(value, "shape", None)
    return shape is not None and len(shape) < 4 and not (len(shape) == 1 and _holds_paths(value))


def _holds_paths(array: Any) -> bool:
    return getattr(getattr(array, "dtype", None), "kind", "") in ("U", "O", "T")


def _is_pil(value: Any) -> bool:
    return hasattr(value, "convert") and hasattr(value, "mode") and hasattr(value, "getbands")


def _item(image: Any) -> Any:
    if isinstance(image, (str, os.PathLike)):
        return os.fspath(image)
    if isinstance(image, (bytearray, memoryview)):
        return bytes(image)
    if isinstance(image, bytes):
        return image
    if _is_pil(image):
        return _pil(image)
    return _samples(image)


def _pil(image: Any) -> Any:
    """Upright, as the file would be read, and as transformers' pipelines read it."""
    import numpy
    import PIL.ImageOps

    if image.getexif().get(_ORIENTATION, 1) != 1:
        image = PIL.ImageOps.exif_transpose(image)
    return numpy.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))


def _samples(image: Any) -> Any:
    shape, dtype = getattr(image, "shape", None), str(getattr(image, "dtype", ""))
    if shape is None:
        raise TypeError(f"a {type(image).__name__} is no image, expected a path, bytes, a PIL image or an array")
    if not dtype.endswith("uint8"):
        raise TypeError(
            f"an array of {dtype}, expected uint8 [height, width, channels]; preprocessed pixels go to model.forward"
        )
    if len(shape) == 3 and shape[2] > 4 and shape[0] in (1, 3):
        raise _core.Error(
            f"an array {list(shape)}: channels come last, [height, width, channels]; try array.transpose(1, 2, 0)"
        )
    return image
