"""Attention as arrays, pictures and pages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import number, path, positive, suggest_keywords, text

if TYPE_CHECKING:
    import PIL.Image

    from ._types import FloatArray


class Attention:
    """Where a model looks. weights: [layers, heads, queries, keys], rows of a head sum to 1; a notebook shows a picture.

    facts: names of blocks, heads and tokens, and the grid of patches. A pickle has weights and facts, and no picture.
    """

    def __init__(self, core: Any, page: bool) -> None:
        self._core = core
        self._page = page
        self.facts: dict[str, Any] = core.facts
        self.weights: FloatArray = core.weights

    @property
    def layers(self) -> list[str]:
        names: list[str] = self.facts["layers"]
        return names

    @property
    def heads(self) -> list[str]:
        names: list[str] = self.facts["heads"]
        return names

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_core": None}

    def _drawing(self, work: str) -> Any:
        """The engine's part, which no pickle has."""
        if self._core is None:
            raise _core.Error(f"{work}: a pickle or a copy has weights and facts alone; call attend again")
        return self._core

    def _require_page(self, file: str | os.PathLike[str]) -> str:
        name = path("save", file)
        if name.endswith((".html", ".htm")) and not self._page:
            raise _core.Error(f"save: {name}: a page needs every query: attend(…, page=True)")
        return name


@suggest_keywords()
class ImageAttention(Attention):
    """The attention of an image. Keys are `prefix` tokens (class token, registers), then patches row by row."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width = self.facts["grid"]
        return height, width

    @property
    def maps(self) -> FloatArray:
        """The part of the weights that goes to the patches: [layers, heads, queries, rows, columns]."""
        first = len(self.facts["prefix"])
        patches = self.weights[..., first:]
        return patches.reshape(*patches.shape[:-1], *self.grid)

    def png(self, *, upsampling: str = "bicubic", opacity: float = 0.6, side: int = 768) -> bytes:
        """The maps of the query over the photo: one overlay, or a sheet of blocks and heads. A patch that looks is framed.

        upsampling: "bicubic", "bilinear" or "nearest". opacity: of the colours, 0 to 1. side: the longer one, in pixels.
        """
        style = text("upsampling", upsampling), number("opacity", opacity), positive("side", side)
        picture: bytes = self._drawing("png").png(*style)
        return picture

    def image(self, *, upsampling: str = "bicubic", opacity: float = 0.6, side: int = 768) -> PIL.Image.Image:
        """`png` as a PIL image."""
        return _opened(self.png(upsampling=upsampling, opacity=opacity, side=side))

    def _repr_png_(self) -> bytes | None:
        return None if self._core is None else self.png()

    def save(
        self, file: str | os.PathLike[str], *, upsampling: str = "bicubic", opacity: float = 0.6, side: int = 768
    ) -> None:
        """Writes .png, .npy, .safetensors, .json or, with every query, an .html page to explore."""
        style = text("upsampling", upsampling), number("opacity", opacity), positive("side", side)
        self._drawing("save").save(self._require_page(file), *style)

    def __repr__(self) -> str:
        height, width = self.grid
        return f"<attention of {self.facts['path']}: weights {list(self.weights.shape)}, {height} x {width} patches>"


class TextAttention(Attention):
    """The attention of a text: rows are the tokens that look, columns those that they look at."""

    @property
    def rows(self) -> list[str]:
        names: list[str] = self.facts["rows"]
        return names

    @property
    def columns(self) -> list[str]:
        names: list[str] = self.facts["columns"]
        return names

    def png(self) -> bytes:
        """Matrices of weights with the tokens' names beside them."""
        picture: bytes = self._drawing("png").png()
        return picture

    def image(self) -> PIL.Image.Image:
        """`png` as a PIL image."""
        return _opened(self.png())

    def _repr_png_(self) -> bytes | None:
        return None if self._core is None else self.png()

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes .png, .npy (with NAME.tokens.json), .safetensors, .json or an .html page to explore."""
        self._drawing("save").save(self._require_page(file))

    def __repr__(self) -> str:
        return f"<attention of a text: weights {list(self.weights.shape)}>"


def _opened(png: bytes) -> PIL.Image.Image:
    import io

    import PIL.Image

    return PIL.Image.open(io.BytesIO(png))
