"""How often a model is right."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import path, positive, text
from ._training import picture

if TYPE_CHECKING:
    import numpy

    from ._model import Model


def evaluate(
    model: Model | str | os.PathLike[str],
    data: str | os.PathLike[str],
    *,
    split: str = "",
    num_beams: int = 4,
) -> Evaluated:
    """The numbers of `qkv evaluate`: how often a model is right on labelled data.

    data: images by class, for a classifier; "task:reverse" or a text file, for a run of `train` on one; pairs of texts,
        a .tsv, for an encoder-decoder, which writes with `num_beams`. Arrays and lists: `model.classify` and NumPy.
    split: "val", "test", … of the data (default: of images the test set, else the validation set, else all).
    """
    from ._load import load

    opened = load(model) if isinstance(model, (str, os.PathLike)) else model
    if not hasattr(opened, "_core"):
        raise TypeError(f"evaluate: expected a model or what load takes, got a {type(model).__name__}")
    if opened._core.is_text or opened._core.kind == "sequence":  # they are read anew
        opened._entry("evaluate")
    numbers, confusion, page = opened._core.evaluate(
        path("evaluate: data", data), text("split", split), positive("num_beams", num_beams)
    )
    return Evaluated(opened.path, numbers, confusion, page)


class Evaluated:
    """How often a model is right: `numbers` by name, and of images what it takes for what."""

    def __init__(self, model: str, numbers: dict[str, Any], confusion: str, page: str) -> None:
        self.model = model
        self.numbers = numbers
        self._confusion, self._page = confusion, page

    @property
    def accuracy(self) -> float:
        """The share of images, tokens or bytes that are right, 0 to 1."""
        return self.numbers["top1"]

    @property
    def confusion(self) -> numpy.ndarray:
        """Images of each true class (rows) that are taken for each class of the data, and last for any other."""
        import numpy

        if "confusion" not in self.numbers:
            raise _core.Error("confusion: only an evaluation of images of at most 1,000 classes has a confusion matrix")
        return numpy.array(self.numbers["confusion"])

    @property
    def classes(self) -> list[dict[str, Any]]:
        """Of images, for each class: name, images, right, precision, recall, f1 and the most frequent mistake."""
        return self.numbers.get("classes", [])

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes all results of images as a page, whole or not at all, with the worst mistakes as pictures."""
        if not self._page:
            raise _core.Error("save: only an evaluation of images has a page")
        _core.write_text(path("save", file), self._page)

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.numbers.items() if isinstance(value, (int, float))}
        return f"<qkv.Evaluated {self.model}: " + ", ".join(f"{name} {value:.4g}" for name, value in shown.items()) + ">"

    def _repr_html_(self) -> str:
        import html

        words = repr(self)[1:-1]
        return f"<p>{html.escape(words)}</p>" + (picture(self._confusion, words) if self._confusion else "")
