"""qkv in Chroma: vectors of texts and images, and a loader of images.

    from qkv.chroma import QkvEmbeddingFunction, QkvImageLoader

    photos = client.create_collection(
        "photos", embedding_function=QkvEmbeddingFunction("openai/clip-vit-base-patch32"), data_loader=QkvImageLoader()
    )
    photos.add(ids=paths, uris=paths)
    photos.query(query_texts=["a cat on a sofa"])

Importing this module registers the function: a collection that was made with it opens with its model again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, Optional

import numpy

from . import _core, _images
from ._adapters import ModelOrPath, Retrieval, needs, source_of
from ._load import load
from ._model import Model

with needs("chromadb", "chroma"):
    from chromadb.api.types import DataLoader, Embeddable, EmbeddingFunction, Embeddings, Image, Space
    from chromadb.utils.embedding_functions import register_embedding_function

__all__ = ["QkvEmbeddingFunction", "QkvImageLoader"]


@register_embedding_function
class QkvEmbeddingFunction(EmbeddingFunction[Embeddable]):
    """Vectors of documents, queries and images (uint8 arrays [height, width, channels]).

    model: what qkv.load takes, or a qkv.Model. With two towers (CLIP, SigLIP) texts and images share a space.
    query_prompt, document_prompt: put before each text in place of those in the model's files; "" for none.
    normalize: vectors of length 1, as those of CLIP and SigLIP always are.
    """

    def __init__(
        self,
        model: ModelOrPath,
        *,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        normalize: bool = False,
    ) -> None:
        self._vectors = Retrieval(model, query_prompt, document_prompt, normalize)

    def __call__(self, input: Embeddable) -> Embeddings:
        return self._rows(input, self._vectors.documents)

    def embed_query(self, input: Embeddable) -> Embeddings:
        return self._rows(input, self._vectors.queries)

    def _rows(self, given: Embeddable, texts: Any) -> Embeddings:
        written = [isinstance(item, str) for item in given]
        if all(written):
            return list(texts(given))
        if any(written):
            raise _core.Error("embed: texts and images in one call; expected one kind")
        return list(self._vectors.images(list(given)))

    @staticmethod
    def name() -> str:
        return "qkv"

    def default_space(self) -> Space:
        similarity = self._vectors.model._sentence_settings.get("similarity_fn_name")
        return "ip" if similarity == "dot" else "l2" if similarity == "euclidean" else "cosine"

    def get_config(self) -> dict[str, Any]:
        path, options = source_of(self._vectors.model)
        return {
            "model": path,
            "options": options,
            "query_prompt": self._vectors.query_prompt,
            "document_prompt": self._vectors.document_prompt,
            "normalize": self._vectors.normalize,
        }

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> QkvEmbeddingFunction:
        settings = dict(config)
        model = _loaded(settings.pop("model"), json.dumps(settings.pop("options", {})))
        return QkvEmbeddingFunction(model, **settings)

    @staticmethod
    def validate_config(config: dict[str, Any]) -> None:
        unknown = set(config) - {"model", "options", "query_prompt", "document_prompt", "normalize"}
        if unknown or not isinstance(config.get("model"), str):
            raise _core.Error(f"the configuration of qkv's embedding function: unknown {sorted(unknown)}, or no model")

    def validate_config_update(self, old_config: dict[str, Any], new_config: dict[str, Any]) -> None:
        changed = [key for key in new_config if new_config[key] != old_config.get(key)]
        if changed:
            names = ", ".join(changed)
            raise _core.Error(f"{names}: cannot change, since the vectors in the collection were made with it")

    def is_legacy(self) -> bool:
        return False  # Chroma's own answer loads the model once more


@functools.lru_cache(maxsize=2)
def _loaded(path: str, options: str) -> Model:
    """Kept, since Chroma builds the function of an opened collection anew for each query."""
    return load(path, **json.loads(options))


class QkvImageLoader(DataLoader[list[Optional[Image]]]):
    """Images by path, upright and in colour, as qkv reads files: for `uris` of a collection."""

    def __call__(self, uris: Sequence[str | None]) -> list[Image | None]:
        return [None if uri is None else _read(uri) for uri in uris]


def _read(path: str) -> numpy.ndarray:
    import PIL.Image

    try:
        with PIL.Image.open(path) as image:
            return _images.all_of(image)[0]
    except OSError as error:
        raise _core.Error(f"{path}: {error}") from error
