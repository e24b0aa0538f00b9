"""Models: loaded from where they lie, and what they do."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _core, _images, _progress
from ._attention import ImageAttention, TextAttention
from ._run import Run, run
from ._results import Caption, Classification, Detections, Exploration, Object, Prediction, Segment, Segmentation, Text

if TYPE_CHECKING:
    import numpy

    from ._explorer import View
    from ._images import Image, Images
    from ._run import Edit

OnError = Literal["raise", "skip"]

# Images of one call into the engine: enough for all cores, few enough for progress and other threads' turns.
_CHUNK = 256
_TEXTS = 1024

_DTYPES = {
    "float32": "fp32",
    "float": "fp32",
    "fp32": "fp32",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "int8": "int8",
    "auto": "auto",
}


def set_num_threads(threads: int) -> None:
    """Cores for the calls of models without `threads` of their own (default: all that the process may use)."""
    _core.set_num_threads(threads)


def set_memory_limit(limit: int) -> None:
    """The most bytes that one call may take (default: half of the machine's); what would take more is an Error."""
    _core.set_memory_limit(limit)


def find_images(*folders: str | os.PathLike[str]) -> list[str]:
    """The images of folders, recursively, sorted by name, as every method reads a folder."""
    return _core.find_images([os.fspath(folder) for folder in folders])


def load(
    path: str | os.PathLike[str],
    *,
    dtype: Any = "fp32",
    threads: int | None = None,
    cache: bool | Literal["verify"] | None = None,
    size: int | tuple[int, int] | None = None,
    pool: str | None = None,
    labels: str | os.PathLike[str] | None = None,
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
    if "device" in hints:
        raise TypeError("load: device: qkv computes on the CPU; leave it out")
    name = str(dtype).split(".")[-1].removesuffix("'>")
    if name not in _DTYPES:
        raise _core.Error(f"load: dtype: expected fp32, bf16, int8 or auto, got {dtype}")
    if isinstance(size, int):
        size = (size, size)
    where = os.fspath(path)
    if cache not in (None, False, True, "verify"):
        raise _core.Error(f"load: cache: expected True, False, None or \"verify\", got {cache!r}")
    core = _core.load(
        _files("load", where),
        _DTYPES[name],
        0 if threads is None else _positive("threads", threads),
        "verify" if cache == "verify" else "use" if cache else "",
        size,
        pool or "",
        os.fspath(labels) if labels is not None else "",
        _hints(hints),
        strict,
    )
    again = {"dtype": _DTYPES[name], "threads": threads, "cache": cache, "size": size, "pool": pool, "strict": strict}
    again["labels"] = None if labels is None else os.path.abspath(labels)
    changed = {key: value for key, value in again.items() if value not in (None, False)}
    return Model(core, where, (os.path.abspath(where) if os.path.exists(where) else where, {**changed, **hints}))


def _load_again(path: str, options: dict[str, Any]) -> Model:
    """For pickles."""
    return load(path, **options)


def _files(work: str, path: str) -> str:
    """The path as the engine takes it, to which the built-in model is the empty one."""
    if not path:
        raise _core.Error(f'{work}: an empty path; the model that comes with qkv is "digits"')
    return "" if path == "digits" and not os.path.exists(path) else path


def _hints(hints: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if key in ("mean", "std") else value for key, value in hints.items()}


def files_of(work: str, model: Model | str | os.PathLike[str], hints: dict[str, Any]) -> tuple[Any, str]:
    """The files of a model, for what reads them anew, and the name by which it was given."""
    if not isinstance(model, Model):
        path = os.fspath(model)
        return _core.entry(_files(work, path), _hints(hints)), path
    if hints:
        raise TypeError(f"{work}: {next(iter(hints))}: an open model has its hints already")
    entry = model._core.entry
    if entry.path and not os.path.exists(entry.path):
        raise _core.Error(f"{work}: {model.path} has no files any more: save it to a folder, and give that")
    return entry, model.path


def _positive(name: str, value: int) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")
    value = value.__index__()
    if value < 1:
        raise _core.Error(f"{name}: expected at least 1, got {value}")
    return value


def _batch(batch_size: int | None) -> int:
    """0: as the engine chooses."""
    return 0 if batch_size is None else _positive("batch_size", batch_size)


def _skips(on_error: str) -> bool:
    if on_error not in ("raise", "skip"):
        raise _core.Error(f"on_error: expected \"raise\" or \"skip\", got {on_error!r}")
    return on_error == "skip"


def _texts(name: str, texts: Any) -> list[str]:
    """A list of texts; a text alone would be a list of its characters, and str() of None a word."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{name}: expected a list of texts, got a {type(texts).__name__}")
    listed = list(texts)
    for text in listed:
        if not isinstance(text, str):
            raise TypeError(f"{name}: expected texts, got a {type(text).__name__}")
    return listed


def _text_or_texts(name: str, texts: Any) -> tuple[list[str], bool]:
    return ([texts], True) if isinstance(texts, str) else (_texts(name, texts), False)


class Model:
    """A model in memory. Several threads may use one; their calls take turns, each with all of its cores.

    Images are paths, encoded bytes, PIL images, uint8 arrays [height, width, channels], or folders, which stand for all
    images in them. A single image gives a single result, several give a list. An image that cannot be read raises Error;
    with on_error="skip" it is left out, which the logger "qkv" says, and results name their image by `path`.
    """

    def __init__(self, core: Any, path: str, source: tuple[str, dict[str, Any]]) -> None:
        self._core = core
        self._path = path
        self._source: tuple[str, dict[str, Any]] | None = source  # path and options of `load`, in any folder and process

    @property
    def path(self) -> str:
        """What was given to `load`."""
        return self._path

    @property
    def abilities(self) -> list[str]:
        """What the model can do, such as "classify", "embed_images", "detect"."""
        return self._core.abilities

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        """Family, widths, depth, heads, parameters, preprocessing and labels, as `qkv info --json`."""
        return self._core.info

    @property
    def labels(self) -> list[str]:
        """Names of the classes, by index; empty if the files have none."""
        return self.info.get("labels") or []

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        if "embed_images" in self.abilities:
            return self.embed(_blank(self.info)).shape[-1]
        return self.encode("a").shape[0]

    def __reduce__(self) -> Any:
        """As what `load` was given: it is loaded again where the pickle is read, so its files must be there."""
        if self._source is None:
            raise TypeError(f"{self._path}: a model taken over from memory cannot be pickled: save it, and qkv.load it")
        return _load_again, self._source

    def __copy__(self) -> Model:
        return self  # nothing of it changes

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self

    def __repr__(self) -> str:
        info = self.info
        parameters = info.get("parameters", 0)
        return (
            f"<qkv.Model {self._path}: {info.get('architecture') or self._core.kind}, "
            f"{parameters / 1e6:.1f} M parameters; {', '.join(self.abilities)}>"
        )

    # Images.

    @overload
    def classify(self, images: Image, **options: Any) -> Classification: ...
    @overload
    def classify(self, images: Iterable[Image], **options: Any) -> list[Classification]: ...
    def classify(
        self,
        images: Images,
        *,
        top: int = 5,
        prompts: Sequence[str] | None = None,
        templates: Sequence[str] = (),
        logits: bool = False,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Any:
        """The `top` most probable classes of each image, best first.

        prompts: the classes in words, for a model with two towers (CLIP, SigLIP); templates: texts of a class, with its
        name in place of {}. logits=True keeps all of them, [classes].
        """
        items, single = _images.listed(images)
        _positive("top", top)
        results = []
        for chunk, names, report in self._chunks(items, progress):
            for index, best, values in self._core.classify(
                chunk,
                top,
                logits,
                None if prompts is None else _texts("prompts", prompts),
                _texts("templates", templates),
                _skips(on_error),
                _batch(batch_size),
                report,
            ):
                predictions = [Prediction(label or str(i), score, i) for i, label, score in best]
                results.append(Classification(names[index], predictions, values))
        return _one_or_all(results, single)

    def embed(
        self,
        inputs: Images,
        *,
        pool: str | None = None,
        normalize: bool = False,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> numpy.ndarray:
        """Vectors: [images, width], or of a single image [width]. Texts go to `encode`.

        pool: as of `load`; "tokens" gives [images, tokens, width]. normalize: to length 1, as a model with two towers
        compares them. With on_error="skip" images that cannot be read have no row: `iter_embed` gives rows with paths.
        """
        items, single = _images.listed(inputs)
        if not items:
            raise _core.Error("embed: no image")
        parts = [rows for _, rows in self._vectors(items, pool, normalize, on_error, batch_size, progress)]
        return _one_or_all(_joined(parts), single)

    def iter_embed(
        self,
        images: Images,
        *,
        pool: str | None = None,
        normalize: bool = False,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[tuple[str, numpy.ndarray]]:
        """(path, vector) of each image as they come: memory stays flat over any number of images."""
        items, _ = _images.listed(images)
        for names, rows in self._vectors(items, pool, normalize, on_error, batch_size, progress):
            yield from zip(names, rows)

    def _vectors(
        self,
        items: list[Any],
        pool: str | None,
        normalize: bool,
        on_error: OnError,
        batch_size: int | None,
        progress: bool | None,
    ) -> Iterator[tuple[list[str], numpy.ndarray]]:
        """Names of images that were read, and their vectors, some at a time."""
        for chunk, names, report in self._chunks(items, progress):
            rows, indices = self._core.embed_images(
                chunk, pool or "", normalize, _skips(on_error), _batch(batch_size), report
            )
            if normalize and not self._core.has_text_tower:
                import numpy

                rows = rows / numpy.linalg.norm(rows, axis=-1, keepdims=True)
            yield [names[index] for index in indices], rows

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
        items, single = _images.listed(images)
        results = []
        for chunk, names, report in self._chunks(items, progress):
            for index, found, picture in self._core.detect(chunk, threshold, draw, _skips(on_error), report):
                objects = [
                    Object(o["label"] or str(o["index"]), o["score"], tuple(o["box"]), o["index"])
                    for o in found["objects"]
                ]
                results.append(Detections(names[index], objects, picture))
        return _one_or_all(results, single)

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
        items, single = _images.listed(images)
        results = []
        for chunk, names, report in self._chunks(items, progress):
            for index, found, ids, picture in self._core.segment(
                chunk,
                task or "",
                threshold,
                mask_threshold,
                overlap,
                [str(name) for name in ([stuff] if isinstance(stuff, str) else stuff)],
                draw,
                _skips(on_error),
                report,
            ):
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
        return _one_or_all(results, single)

    def caption(
        self,
        images: Images,
        *,
        on_error: OnError = "raise",
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Any,
    ) -> Any:
        """A text about each image, or the line of text in it. generation: as of `generate`."""
        items, single = _images.listed(images)
        choices = _choices(generation)
        results = []
        for chunk, names, report in self._chunks(items, progress):
            for index, one in self._core.caption(chunk, choices, _skips(on_error), _batch(batch_size), report):
                results.append(Caption(one["text"], names[index], one["score"], one["tokens"], one["ended"]))
        return _one_or_all(results, single)

    def preprocess(self, images: Images) -> numpy.ndarray:
        """What the model reads of images: [images, channels, height, width] of float32."""
        items, _ = _images.listed(images)
        return self._core.pixels(items)

    def forward(
        self,
        pixels: Any = None,
        *,
        outputs: Sequence[str] | None = None,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        decoder_input_ids: Any = None,
    ) -> dict[str, numpy.ndarray]:
        """Outputs of a pass by name: "logits" or "pooled", "tokens", "hidden.3" (after block 3; 0: the embedded tokens),
        "attention.5" (of block 5, from 0: [images, heads, tokens, tokens]).

        pixels: [images, channels, height, width] of float32, as `preprocess` gives them. A text model takes ids, and its
        outputs are "tokens", "pooled", "logits", "attention.N", "cross_attention.N", "encoder_attention.N". outputs None:
        all but hidden states and attention.
        """
        import numpy

        wanted = _texts("outputs", outputs or [])
        hidden = sorted({int(name[7:]) for name in wanted if name.startswith("hidden.")})
        attention = sorted({_block(name) for name in wanted if "attention." in name})
        if input_ids is not None or decoder_input_ids is not None:
            ids = {
                "input_ids": input_ids,
                "attention_mask": attention_mask,
                "token_type_ids": token_type_ids,
                "decoder_input_ids": decoder_input_ids,
            }
            arrays = self._core.forward_texts(
                {key: _array(key, value, numpy.int64) for key, value in ids.items() if value is not None},
                attention,
            )
        else:
            if pixels is None:
                raise _core.Error("forward: give pixels, or input_ids to a text model")
            arrays = self._core.forward(_pixels(pixels), hidden, attention)
        if outputs is None:
            return arrays
        missing = [name for name in wanted if name not in arrays]
        if missing:
            raise _core.Error(f"forward: no output is called {missing[0]}; there are {', '.join(sorted(arrays))}")
        return {name: arrays[name] for name in wanted}

    def attend(
        self,
        image_or_text: Image,
        *,
        layers: Any = None,
        heads: Any = None,
        query: str | tuple[int, int] = "",
        rollout: bool = False,
        discard: float = 0.0,
        start: int = 0,
        part: Literal["encoder", "decoder", "cross"] | None = None,
        target: str | None = None,
        prefix: str = "",
        page: bool = False,
        **generation: Any,
    ) -> Any:
        """Where the model looks, in an image or, for a text model, in a text: arrays that a notebook shows as a picture.

        layers: a block from 0, several, or "all" (default: the last). heads: likewise, or "mean", "max", "min" of them
        (default: mean). query: the token whose attention it is: "cls", "mean" of the patches, "all", a patch (row, column).
        rollout: of all blocks from `start`, without the share `discard` of the smallest weights. part: of a text model.
        target: what an encoder-decoder is given to write. page: every query, which `save("x.html")` needs.
        """
        layer_text, head_text = _numbers(layers), _numbers(heads)
        if "attend_texts" in self.abilities:
            core = self._core.attend_text(
                image_or_text, part or "", layer_text, head_text, target, prefix, _choices(generation), page
            )
            return TextAttention(core, True)
        if generation:
            raise TypeError(f"attend: an image model takes no {', '.join(generation)}")
        items, single = _images.listed(image_or_text)
        if not single:
            raise _core.Error("attend: expected one image; for several call it for each")
        where = query if isinstance(query, str) else ",".join(str(i) for i in query)
        core = self._core.attend_image(items, layer_text, head_text, where, rollout, discard, start, page)
        return ImageAttention(core, page)

    @property
    def activations(self) -> list[str]:
        """Names of what a pass computes, in its order: "embed"; of each block "blocks.0.resid_pre", "….norm1", "….attn.q", k,
        v, scores, weights, heads and out, "….resid_mid", "….norm2", "….mlp.hidden", "….mlp.out", "….resid_post"; "norm".
        """
        return self._core.activations

    def run(
        self,
        inputs: Any,
        *,
        cache: str | Sequence[str] = (),
        edits: Mapping[str, Edit] | None = None,
        target: str | None = None,
        decoder_input_ids: Any = None,
    ) -> Run:
        """One pass, in float32 and with the layers as the files store them, that keeps and changes activations by name.

        inputs: images, pixels as of `preprocess`, a text or texts, ids [texts, tokens], or what `forward` takes as a dict.
        cache: names of `activations` that are kept; * stands for any part of a name.
        edits: name or pattern to a number or an array, which takes the activation's place, or a function of the activation,
            [images, …], and its name, which changes it in place or returns another; "blocks.3.attn.heads.5" is head 5 of
            that activation. `qkv.edits` has those of the explorer.
        target: what an encoder-decoder is given to write (default: what it writes by itself), or decoder_input_ids.

        The first call builds the model a second time, from its files.
        """
        given = self._passed(inputs, target, decoder_input_ids)
        return run(self, self._as_stored, given, cache, edits)

    @functools.cached_property
    def _as_stored(self) -> Any:
        folder = self._core.folder
        if folder and not os.path.exists(folder):
            raise _core.Error(f"run: {self._path}: its files are gone; save the model to a folder, and load that")
        return self._core.as_stored()

    def _passed(self, inputs: Any, target: str | None, decoder_input_ids: Any) -> dict[str, numpy.ndarray]:
        import numpy

        if isinstance(inputs, Mapping):
            return {
                key: _pixels(value) if key == "pixels" else _array(key, value, numpy.int64)
                for key, value in inputs.items()
            }
        passed: dict[str, numpy.ndarray] = {}
        reads_text = self._core.kind in ("text", "pair")
        has_both = any(name.startswith("decoder.") for name in self.activations)
        if not reads_text:
            passed["pixels"] = _pixels(inputs) if getattr(inputs, "ndim", 0) == 4 else self.preprocess(inputs)
        elif isinstance(inputs, str) or not hasattr(inputs, "ndim"):
            rows = self.tokenize(inputs)
            lengths = numpy.array([len(row) for row in rows])
            passed["attention_mask"] = (numpy.arange(lengths.max()) < lengths[:, None]).astype(numpy.int64)
            passed["input_ids"] = numpy.zeros_like(passed["attention_mask"])
            for to, row in zip(passed["input_ids"], rows):
                to[: len(row)] = row
        else:
            passed["input_ids"] = numpy.atleast_2d(_array("inputs", inputs, numpy.int64))
        if decoder_input_ids is not None:
            passed["decoder_input_ids"] = numpy.atleast_2d(_array("decoder_input_ids", decoder_input_ids, numpy.int64))
        elif has_both and reads_text:
            if not isinstance(inputs, str):
                raise _core.Error("run: of several texts an encoder-decoder needs decoder_input_ids, [texts, tokens]")
            written = self.attend(inputs, part="decoder", layers=0, heads=0, target=target)
            passed["decoder_input_ids"] = numpy.array([written.facts["column_ids"]], numpy.int64)
        elif has_both:
            raise _core.Error("run: give decoder_input_ids, [images, tokens], which the decoder reads beside the image")
        return passed

    def explore(
        self, image: Image, *, views: Sequence[View] | None = None, progress: bool | None = None
    ) -> Exploration:
        """The explorer's page about an image, offline in a notebook's cell, its exported HTML, or a file (`save`).

        views: of "attention" (all blocks and heads; the page's pointer is the query), "rollout", "relevance" of the most
        probable classes, "similarity" and "colours" of the tokens after each block, "heads" (their matrices); default:
        all that the model has. Pages of large inputs take some MB: fewer views are less. What changes the model (ranks,
        symmetry, knock-outs) needs the engine: `qkv explore -m PATH`. Opens the model's files again.
        """
        from ._explorer import explore

        return explore(self._core, self._path, image, views, progress)

    # Texts.

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        normalize_embeddings: bool = False,
        show_progress_bar: bool | None = None,
    ) -> numpy.ndarray:
        """Vectors of texts as sentence-transformers gives them: [texts, width], or of a single text [width].

        prompt: put before each text; prompt_name: one of the model's `prompts`. A model with two towers gives vectors of
        length 1.
        """
        texts, single = _text_or_texts("encode", sentences)
        before = self._prompt(prompt_name) if prompt is None and prompt_name is not None else prompt
        if not texts:
            raise _core.Error("encode: no text")
        parts = []
        step = _batch(batch_size) or _TEXTS
        with _progress.bar(show_progress_bar, len(texts), "texts") as report:
            for first in range(0, len(texts), step):
                some = texts[first : first + step]
                parts.append(self._core.embed_texts(some, before))
                if report:
                    report(len(some))
        rows = _unit(_joined(parts)) if normalize_embeddings else _joined(parts)
        return rows[0] if single else rows

    def encode_query(self, sentences: str | Sequence[str], **options: Any) -> numpy.ndarray:
        """As `encode`, with the prompt "query" if the model has one."""
        return self._encode_as(("query",), sentences, options)

    def encode_document(self, sentences: str | Sequence[str], **options: Any) -> numpy.ndarray:
        """As `encode`, with the prompt "document", "passage" or "corpus" if the model has one."""
        return self._encode_as(("document", "passage", "corpus"), sentences, options)

    def _encode_as(self, names: tuple[str, ...], sentences: Any, options: dict[str, Any]) -> numpy.ndarray:
        if options.get("prompt") is None and options.get("prompt_name") is None:
            found = [name for name in names if name in self.prompts]
            if found:
                options["prompt_name"] = found[0]
        return self.encode(sentences, **options)

    @functools.cached_property
    def _sentence_settings(self) -> dict[str, Any]:
        file = os.path.join(self._core.folder, "config_sentence_transformers.json")
        if not os.path.exists(file):
            return {}
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts of a text embedding model by name, from its files."""
        return self._sentence_settings.get("prompts") or {}

    def _prompt(self, name: str) -> str:
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise _core.Error(f"encode: the model has no prompt {name!r}; it has {known}")
        return self.prompts[name]

    def similarity(self, a: Any, b: Any) -> numpy.ndarray:
        """Similarities of each vector of a with each of b, [a, b]: by the function in the model's files, or the cosine."""
        import numpy

        if isinstance(a, str) or isinstance(b, str):
            raise TypeError("similarity: compares vectors: similarity(model.encode(a), model.encode(b))")
        a, b = (numpy.atleast_2d(_array("vectors", vectors, numpy.float32)) for vectors in (a, b))
        if a.ndim > 2 or b.ndim > 2 or a.shape[1] != b.shape[1]:
            raise _core.Error(f"similarity: vectors {list(a.shape)} and {list(b.shape)}, expected rows of one width")
        name = self._sentence_settings.get("similarity_fn_name") or "cosine"
        if name == "dot":
            return a @ b.T
        if name == "cosine":
            return _unit(a) @ _unit(b).T
        if name not in ("euclidean", "manhattan"):
            raise _core.Error(f"similarity: the model's files ask for {name!r}, expected cosine, dot, euclidean or manhattan")
        order = 2 if name == "euclidean" else 1
        return numpy.stack([-numpy.linalg.norm(b - row, ord=order, axis=1) for row in a])

    def tokenize(self, texts: str | Sequence[str]) -> list[list[int]]:
        """Ids of each text."""
        return self._core.tokenize(_text_or_texts("tokenize", texts)[0])

    @overload
    def generate(self, prompt: str, *, stream: Literal[False] = False, **generation: Any) -> Text: ...
    @overload
    def generate(self, prompt: str, *, stream: Literal[True], **generation: Any) -> Iterator[str]: ...
    def generate(self, prompt: str, *, stream: bool = False, **generation: Any) -> Any:
        """What follows the prompt; with stream=True an iterator of its pieces as they come.

        Settings are the model's unless given: max_new_tokens, min_new_tokens, temperature (0: the most probable token),
        top_k, top_p, min_p, num_beams, length_penalty, repetition_penalty, no_repeat_ngram_size, seed, do_sample.
        """
        choices = _choices(generation)
        if stream:
            return _stream(lambda show: self._core.continue_text(prompt, choices, show))
        return Text.of(self._core.continue_text(prompt, choices, None))

    def translate(self, texts: str | Sequence[str], *, prefix: str | None = None, **options: Any) -> Any:
        """Texts by an encoder-decoder, such as Marian or T5. prefix: put before each ("translate English to German: ");
        cut=True cuts texts that are longer than the model reads in pieces; batch_size, progress; generation as of
        `generate`."""
        return self._rewrite("translate", texts, prefix, options)

    def summarize(self, texts: str | Sequence[str], *, prefix: str | None = None, **options: Any) -> Any:
        """As `translate`, with the prefix of the model's files for summaries."""
        return self._rewrite("summarize", texts, prefix, options)

    def _rewrite(self, task: str, texts: Any, prefix: str | None, options: dict[str, Any]) -> Any:
        given, single = _text_or_texts(task, texts)
        cut, batch = options.pop("cut", False), _batch(options.pop("batch_size", None)) or 32
        with _progress.bar(options.pop("progress", None), len(given), "texts") as report:
            written = self._core.rewrite(given, task, prefix, _choices(options), batch, cut, report)
        return _one_or_all([Text.of(one) for one in written], single)

    def _chunks(self, items: list[Any], progress: bool | None) -> Iterator[tuple[list[Any], list[str], Any]]:
        names = _images.names(items)
        with _progress.bar(progress, len(items), "images") as report:
            for first in range(0, len(items), _CHUNK):
                yield items[first : first + _CHUNK], names[first : first + _CHUNK], report


_GENERATION = {
    "max_new_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "num_beams": "beams",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "length_penalty": "length_penalty",
    "repetition_penalty": "repetition_penalty",
    "seed": "seed",
}


def _choices(generation: dict[str, Any]) -> dict[str, Any]:
    """Keywords in transformers' words as the engine's choices."""
    given = {key: value for key, value in generation.items() if value is not None}
    sample = given.pop("do_sample", None)
    if sample is False:
        if given.get("temperature"):
            raise _core.Error("generate: do_sample=False is the most probable token, which has no temperature")
        given["temperature"] = 0.0
    elif sample is True:
        given.setdefault("temperature", 1.0)
    unknown = [key for key in given if key not in _GENERATION]
    if unknown:
        raise TypeError(f"no setting of generation is called {unknown[0]}; there are {', '.join(_GENERATION)}, do_sample")
    return {_GENERATION[key]: value for key, value in given.items()}


def _stream(work: Any) -> Iterator[str]:
    """Runs `work` on a thread of its own and yields what it shows, whole characters at a time."""
    import codecs
    import queue
    import threading

    pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop = threading.Event()

    def show(piece: bytes) -> bool:
        pieces.put(piece)
        return not stop.is_set()

    def run() -> None:
        try:
            work(show)
            pieces.put(None)
        except BaseException as error:
            pieces.put(error)

    thread = threading.Thread(target=run, daemon=True, name="qkv generate")
    thread.start()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while True:
            piece = pieces.get()
            if piece is None:
                rest = decoder.decode(b"", True)
                if rest:
                    yield rest
                return
            if isinstance(piece, BaseException):
                raise piece
            text = decoder.decode(piece)
            if text:
                yield text
    finally:
        stop.set()
        thread.join()


def _joined(parts: list[numpy.ndarray]) -> numpy.ndarray:
    import numpy

    return parts[0] if len(parts) == 1 else numpy.concatenate(parts)


def _unit(rows: numpy.ndarray) -> numpy.ndarray:
    """Rows of length 1, as sentence-transformers makes them: those of zeros stay."""
    import numpy

    return rows / numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _one_or_all(results: Any, single: bool) -> Any:
    if not single:
        return results
    if not len(results):
        raise _core.Error("the image was left out; see the logger \"qkv\"")
    return results[0]


def _numbers(given: Any) -> str:
    if given is None:
        return ""
    if isinstance(given, (str, int)):
        return str(given)
    return ",".join(str(int(number)) for number in given)


def _block(name: str) -> int:
    return int(name.rsplit(".", 1)[1])


def _pixels(pixels: Any) -> Any:
    """float32, contiguous; a tensor of PyTorch as it is if it is on the CPU and has no gradient."""
    import numpy

    if hasattr(pixels, "numpy") and hasattr(pixels, "detach"):
        pixels = pixels.detach().numpy()
    return _array("pixels", pixels, numpy.float32)


def _array(name: str, values: Any, dtype: Any) -> Any:
    import numpy

    try:
        return numpy.ascontiguousarray(values, dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise TypeError(f"{name}: expected numbers: {error}") from None


def _blank(info: dict[str, Any]) -> Any:
    import numpy

    height, width = info["image_size"]
    return numpy.zeros((height, width, info["channels"]), dtype=numpy.uint8)
