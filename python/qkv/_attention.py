"""Attention as arrays, pictures and pages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    import numpy


class Attention:
    """Where a model looks. weights: [layers, heads, queries, keys], rows of a head sum to 1; a notebook shows a picture.

    facts: names of blocks, heads and tokens, and the grid of patches.
    """

    def __init__(self, core: Any, page: bool) -> None:
        self._core = core
        self._page = page
        self.facts: dict[str, Any] = core.facts
        self.weights: numpy.ndarray = core.weights

    @property
    def layers(self) -> list[str]:
        return self.facts["layers"]

    @property
    def heads(self) -> list[str]:
        return self.facts["heads"]

    def _require_page(self, file: str | os.PathLike[str]) -> str:
        name = os.fspath(file)
        if name.endswith((".html", ".htm")) and not self._page:
            raise _core.Error(f"save: {name}: a page needs every query: attend(…, page=True)")
        return name


class ImageAttention(Attention):
    """The attention of an image. Keys are `prefix` tokens (class token, registers), then patches row by row."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width = self.facts["grid"]
        return height, width

    @property
    def maps(self) -> numpy.ndarray:
        """The part of the weights that goes to the patches: [layers, heads, queries, rows, columns]."""
        first = len(self.facts["prefix"])
        patches = self.weights[..., first:]
        return patches.reshape(*patches.shape[:-1], *self.grid)

    def png(self, *, upsampling: str = "bicubic", opacity: float = 0.6, side: int = 768) -> bytes:
        """The maps of the first query over the photo: one overlay, or a sheet of blocks and heads."""
        return self._core.png(upsampling, opacity, side)

    def _repr_png_(self) -> bytes:
        return self.png()

    def save(
        self, file: str | os.PathLike[str], *, upsampling: str = "bicubic", opacity: float = 0.6, side: int = 768
    ) -> None:
        """Writes .png, .npy, .safetensors, .json or, with every query, an .html page to explore."""
        self._core.save(self._require_page(file), upsampling, opacity, side)

    def __repr__(self) -> str:
        height, width = self.grid
        return f"<attention of {self.facts['path']}: weights {list(self.weights.shape)}, {height} x {width} patches>"


class TextAttention(Attention):
    """The attention of a text: rows are the tokens that look, columns those that they look at."""

    @property
    def rows(self) -> list[str]:
        return self.facts["rows"]

    @property
    def columns(self) -> list[str]:
        return self.facts["columns"]

    def png(self) -> bytes:
        """Matrices of weights with the tokens' names beside them."""
        return self._core.png()

    def _repr_png_(self) -> bytes:
        return self.png()

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes .png, .npy (with NAME.tokens.json), .safetensors, .json or an .html page to explore."""
        self._core.save(self._require_page(file))

    def __repr__(self) -> str:
        return f"<attention of a text: weights {list(self.weights.shape)}>"
