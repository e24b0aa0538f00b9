"""What the engine remarks: warnings as Python's, all else to the logger "qkv"."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ._wording import in_keywords

if TYPE_CHECKING:
    from types import FrameType


class ModelWarning(UserWarning):
    """A model's files contradict themselves, or an answer is of less than was given."""


def tell(text: str) -> None:
    text = in_keywords(text)
    # Here, since they take longer to import than all of the package.
    if "warning: " in text:
        import warnings

        warnings.warn(text.replace("warning: ", "", 1), ModelWarning, stacklevel=_outside())
    else:
        import logging

        logging.getLogger("qkv").info(text)


def _outside() -> int:
    """The level of the first caller outside of this package, for `warnings.warn`."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "qkv":
        level, frame = level + 1, frame.f_back
    return level
