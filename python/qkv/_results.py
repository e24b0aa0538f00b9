"""What models answer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core
from ._arguments import path as path_of

if TYPE_CHECKING:
    import numpy
    import PIL.Image
    from numpy.typing import NDArray

    from ._types import BoolArray, FloatArray, IntArray


class Prediction(NamedTuple):
    """A class of an image."""

    label: str
    score: float
    index: int  # type: ignore[assignment]


class Classification(list[Prediction]):
    """The most probable classes of an image, best first."""

    def __init__(self, path: str, top: list[Prediction], logits: FloatArray | None) -> None:
        super().__init__(top)
        self.path = path
        self.logits = logits

    def __repr__(self) -> str:
        return f"<{self.path}: " + ", ".join(f"{p.label} {100 * p.score:.1f} %" for p in self) + ">"


class Object(NamedTuple):
    """What a detector found: box is left, top, width and height in pixels."""

    label: str
    score: float
    box: tuple[float, float, float, float]
    index: int  # type: ignore[assignment]


class _Picture:
    """A result that shows itself in a notebook."""

    _picture: NDArray[numpy.uint8] | None

    def image(self) -> PIL.Image.Image:
        """The photo with what was found, as a PIL image."""
        import PIL.Image

        if self._picture is None:
            raise _core.Error("image: draw=True keeps the picture")
        return PIL.Image.fromarray(self._picture)

    def _repr_png_(self) -> bytes | None:
        if self._picture is None:
            return None
        import io

        out = io.BytesIO()
        self.image().save(out, "PNG")
        return out.getvalue()


class Detections(_Picture, list[Object]):
    """The objects of a photo, best first."""

    def __init__(self, path: str, objects: list[Object], picture: NDArray[numpy.uint8] | None) -> None:
        super().__init__(objects)
        self.path = path
        self._picture = picture

    def __repr__(self) -> str:
        return f"<{self.path}: " + (", ".join(f"{o.label} {100 * o.score:.0f} %" for o in self) or "nothing") + ">"


class Segment(NamedTuple):
    """A segment of a photo: id is its value in the map; box is left, top, width and height in pixels."""

    id: int
    label: str
    score: float | None
    area: int
    box: tuple[int, int, int, int]
    index: int  # type: ignore[assignment]
    rle: dict[str, Any]

    def __repr__(self) -> str:
        score = "" if self.score is None else f" {100 * self.score:.0f} %"
        return f"<segment {self.id}: {self.label}{score}, {self.area} pixels>"


class Segmentation(_Picture):
    """The segments of a photo. ids: [height, width], the id of each pixel's segment, 0 for none."""

    def __init__(
        self, path: str, task: str, segments: list[Segment], ids: IntArray, picture: NDArray[numpy.uint8] | None
    ) -> None:
        self.path = path
        self.task = task
        self.segments = segments
        self.ids = ids
        self._picture = picture

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    def __getitem__(self, index: int) -> Segment:
        return self.segments[index]

    def mask(self, segment: Segment) -> BoolArray:
        """The segment's pixels, [height, width] of bool; instances may overlap."""
        mask: BoolArray = _core.decode_mask(*segment.rle["size"], segment.rle["counts"]).view(bool)
        return mask

    def __repr__(self) -> str:
        return f"<{self.path}: {len(self)} segments ({self.task}): " + ", ".join(s.label for s in self) + ">"


class Exploration:
    """A page that shows an image as a model sees it. A notebook shows it; `save` writes it as one file for a browser."""

    _HEIGHT = 760  # pixels of its frame

    def __init__(self, model: str, name: str, views: Sequence[str], page: str) -> None:
        self.model = model
        self.path = name
        self.views = tuple(views)
        self.html = page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page, which needs nothing else, whole or not at all."""
        _core.write_text(path_of("save", path), self.html)

    def __repr__(self) -> str:
        size = len(self.html) / 1e6
        return f"<qkv.Exploration of {self.path} by {self.model}: {', '.join(self.views)}; {size:.1f} MB of HTML>"

    def _repr_html_(self) -> str:
        import html

        page = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{page}" title="qkv explorer" width="100%" height="{self._HEIGHT}" '
            'style="border: 0" allow="fullscreen"></iframe>'
        )


class Caption(NamedTuple):
    """A text about an image."""

    text: str
    path: str
    score: float
    tokens: int
    ended: bool


class Text(str):
    """A text that a model wrote. ended: by its end token, not by its greatest length."""

    score: float
    source_tokens: int
    tokens: int
    ended: bool

    @classmethod
    def of(cls, written: dict[str, Any]) -> Text:
        # Bytes that are no text, as a model of bytes may write, are as a stream shows them.
        text = cls(written["text"].encode(errors="surrogateescape").decode(errors="replace"))
        text.score, text.ended = written["score"], written["ended"]
        text.source_tokens, text.tokens = written["source_tokens"], written["tokens"]
        return text
