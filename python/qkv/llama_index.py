"""qkv in LlamaIndex: a text embedding model as `BaseEmbedding`, CLIP or SigLIP as `MultiModalEmbedding`.

    from qkv.llama_index import QkvEmbedding

    Settings.embed_model = QkvEmbedding("BAAI/bge-small-en-v1.5")
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Optional

from . import _core
from ._adapters import ModelOrPath, Retrieval, needs, source_of
from ._load import load
from ._model import Model

with needs("llama-index-core", "llama-index"):
    from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.embeddings import MultiModalEmbedding
    from llama_index.core.schema import ImageType

__all__ = ["QkvEmbedding", "QkvMultiModalEmbedding"]


class QkvEmbedding(BaseEmbedding):
    """Vectors of queries and texts, each with the model's own prompt.

    model_name: what qkv.load takes, or a qkv.Model.
    load_options: of qkv.load, such as {"dtype": "int8"}.
    query_instruction, text_instruction: put before each text in place of those in the model's files; "" for none.
    normalize: vectors of length 1, as those of CLIP and SigLIP always are.
    """

    embed_batch_size: int = Field(default=256, description="The batch size for embedding calls.", gt=0, le=2048)
    load_options: dict[str, Any] = Field(default_factory=dict, description="Options of qkv.load.")
    query_instruction: Optional[str] = Field(default=None, description="Put before each query.")
    text_instruction: Optional[str] = Field(default=None, description="Put before each text.")
    normalize: bool = Field(default=False, description="Vectors of length 1.")
    _vectors: Retrieval = PrivateAttr()

    def __init__(
        self,
        model_name: ModelOrPath,
        *,
        load_options: Optional[dict[str, Any]] = None,
        query_instruction: Optional[str] = None,
        text_instruction: Optional[str] = None,
        normalize: bool = False,
        **options: Any,
    ) -> None:
        if not isinstance(model_name, Model):
            model_name = load(os.fspath(model_name), **(load_options or {}))
        elif load_options:
            raise _core.Error("load_options: the model is loaded already; give its path with them")
        vectors = Retrieval(model_name, query_instruction, text_instruction, normalize)
        path, loaded_with = source_of(vectors.model)
        super().__init__(
            model_name=path,
            load_options=loaded_with,
            query_instruction=query_instruction,
            text_instruction=text_instruction,
            normalize=normalize,
            **options,
        )
        self._vectors = vectors

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__

    def _get_query_embedding(self, query: str) -> Embedding:
        return self._vectors.queries([query])[0].tolist()

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._vectors.documents([text])[0].tolist()

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return self._vectors.documents(texts).tolist()

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


class QkvMultiModalEmbedding(QkvEmbedding, MultiModalEmbedding):
    """Vectors of texts and of images in one space, by a model with two towers (CLIP, SigLIP).

    Arguments: as of QkvEmbedding.
    """

    def __init__(self, model_name: ModelOrPath, **options: Any) -> None:
        super().__init__(model_name, **options)
        if not (self._vectors.reads_texts and self._vectors.reads_images):
            raise _core.Error(f"{self.model_name}: expected a model with two towers (CLIP, SigLIP)")

    def _get_image_embedding(self, img_file_path: ImageType) -> Embedding:
        return self._get_image_embeddings([img_file_path])[0]

    def _get_image_embeddings(self, img_file_paths: list[ImageType]) -> list[Embedding]:
        images = [image.getvalue() if hasattr(image, "getvalue") else image for image in img_file_paths]
        return self._vectors.images(images).tolist()

    async def _aget_image_embedding(self, img_file_path: ImageType) -> Embedding:
        return await asyncio.to_thread(self._get_image_embedding, img_file_path)

    async def _aget_image_embeddings(self, img_file_paths: list[ImageType]) -> list[Embedding]:
        return await asyncio.to_thread(self._get_image_embeddings, img_file_paths)
