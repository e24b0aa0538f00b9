"""qkv in LangChain: a text embedding model, CLIP or SigLIP as `Embeddings`.

    from qkv.langchain import QkvEmbeddings

    store = InMemoryVectorStore(QkvEmbeddings("intfloat/multilingual-e5-small"))
"""

from __future__ import annotations

from ._adapters import ModelOrPath, Retrieval, needs

with needs("langchain-core", "langchain"):
    from langchain_core.embeddings import Embeddings

__all__ = ["QkvEmbeddings"]


class QkvEmbeddings(Embeddings):
    """Vectors of queries and documents, each with the model's own prompt.

    model: what qkv.load takes, or a qkv.Model.
    query_prompt, document_prompt: put before each text in place of those in the model's files ("query: ", "passage: "
        for E5); "" for none.
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

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text."""
        return self._vectors.documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text that is looked for."""
        if not isinstance(text, str):
            raise TypeError(f"embed_query: expected a text, got a {type(text).__name__}")
        return self._vectors.queries([text])[0].tolist()

    def embed_image(self, uris: list[str]) -> list[list[float]]:
        """A vector for each image, by path: what `add_images` and `similarity_search_by_image` of stores call."""
        return self._vectors.images(uris).tolist()
