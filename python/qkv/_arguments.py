"""Checks of what callers give, with errors that name the argument and say what is expected."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Set, Sized
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _core

if TYPE_CHECKING:
    from ._types import FloatArray

_Class = TypeVar("_Class")
_TAKES_KEYWORDS = 8  # inspect.CO_VARKEYWORDS, without the import of inspect


def did_you_mean(work: str, name: str, known: Iterable[str]) -> str:
    """The message for a keyword that does not exist: the nearest that does, or all of them."""
    import difflib

    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    advice = f"did you mean {near[0]}=?" if near else f"there are {', '.join(names)}"
    return f"{work}: there is no {name}=; {advice}"


def suggest_keywords(*further: str) -> Callable[[type[_Class]], type[_Class]]:
    """A class whose public methods answer an unknown keyword with the nearest that they have, and errors of Python with
    the name of this class, whatever class a method is inherited from. further: what **generation stands for."""

    def decorated(cls: type[_Class]) -> type[_Class]:
        for base in cls.__mro__[:-1]:
            for name, member in list(vars(base).items()):
                if isinstance(member, FunctionType) and not name.startswith("_") and getattr(cls, name) is member:
                    member.__qualname__ = f"{cls.__name__}.{name}"
                    setattr(cls, name, _suggesting(member, further))
        return cls

    return decorated


def _suggesting(method: FunctionType, further: tuple[str, ...]) -> Callable[..., Any]:
    code = method.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    known = dict.fromkeys((*names, *further) if code.co_flags & _TAKES_KEYWORDS else names)

    @functools.wraps(method)
    def checked(*given: Any, **keywords: Any) -> Any:
        if not keywords.keys() <= known.keys():
            unknown = next(name for name in keywords if name not in known)
            raise TypeError(did_you_mean(method.__name__, unknown, known))
        return method(*given, **keywords)

    return checked


def positive(name: str, value: Any) -> int:
    number = whole(name, value)
    if number < 1:
        raise _core.Error(f"{name}: expected at least 1, got {number}")
    return number


def whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")
    try:
        number: int = value.__index__()
    except TypeError:  # an array of several
        raise TypeError(f"{name}: expected a whole number, got {value!r}") from None
    if not -(2**31) <= number < 2**31:
        raise _core.Error(f"{name}: {number} is out of range")
    return number


def number(name: str, value: Any) -> float:
    if isinstance(value, (bool, str)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # an array of several; RuntimeError: PyTorch's
        raise TypeError(f"{name}: expected a number, got {value!r}") from None
    if number != number:
        raise _core.Error(f"{name}: expected a number, got {number}")
    return number


def number_or_none(name: str, value: Any) -> float | None:
    return None if value is None else number(name, value)


def path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}: expected a path, got a {type(value).__name__}")
    try:
        return os.fsdecode(os.fsencode(value))
    except UnicodeEncodeError as error:
        raise TypeError(f"{name}: no name of a file: {error}") from None


def boolean(name: str, value: Any) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):  # NumPy's too
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, got a {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise TypeError(f"{name}: a text that is no Unicode: {error}") from None
    return value


def text_or_none(name: str, value: Any) -> str | None:
    return None if value is None else text(name, value)


def batch(batch_size: Any) -> int:
    """0: as the engine chooses."""
    return 0 if batch_size is None else positive("batch_size", batch_size)


def skips(on_error: Any) -> bool:
    if on_error not in ("raise", "skip"):
        raise _core.Error(f'on_error: expected "raise" or "skip", got {on_error!r}')
    return bool(on_error == "skip")


def items(name: str, values: Any, what: str) -> Iterable[Any]:
    """Lists, tuples, generators, arrays of NumPy, and columns of pandas, Polars and Arrow, as what can be iterated."""
    if isinstance(values, (Mapping, Set)):
        raise TypeError(f"{name}: a {type(values).__name__} has no order; expected a list of {what}")
    if hasattr(values, "columns") and hasattr(values, "shape"):
        raise TypeError(f'{name}: a {type(values).__name__}; give one of its columns, such as frame["path"]')
    if hasattr(values, "to_pylist"):  # Arrow's, whose items are scalars of its own
        values = values.to_pylist()
    if not isinstance(values, Iterable):
        raise TypeError(f"{name}: a {type(values).__name__}, expected {what}")
    return values


def texts(name: str, values: Any) -> list[str]:
    """A list of texts; a text alone would be a list of its characters, and str() of None a word."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name}: expected a list of texts, got a {type(values).__name__}")
    listed = list(items(name, values, "texts"))
    for i, one in enumerate(listed):
        if hasattr(one, "getbands"):
            raise TypeError(f"{name}: item {i} is an image; images go to model.embed")
        text(f"{name}: item {i}", one)
    return listed


def text_or_texts(name: str, values: Any) -> tuple[list[str], bool]:
    return ([text(name, values)], True) if isinstance(values, str) else (texts(name, values), False)


def sized(values: Any) -> int | None:
    return len(values) if isinstance(values, Sized) else None


def one_or_all(results: Any, single: bool) -> Any:
    if not single:
        return results
    if not len(results):
        raise _core.Error('the image was left out; see the logger "qkv"')
    return results[0]


def require_dense(name: str, tensor: Any) -> None:
    """Throws TypeError for a tensor of PyTorch that is sparse, or not on the CPU."""
    if getattr(getattr(tensor, "device", None), "type", "cpu") != "cpu":
        raise TypeError(f"{name} is on {tensor.device}; qkv computes on the CPU: give {name}.cpu()")
    if str(getattr(tensor, "layout", "")).startswith("torch.sparse"):
        raise TypeError(f"{name} is {tensor.layout}, expected a dense array: give {name}.to_dense()")


def array(name: str, values: Any, dtype: Any) -> Any:
    """A contiguous array of this type, or for None of its own; a tensor of PyTorch as it is if it is on the CPU and has
    no gradient."""
    import numpy

    if hasattr(values, "numpy") and hasattr(values, "detach"):
        require_dense(name, values)
        values = values.detach()
        values = (values.float() if values.is_floating_point() else values).numpy()
    try:
        given = numpy.asarray(values)
        if given.dtype.kind not in "biuf":
            raise TypeError(f"{name}: expected numbers, got {given.dtype}")
        if dtype is not None and numpy.dtype(dtype).kind == "i" and given.dtype.kind == "f" and given.size:
            raise TypeError(f"{name}: expected whole numbers, got {given.dtype}")
        return numpy.ascontiguousarray(given, dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise TypeError(f"{name}: expected numbers: {error}") from None


def unit(rows: FloatArray) -> FloatArray:
    """Vectors of length 1, as sentence-transformers makes them: those of zeros stay."""
    import numpy

    with numpy.errstate(invalid="ignore"):  # of numbers that are not finite
        scaled: FloatArray = rows / numpy.maximum(numpy.linalg.norm(rows, axis=-1, keepdims=True), numpy.float32(1e-12))
    return scaled
