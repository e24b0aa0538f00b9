"""Models opened from where they lie, and settings of the whole process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import boolean, did_you_mean, path as path_of, positive, text_or_none
from ._model import Model

if TYPE_CHECKING:
    from ._types import Cache, Path

_DTYPES = {
    "float32": "fp32",
    "float": "fp32",
    "fp32": "fp32",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "int8": "int8",
    "auto": "auto",
}
_OWN = ("dtype", "threads", "cache", "size", "pool", "labels", "strict")


def set_num_threads(threads: int) -> None:
    """Cores for the calls of models without `threads` of their own (default: all that the process may use)."""
    _core.set_num_threads(positive("threads", threads))


def set_memory_limit(limit: int) -> None:
    """The most bytes that one call may take (default: half of the machine's); what would take more is an Error."""
    if isinstance(limit, bool) or not hasattr(limit, "__index__"):
        raise TypeError(f"limit: expected a number of bytes, got {limit!r}")
    if not 0 < limit.__index__() < 2**63:
        raise _core.Error(f"limit: expected a number of bytes from 1 on, got {limit}")
    _core.set_memory_limit(limit.__index__())


def find_images(*folders: Path) -> list[str]:
    """The images of folders, recursively, sorted by name, as every method reads a folder; a file is taken as it is."""
    if not folders:
        raise TypeError("find_images: expected a folder, or several")
    named = [path_of("find_images", folder) for folder in folders]
    for name in named:
        if not os.path.exists(name):
            raise _core.Error(f"find_images: {name!r}: no such folder")
    found: list[str] = _core.find_images(named)
    return found


def load(
    path: Path,
    *,
    dtype: Any = "fp32",
    threads: int | None = None,
    cache: Cache = None,
    size: int | tuple[int, int] | None = None,
    pool: str | None = None,
    labels: Path | None = None,
    strict: bool = False,
    **hints: Any,
) -> Model:
    """Opens a model of any supported family and builds it.

    path: a folder, a file of weights, a name in the Hugging Face hub's cache ("google/vit-base-patch16-224"; nothing is
        fetched), or a model that comes with qkv: "digits", "digits-shared", "digits-merged".
    dtype: "fp32", "bf16", "int8" or "auto" (bf16 where the processor is faster in it), or a type of NumPy or PyTorch.
    threads: cores for this model's calls (default: all).
    cache: True keeps the packed weights on disk, so that the next load maps them; "verify" compares checksums first.
        None: if the environment variable QKV_CACHE names a folder.
    size: of the images in pixels, or (height, width), in place of the model's own.
    pool: the vector of an image: "model", "cls", "mean", "cls+mean" or "tokens" (default: as its authors take it).
    labels: a file with the names of the classes.
    strict: settings in the model's files that qkv does not know are an Error.
    hints: what the files leave out: architecture="vit_base_patch16_224", heads=, state_dict=, mean=, std=, crop_pct=, or
        keys of the family's configuration.

    Raises Error, which says what is wrong with the files.
    """
    left_out = _hints("load", hints, _OWN)
    kind = str(dtype).split(".")[-1].removesuffix("'>")
    if kind not in _DTYPES:
        raise _core.Error(f"load: dtype: expected fp32, bf16, int8 or auto, got {dtype}")
    where = _named("load", path)
    if cache not in (None, False, True, "verify"):
        raise _core.Error(f"load: cache: expected True, False, None or \"verify\", got {cache!r}")
    core = _core.load(
        where,
        _DTYPES[kind],
        0 if threads is None else positive("threads", threads),
        "verify" if cache == "verify" else "use" if cache else "",
        _size(size),
        text_or_none("pool", pool) or "",
        "" if labels is None else path_of("load: labels", labels),
        left_out,
        boolean("strict", strict),
    )
    again = {"dtype": _DTYPES[kind], "threads": threads, "cache": cache, "size": size, "pool": pool, "strict": strict}
    again["labels"] = None if labels is None else os.path.abspath(path_of("labels", labels))
    changed = {key: value for key, value in again.items() if value not in (None, False)}
    return Model(core, where, (os.path.abspath(where) if os.path.exists(where) else where, {**changed, **hints}))


def load_again(path: str, options: dict[str, Any]) -> Model:
    """For pickles."""
    return load(path, **options)


def files_of(work: str, model: Model | Path, hints: dict[str, Any]) -> tuple[Any, str]:
    """The files of a model, for what reads them anew, and the name by which it was given."""
    if not isinstance(model, Model):
        path = _named(work, model)
        return _core.entry(path, _hints(work, hints)), path
    if hints:
        raise TypeError(f"{work}: {next(iter(hints))}: an open model has its hints already")
    return model._entry(work), model.path


def _named(work: str, path: Any) -> str:
    name = path_of(work, path)
    if not name:
        raise _core.Error(f'{work}: an empty path; the model that comes with qkv is "digits"')
    return name


def _hints(work: str, hints: dict[str, Any], own: tuple[str, ...] = ()) -> dict[str, Any]:
    """own: what the function takes beside the hints."""
    known = _core.hint_names()
    for name in hints:
        if name == "device":
            raise TypeError(f"{work}: device: qkv computes on the CPU; leave it out")
        if name not in known:
            said = did_you_mean(work, name, (*own, *known))
            if "did you mean" not in said:
                said = f"{work}: there is no {name}=; help(qkv.load) has the hints"
            raise TypeError(said)
    return {key: _numbers(work, key, value) if key in ("mean", "std") else value for key, value in hints.items()}


def _size(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, (tuple, list)) and len(size) == 2:
        return positive("size", size[0]), positive("size", size[1])
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"load: size: expected pixels or (height, width), got {size!r}")
    return positive("size", size), positive("size", size)


def _numbers(work: str, name: str, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{work}: {name}: expected a number for each channel, got {values!r}")
    return list(values)
