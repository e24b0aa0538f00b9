"""Types of the package's signatures, for type checkers alone: nothing here is imported when it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict, Union

import numpy
import numpy.typing
import PIL.Image

# To a type checker a path is an image; folders go into a list: ["photos/"].
Image = Union[str, os.PathLike[str], bytes, bytearray, memoryview, PIL.Image.Image, numpy.typing.NDArray[Any]]
Images = Union[Image, Iterable[Image]]
Texts = Union[str, Iterable[str]]
Path = Union[str, os.PathLike[str]]
OnError = Literal["raise", "skip"]
Cache = Union[bool, Literal["verify"], None]
FloatArray = numpy.typing.NDArray[numpy.float32]
IntArray = numpy.typing.NDArray[numpy.int32]
BoolArray = numpy.typing.NDArray[numpy.bool_]
Message = Mapping[str, Any]  # {"role": "user", "content": "…"}


class Generation(TypedDict, total=False):
    """How tokens are chosen, as `generate` says; None: as the model's files say."""

    max_new_tokens: int | None
    max_length: int | None
    min_new_tokens: int | None
    do_sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    seed: int | None
    num_beams: int | None
    length_penalty: float | None
    repetition_penalty: float | None
    no_repeat_ngram_size: int | None


class AttentionOptions(TypedDict, total=False):
    """What `attention` takes beside q, k and v."""

    mask: Any
    bias: Any
    is_causal: bool | Literal["bottom_right"]
    scale: float | None
    enable_gqa: bool
    softcap: float
    window: int | tuple[int, int] | None
    lengths: Any
    sinks: Any
    first_position: int
