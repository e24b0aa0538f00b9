"""What a model does with images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _core, _images, _progress
from ._arguments import (
    batch,
    boolean,
    number,
    number_or_none,
    one_or_all,
    positive,
    skips,
    text,
    text_or_none,
    texts,
    unit,
)
from ._generation import choices
from ._results import Caption, Classification, Detections, Object, Prediction, Segment, Segmentation

if TYPE_CHECKING:
    from typing import Unpack

    from ._types import FloatArray, Generation, Image, Images, OnError

# Images of one call into the engine: enough for all cores, few enough for progress and other threads' turns.
_CHUNK = 256


class ImageMethods:
    _core: Any

    @overload
    def classify(  # type: ignore[overload-overlap]
        self,
        images: Image,
        *,
        top: int = 5,
        prompts: Iterable[str] | None = None,
        templates: Iterable[str] = (),
        logits: bool = False,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Classification: ...
    @overload
    def classify(
        self,
        images: Iterable[Image],
        *,
        top: int = 5,
        prompts: Iterable[str] | None = None,
        templates: Iterable[str] = (),
        logits: bool = False,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> list[Classification]: ...
    def classify(
        self,
        images: Images,
        *,
        top: int = 5,
        prompts: Iterable[str] | None = None,
        templates: Iterable[str] = (),
        logits: bool = False,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Any:
        """The `top` most probable classes of each image, best first.

        prompts: the classes in words, for a model with two towers (CLIP, SigLIP); templates: texts of a class, with its
        name in place of {}. logits=True keeps all of them, [classes].
        """
        positive("top", top)
        words = None if prompts is None else texts("prompts", prompts)
        patterns = texts("templates", templates)
        if patterns and words is None:
            raise _core.Error("classify: templates are texts around the names of classes: give these too, by prompts=[…]")
        keep, skip, together = boolean("logits", logits), skips(on_error), batch(batch_size)
        several, single, count = _images.listed(images)
        results = []
        for some, names, report in self._chunks(several, count, progress):
            for index, best, values in self._core.classify(some, top, keep, words, patterns, skip, together, report):
                predictions = [Prediction(label or str(i), score, i) for i, label, score in best]
                results.append(Classification(names[index], predictions, values))
        return one_or_all(results, single)

    def embed(
        self,
        images: Images,
        *,
        pool: str | None = None,
        normalize: bool = False,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> FloatArray:
        """Vectors: [images, width], or of a single image [width]. Texts go to `encode`.

        pool: as of `load`; "tokens" gives [images, tokens, width]. normalize: to length 1, as a model with two towers
        compares them. With on_error="skip" images that cannot be read have no row: `iter_embed` gives rows with paths.
        """
        import numpy

        several, single, count = _images.listed(images)
        parts = [rows for _, rows in self._vectors(several, count, pool, normalize, on_error, batch_size, progress)]
        if not parts:
            raise _core.Error("embed: no image")
        rows: FloatArray = one_or_all(parts[0] if len(parts) == 1 else numpy.concatenate(parts), single)
        return rows

    def _image_width(self, **options: Any) -> int:
        """Numbers in the vector of an image. options: as of `embed`."""
        import numpy

        facts = self._core.info
        blank = numpy.zeros((*facts["image_size"], facts["channels"]), dtype=numpy.uint8)
        return int(self.embed(blank, **options).shape[-1])

    def iter_embed(
        self,
        images: Images,
        *,
        pool: str | None = None,
        normalize: bool = False,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[tuple[str, FloatArray]]:
        """(path, vector) of each image as they come: memory stays flat over any number of images, of a generator too."""
        several, _, count = _images.listed(images)
        for names, rows in self._vectors(several, count, pool, normalize, on_error, batch_size, progress):
            yield from zip(names, rows)

    def _vectors(
        self,
        several: Iterable[Any],
        count: int | None,
        pool: str | None,
        normalize: bool,
        on_error: OnError,
        batch_size: int | None,
        progress: bool | None,
    ) -> Iterator[tuple[list[str], FloatArray]]:
        """Names of images that were read, and their vectors, some at a time."""
        which, length_one = text_or_none("pool", pool) or "", boolean("normalize", normalize)
        skip, together = skips(on_error), batch(batch_size)
        for some, names, report in self._chunks(several, count, progress):
            rows, indices = self._core.embed_images(some, which, length_one, skip, together, report)
            if length_one and not self._core.has_text_tower:
                rows = unit(rows)
            yield [names[index] for index in indices], rows

    @overload
    def detect(  # type: ignore[overload-overlap]
        self,
        images: Image,
        *,
        threshold: float = 0.5,
        draw: bool = False,
        on_error: OnError = "raise",
        progress: bool | None = None,
    ) -> Detections: ...
    @overload
    def detect(
        self,
        images: Iterable[Image],
        *,
        threshold: float = 0.5,
        draw: bool = False,
        on_error: OnError = "raise",
        progress: bool | None = None,
    ) -> list[Detections]: ...
    def detect(
        self,
        images: Images,
        *,
        threshold: float = 0.5,
        draw: bool = False,
        on_error: OnError = "raise",
        progress: bool | None = None,
    ) -> Any:
        """The objects of each photo with a score above the threshold. draw=True keeps the photo with their boxes."""
        least, keep, skip = number("threshold", threshold), boolean("draw", draw), skips(on_error)
        several, single, count = _images.listed(images)
        results = []
        for some, names, report in self._chunks(several, count, progress):
            for index, found, picture in self._core.detect(some, least, keep, skip, report):
                objects = [
                    Object(o["label"] or str(o["index"]), o["score"], tuple(o["box"]), o["index"])
                    for o in found["objects"]
                ]
                results.append(Detections(names[index], objects, picture))
        return one_or_all(results, single)

    @overload
    def segment(  # type: ignore[overload-overlap]
        self,
        images: Image,
        *,
        task: Literal["semantic", "instance", "panoptic"] | None = None,
        threshold: float | None = None,
        mask_threshold: float | None = None,
        overlap: float | None = None,
        stuff: Sequence[str | int] = (),
        draw: bool = False,
        on_error: OnError = "raise",
        progress: bool | None = None,
    ) -> Segmentation: ...
    @overload
    def segment(
        self,
        images: Iterable[Image],
        *,
        task: Literal["semantic", "instance", "panoptic"] | None = None,
        threshold: float | None = None,
        mask_threshold: float | None = None,
        overlap: float | None = None,
        stuff: Sequence[str | int] = (),
        draw: bool = False,
        on_error: OnError = "raise",
        progress: bool | None = None,
    ) -> list[Segmentation]: ...
    def segment(
        self,
        images: Images,
        *,
        task: Literal["semantic", "instance", "panoptic"] | None = None,
        threshold: float | None = None,
        mask_threshold: float | None = None,
        overlap: float | None = None,
        stuff: Sequence[str | int] = (),
        draw: bool = False,
        on_error: OnError = "raise",
        progress: bool | None = None,
    ) -> Any:
        """The segments of each photo. stuff: classes whose panoptic segments are one. draw=True keeps the picture."""
        rules = (
            text_or_none("task", task) or "",
            number_or_none("threshold", threshold),
            number_or_none("mask_threshold", mask_threshold),
            number_or_none("overlap", overlap),
            _classes("stuff", stuff),
            boolean("draw", draw),
            skips(on_error),
        )
        several, single, count = _images.listed(images)
        results = []
        for some, names, report in self._chunks(several, count, progress):
            for index, found, ids, picture in self._core.segment(some, *rules, report):
                segments = [
                    Segment(
                        s["id"],
                        s["label"] or str(s["index"]),
                        s.get("score"),
                        s["area"],
                        tuple(s["bbox"]),
                        s["index"],
                        s["segmentation"],
                    )
                    for s in found["segments"]
                ]
                results.append(Segmentation(names[index], found["task"], segments, ids, picture))
        return one_or_all(results, single)

    @overload
    def caption(  # type: ignore[overload-overlap]
        self,
        images: Image,
        *,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> Caption: ...
    @overload
    def caption(
        self,
        images: Iterable[Image],
        *,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> list[Caption]: ...
    def caption(
        self,
        images: Images,
        *,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> Any:
        """A text about each image, or the line of text in it. generation: as of `generate`."""
        chosen, skip, together = choices("caption", generation), skips(on_error), batch(batch_size)
        several, single, count = _images.listed(images)
        results = []
        for some, names, report in self._chunks(several, count, progress):
            for index, one in self._core.caption(some, chosen, skip, together, report):
                results.append(Caption(one["text"], names[index], one["score"], one["tokens"], one["ended"]))
        return one_or_all(results, single)

    def preprocess(self, images: Images) -> FloatArray:
        """What the model reads of images: [images, channels, height, width] of float32."""
        several = _images.all_of(images)
        if not several:
            raise _core.Error("preprocess: no image")
        pixels: FloatArray = self._core.pixels(several)
        return pixels

    def _chunks(
        self, several: Iterable[Any], count: int | None, progress: bool | None
    ) -> Iterator[tuple[list[Any], list[str], Any]]:
        with _progress.bar(progress, count, "images") as report:
            for some, names in _images.chunks(several, _CHUNK):
                yield some, names, report


def _classes(name: str, given: Any) -> list[str]:
    several = [given] if isinstance(given, (str, int)) else given
    if not isinstance(several, Iterable) or isinstance(several, (bytes, dict)):
        raise TypeError(f"{name}: expected classes, by name or index, got {given!r}")
    listed = list(several)
    for one in listed:
        if isinstance(one, str):
            text(name, one)
        elif isinstance(one, bool) or not hasattr(one, "__index__"):
            raise TypeError(f"{name}: expected classes, by name or index, got {one!r}")
    return [str(one) for one in listed]
