"""A model in memory, and what every kind of model does."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _core, _images
from ._arguments import array, boolean, number, suggest_keywords, text, text_or_none, texts, whole
from ._attention import ImageAttention, TextAttention
from ._generation import NAMES, choices
from ._image_methods import ImageMethods
from ._run import Run, run
from ._text_methods import TextMethods

if TYPE_CHECKING:
    from typing import Unpack

    import PIL.Image
    from numpy.typing import NDArray

    from ._explorer import View
    from ._results import Exploration
    from ._run import Edit
    from ._types import FloatArray, Generation, Image

    _Blocks = int | Iterable[int] | Literal["all"] | str | None

_IDS = ("input_ids", "attention_mask", "token_type_ids", "decoder_input_ids")
_INPUTS = ("pixels", *_IDS)  # of a pass


@suggest_keywords(*NAMES)
class Model(ImageMethods, TextMethods):
    """A model in memory. Several threads may use one; their calls take turns, each with all of its cores.

    Images are paths, encoded bytes, PIL images, uint8 arrays [height, width, channels], or folders, which stand for all
    images in them; several are a list, a generator, or a column of a table. A single image gives a single result, several
    give a list. An image that cannot be read raises Error; with on_error="skip" it is left out, which the logger "qkv"
    says, and results name their image by `path`.
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
        """The methods that this model has, of those that not every model has: "classify", "embed", "detect", …"""
        names: list[str] = self._core.methods
        return names

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        """Family, widths, depth, heads, parameters, preprocessing and labels, as `qkv info --json`."""
        facts: dict[str, Any] = self._core.info
        return facts

    @property
    def labels(self) -> list[str]:
        """Names of the classes, by index; empty if the files have none."""
        return self.info.get("labels") or []

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        if "embed" in self.abilities:
            return self._image_width()
        return int(self.encode("a").shape[0])

    def __reduce__(self) -> Any:
        """As what `load` was given: it is loaded again where the pickle is read, so its files must be there."""
        from ._load import load_again

        if self._source is None:
            raise TypeError(f"{self._path}: a model taken over from memory cannot be pickled: save it, and qkv.load it")
        return load_again, self._source

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

    def forward(
        self,
        pixels: Any = None,
        *,
        outputs: Iterable[str] | None = None,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        decoder_input_ids: Any = None,
    ) -> dict[str, FloatArray]:
        """Outputs of a pass by name: "logits" or "pooled", "tokens", "hidden.3" (after block 3; 0: the embedded tokens),
        "attention.5" (of block 5, from 0: [images, heads, tokens, tokens]).

        pixels: [images, channels, height, width] of float32, as `preprocess` gives them. A text model takes ids, and its
        outputs are "tokens", "pooled", "logits", "attention.N", "cross_attention.N", "encoder_attention.N". outputs None:
        all but hidden states and attention. A run of `qkv train` on tasks or texts takes input_ids.
        """
        wanted = [] if outputs is None else texts("outputs", outputs)
        hidden = sorted({_number_of(name) for name in wanted if name.startswith("hidden.")})
        attention = sorted({_number_of(name) for name in wanted if "attention." in name})
        ids = zip(_IDS, (input_ids, attention_mask, token_type_ids, decoder_input_ids))
        given = {key: _read("forward", key, value) for key, value in ids if value is not None}
        arrays: dict[str, FloatArray]
        if given:
            if pixels is not None:
                raise TypeError(f"forward: pixels and {', '.join(given)}: a model reads one of them")
            arrays = self._core.forward_texts(given, attention)
        else:
            if pixels is None:
                raise _core.Error("forward: give pixels, or input_ids to a text model")
            arrays = self._core.forward(_read("forward", "pixels", pixels), hidden, attention)
        if outputs is None:
            return arrays
        missing = [name for name in wanted if name not in arrays]
        if missing:
            raise _core.Error(f"forward: no output is called {missing[0]}; there are {', '.join(sorted(arrays))}")
        return {name: arrays[name] for name in wanted}

    @overload
    def attend(
        self,
        image_or_text: PathLike[str] | bytes | bytearray | memoryview | PIL.Image.Image | NDArray[Any],
        *,
        layers: _Blocks = None,
        heads: _Blocks = None,
        query: str | tuple[int, int] = "",
        rollout: bool = False,
        discard: float = 0.0,
        start: int = 0,
        page: bool = False,
    ) -> ImageAttention: ...
    @overload
    def attend(
        self,
        image_or_text: str,
        *,
        layers: _Blocks = None,
        heads: _Blocks = None,
        query: str | tuple[int, int] = "",
        rollout: bool = False,
        discard: float = 0.0,
        start: int = 0,
        part: Literal["encoder", "decoder", "cross"] | None = None,
        target: str | None = None,
        prefix: str = "",
        page: bool = False,
        **generation: Unpack[Generation],
    ) -> ImageAttention | TextAttention | Any: ...  # a str is a text or a path, as the model is
    def attend(
        self,
        image_or_text: Image,
        *,
        layers: _Blocks = None,
        heads: _Blocks = None,
        query: str | tuple[int, int] = "",
        rollout: bool = False,
        discard: float = 0.0,
        start: int = 0,
        part: Literal["encoder", "decoder", "cross"] | None = None,
        target: str | None = None,
        prefix: str = "",
        page: bool = False,
        **generation: Unpack[Generation],
    ) -> Any:
        """Where the model looks, in an image or, for a text model, in a text: arrays that a notebook shows as a picture.

        layers: a block from 0, several, or "all" (default: the last). heads: likewise, or "mean", "max", "min" of them
        (default: mean). query: the token whose attention it is: "cls", "mean" of the patches, "all", a patch (row, column).
        rollout: of the blocks from `start` to that of `layers`, without the share `discard` of the smallest weights.
        part: of a text model.
        target: what an encoder-decoder is given to write. page: every query, which `save("x.html")` needs.
        """
        blocks, chosen_heads = _blocks("layers", layers), _blocks("heads", heads)
        every, rolled = boolean("page", page), boolean("rollout", rollout)
        share, first = number("discard", discard), whole("start", start)
        where = text("query", query) if isinstance(query, str) else ",".join(str(i) for i in _patch(query))
        if self._core.is_text:
            if where or rolled or share or first:
                raise TypeError("attend: query, rollout, discard and start are for images; a text has all of its queries")
            wanted, before = text_or_none("target", target), text("prefix", prefix)
            settings = choices("attend", generation)
            core = self._core.attend_text(
                text("attend", image_or_text), text_or_none("part", part) or "", blocks, chosen_heads, wanted, before,
                settings, every,
            )  # fmt: skip
            return TextAttention(core, every)
        of_texts = {"part": part, "target": target, "prefix": prefix or None, **generation}
        for name, value in of_texts.items():
            if value is not None:
                raise TypeError(f"attend: {name} is for text models; this one reads images")
        image = _images.only(image_or_text, "attend: expected one image; for several call it for each")
        core = self._core.attend_image([image], blocks, chosen_heads, where, rolled, share, first, every)
        return ImageAttention(core, every)

    @property
    def activations(self) -> list[str]:
        """Names of what a pass computes, in its order: "embed"; of each block "blocks.0.resid_pre", "….norm1", "….attn.q", k,
        v, scores, weights, heads and out, "….resid_mid", "….norm2", "….mlp.hidden", "….mlp.out", "….resid_post"; "norm".
        Of differential attention q, k and scores have the heads of the first map, then those of the second.

        "….attn.out" and "….mlp.out" are what the layer adds to the tokens: with LayerScale, unlike a hook on timm's `attn`.
        Query tokens of EoMT are there from the block on which they enter.
        """
        names: list[str] = self._core.activations
        return names

    def run(
        self,
        inputs: Any,
        *,
        cache: str | Iterable[str] | None = (),
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
        return run(self._as_stored, given, cache, edits)

    @functools.cached_property
    def _as_stored(self) -> Any:
        self._entry("run")
        return self._core.as_stored()

    def _entry(self, work: str) -> Any:
        """Its files, for what reads them anew."""
        entry = self._core.entry
        if entry.path and not os.path.exists(entry.path):
            raise _core.Error(f"{work}: {self._path} has no files any more: save it to a folder, and load that")
        if changed := self._core.changed_file:
            raise _core.Error(f"{work}: {self._path}: {changed} has changed since the model was loaded: load it again")
        return entry

    def _passed(self, inputs: Any, target: str | None, decoder_input_ids: Any) -> dict[str, NDArray[Any]]:
        import numpy

        if target is not None and decoder_input_ids is not None:
            raise TypeError("run: target and decoder_input_ids: both are what the decoder reads; give one of them")
        if isinstance(inputs, Mapping):
            if not inputs:
                raise _core.Error("run: an empty dict, expected pixels or input_ids")
            if target is not None or decoder_input_ids is not None:
                raise TypeError("run: beside a dict expected no target or decoder_input_ids: the dict has all inputs")
            for key in inputs:
                if key not in _INPUTS:
                    raise _core.Error(f"run: there is no input {key!r}; there are {', '.join(_INPUTS)}")
            return {key: _read("run", key, value) for key, value in inputs.items()}
        passed: dict[str, NDArray[Any]] = {}
        reads_text, reads_ids = self._core.is_text, self._core.kind == "sequence"
        has_both = any(name.startswith("decoder.") for name in self.activations)
        if target is not None and not (has_both and reads_text):
            raise TypeError("run: target is for an encoder-decoder of texts")
        if reads_ids and not hasattr(inputs, "ndim"):
            raise _core.Error("run: a run of qkv train reads ids: give an array of whole numbers, [sequences, tokens]")
        if not reads_text and not reads_ids:
            are_pixels = getattr(inputs, "ndim", 0) == 4 and not str(inputs.dtype).endswith("uint8")
            passed["pixels"] = _read("run", "pixels", inputs) if are_pixels else self.preprocess(inputs)
        elif isinstance(inputs, str) or not hasattr(inputs, "ndim"):
            rows = self.tokenize(inputs)
            if not rows:
                raise _core.Error("run: no text")
            lengths = numpy.array([len(row) for row in rows])
            passed["attention_mask"] = (numpy.arange(lengths.max()) < lengths[:, None]).astype(numpy.int64)
            passed["input_ids"] = numpy.zeros_like(passed["attention_mask"])
            for to, row in zip(passed["input_ids"], rows):
                to[: len(row)] = row
        else:
            passed["input_ids"] = _read("run", "input_ids", inputs if inputs.ndim != 1 else [inputs])
        if decoder_input_ids is not None:
            ids = array("decoder_input_ids", decoder_input_ids, numpy.int64)
            passed["decoder_input_ids"] = _read("run", "decoder_input_ids", numpy.atleast_2d(ids))
        elif has_both and reads_text:
            if not isinstance(inputs, str):
                raise _core.Error("run: of several texts an encoder-decoder needs decoder_input_ids, [texts, tokens]")
            if not inputs.strip():
                raise _core.Error("run: the text is empty; give words, or ids and decoder_input_ids")
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

        self._entry("explore")
        return explore(self._core, self._path, image, views, progress)


def _read(work: str, name: str, values: Any) -> NDArray[Any]:
    """What a pass reads: pixels, or ids and masks of tokens."""
    import numpy

    of_images = name == "pixels"
    if of_images and (kind := array(name, values, None).dtype).kind != "f":
        raise _core.Error(f"{work}: {name}: an array of {kind}, expected floats, as model.preprocess makes them of images")
    given: NDArray[Any] = array(name, values, numpy.float32 if of_images else numpy.int64)
    if given.ndim != (4 if of_images else 2):
        wanted = "[images, channels, height, width], as model.preprocess gives it" if of_images else "[texts, tokens]"
        raise _core.Error(f"{work}: {name}: an array {list(given.shape)}, expected {wanted}")
    return given


def _blocks(name: str, given: Any) -> str:
    if given is None:
        return ""
    if isinstance(given, str):
        return text(name, given)
    if isinstance(given, Iterable) and not isinstance(given, (bytes, bytearray, dict)) and getattr(given, "ndim", 1) != 0:
        numbers = [str(whole(name, one)) for one in given]
        if not numbers:
            raise _core.Error(f'attend: {name}: an empty list; expected numbers from 0, or "all"')
        return ",".join(numbers)
    return str(whole(name, given))


def _patch(query: Any) -> tuple[int, int]:
    if not isinstance(query, (tuple, list)) or len(query) != 2:
        raise TypeError(f'attend: query: expected "cls", "mean", "all" or a patch (row, column), got {query!r}')
    return whole("query", query[0]), whole("query", query[1])


def _number_of(output: str) -> int:
    number = output.rsplit(".", 1)[1]
    if not number.isdecimal():
        raise _core.Error(f"forward: outputs: {output}: expected the number of a block from 0")
    return int(number[:9])
