"""What the modules for other libraries share (langchain, llama_index, chroma, sklearn, ray)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Union

from . import _core, _images
from ._load import load
from ._model import Model

if TYPE_CHECKING:
    import numpy

ModelOrPath = Union[str, os.PathLike[str], Model]


@contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Around imports of a library that qkv does without."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f'qkv.{extra} needs {package}: pip install "qkv[{extra}]" ({error})') from error


def opened(model: ModelOrPath) -> Model:
    """A model, from what users of an adapter say: the model itself, or what `load` takes."""
    return model if isinstance(model, Model) else load(model)


def source_of(model: Model) -> tuple[str, dict[str, Any]]:
    """Path and options of qkv.load, for configurations and other processes."""
    if model._source is None:
        raise _core.Error(
            f"{model.path}: a model taken over from memory has no path to load it from: save it first "
            "(save_pretrained, or timm.models.save_for_hf), and give its folder"
        )
    return model._source


def texts_of(model: Model, operation: str) -> Model:
    """The model, if it embeds texts."""
    if "encode" not in model.abilities:
        raise _core.Error(f"{operation}: {model.path} embeds no texts; expected a text embedding model, CLIP or SigLIP")
    return model


def images_of(model: Model, operation: str) -> Model:
    """The model, if it embeds images."""
    if "embed" not in model.abilities:
        raise _core.Error(f"{operation}: {model.path} embeds no images; expected a Vision Transformer, CLIP or SigLIP")
    return model


def embed_each(model: Model, images: list[Any], **options: Any) -> tuple[numpy.ndarray, dict[int, str]]:
    """A vector for each image, [images, width], and by index why some could not be read: their rows are NaN.

    options: as of `Model.iter_embed`. A folder among the images is an Error, as it is more than one.
    """
    import numpy

    items = list(_images.listed(images)[0])
    if len(items) != len(images):
        raise _core.Error("embed: a folder among the images; qkv.find_images(folder) lists what is in it")
    rows: list[Any] = [None] * len(items)
    # Those left out have no row; the others come in order.
    places = enumerate(_images.names(items))
    for name, row in model.iter_embed(items, on_error="skip", **options):
        rows[next(i for i, expected in places if expected == name)] = row
    reasons = {}
    for i in [i for i, row in enumerate(rows) if row is None]:
        try:
            rows[i] = model.embed(items[i], **options)
        except _core.Error as error:
            reasons[i] = str(error)
    width = next((len(row) for row in rows if row is not None), None) or model._image_width(**options)
    for i in reasons:
        rows[i] = numpy.full(width, numpy.nan, dtype=numpy.float32)
    return numpy.stack(rows) if rows else numpy.empty((0, width), dtype=numpy.float32), reasons


class Retrieval:
    """Vectors of queries, documents and images by one model, as frameworks of retrieval ask for them.

    query_prompt, document_prompt: put before each text; None: as the model's files have it, "": nothing.
    normalize: vectors of length 1, as those of a model with two towers always are.
    """

    def __init__(
        self,
        model: ModelOrPath,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        normalize: bool = False,
    ) -> None:
        self.model = opened(model)
        self.query_prompt = query_prompt
        self.document_prompt = document_prompt
        self.normalize = normalize
        if not self.reads_texts and not self.reads_images:
            able = ", ".join(self.model.abilities)
            raise _core.Error(f"{self.model.path} embeds neither texts nor images; it can {able}")

    @property
    def reads_texts(self) -> bool:
        return "encode" in self.model.abilities

    @property
    def reads_images(self) -> bool:
        return "embed" in self.model.abilities

    def queries(self, texts: list[str]) -> numpy.ndarray:
        """[texts, width]."""
        return self._encoded(self.model.encode_query, texts, self.query_prompt)

    def documents(self, texts: list[str]) -> numpy.ndarray:
        """[texts, width]."""
        return self._encoded(self.model.encode_document, texts, self.document_prompt)

    def _encoded(self, encode: Any, texts: list[str], prompt: str | None) -> numpy.ndarray:
        texts_of(self.model, "embed")
        if isinstance(texts, str):
            raise TypeError("embed: expected a list of texts, got one text")
        if not len(texts):
            return self._none
        return encode(texts, prompt=prompt, normalize_embeddings=self.normalize)

    def images(self, images: list[Any]) -> numpy.ndarray:
        """[images, width]; of a folder all images in it."""
        images_of(self.model, "embed")
        if not len(images):
            return self._none
        return self.model.embed(images, normalize=self.normalize or self.reads_texts)

    @property
    def _none(self) -> numpy.ndarray:
        import numpy

        return numpy.empty((0, self.model.dimension), dtype=numpy.float32)
