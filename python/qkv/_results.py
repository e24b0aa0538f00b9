"""What models answer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy


class Prediction(NamedTuple):
    """A class of an image."""

    label: str
    score: float
    index: int


class Classification(list["Prediction"]):
    """The most probable classes of an image, best first."""

    def __init__(self, path: str, top: list[Prediction], logits: numpy.ndarray | None) -> None:
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
    index: int


class _Picture:
    """A result that shows itself in a notebook."""

    _picture: numpy.ndarray | None

    def image(self) -> Any:
        """The photo with what was found, as a PIL image."""
        import PIL.Image

        if self._picture is None:
            raise ValueError("draw=True keeps the picture")
        return PIL.Image.fromarray(self._picture)

    def _repr_png_(self) -> bytes | None:
        if self._picture is None:
            return None
        import io

        out = io.BytesIO()
        self.image().save(out, "PNG")
        return out.getvalue()


class Detections(_Picture, list["Object"]):
    """The objects of a photo, best first."""

    def __init__(self, path: str, objects: list[Object], picture: numpy.ndarray | None) -> None:
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
    index: int
    rle: dict[str, Any]


class Segmentation(_Picture):
    """The segments of a photo. ids: [height, width], the id of each pixel's segment, 0 for none."""

    def __init__(
        self, path: str, task: str, segments: list[Segment], ids: numpy.ndarray, picture: numpy.ndarray | None
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

    def mask(self, segment: Segment) -> numpy.ndarray:
        """The segment's pixels, [height, width] of bool; instances may overlap."""
        import numpy

        height, width = segment.rle["size"]
        flat = numpy.zeros(height * width, dtype=bool)
        at, inside = 0, False
        for count in _rle_counts(segment.rle["counts"]):
            if inside:
                flat[at : at + count] = True
            at, inside = at + count, not inside
        return flat.reshape(width, height).T

    def __repr__(self) -> str:
        return f"<{self.path}: {len(self)} segments ({self.task}): " + ", ".join(s.label for s in self) + ">"


def _rle_counts(counts: str | list[int]) -> list[int]:
    """COCO's compressed counts as numbers."""
    if not isinstance(counts, str):
        return counts
    numbers: list[int] = []
    at = 0
    while at < len(counts):
        value, shift, more = 0, 0, True
        while more:
            code = ord(counts[at]) - 48
            value |= (code & 0x1F) << shift
            more, at, shift = bool(code & 0x20), at + 1, shift + 5
            if not more and code & 0x10:
                value -= 1 << shift
        numbers.append(value + (numbers[-2] if len(numbers) > 2 else 0))
    return numbers


class Exploration:
    """A page that shows an image as a model sees it. A notebook shows it; `save` writes it as one file for a browser."""

    _HEIGHT = 760  # pixels of its frame

    def __init__(self, model: str, name: str, views: Sequence[str], page: str) -> None:
        self.model = model
        self.path = name
        self.views = tuple(views)
        self.html = page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page, which needs nothing else."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

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
        text = cls(written["text"])
        text.score, text.ended = written["score"], written["ended"]
        text.source_tokens, text.tokens = written["source_tokens"], written["tokens"]
        return text
