"""qkv.llama_index: prompts, two towers, configurations and pickles, an index."""

import asyncio
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from support import GOLDEN

import qkv

pytest.importorskip("llama_index.core")
from llama_index.core import Document, VectorStoreIndex  # noqa: E402
from llama_index.core.embeddings import BaseEmbedding, MultiModalEmbedding  # noqa: E402
from llama_index.core.ingestion import IngestionPipeline  # noqa: E402

from qkv.llama_index import QkvEmbedding, QkvMultiModalEmbedding  # noqa: E402

BERT, CLIP = str(GOLDEN / "tasks/bert"), str(GOLDEN / "towers/clip")


def test_texts_with_the_prompts_of_the_files(prompted):
    embedding = QkvEmbedding(prompted)
    assert isinstance(embedding, BaseEmbedding)
    assert embedding.get_query_embedding("dog") == prompted.encode("the dog").tolist()
    assert embedding.get_text_embedding_batch(["dog", "house"]) == prompted.encode(["a dog", "a house"]).tolist()
    own = QkvEmbedding(prompted, query_instruction="", text_instruction="house ", normalize=True)
    assert own.get_query_embedding("dog") == prompted.encode("dog", normalize_embeddings=True).tolist()
    assert own.get_text_embedding("dog") == prompted.encode("house dog", normalize_embeddings=True).tolist()


def test_at_the_same_time(open_model):
    embedding = QkvEmbedding(open_model("tasks/bert"), embed_batch_size=2)

    async def ask():
        return await asyncio.gather(
            embedding.aget_query_embedding("a dog"),
            embedding.aget_text_embedding("a dog"),
            embedding.aget_text_embedding_batch(["a dog"] * 5),
        )

    query, text, texts = asyncio.run(ask())
    assert query == text and texts == [text] * 5


def test_two_towers(digit_photos, open_model):
    embedding, model = QkvMultiModalEmbedding(CLIP), open_model("towers/clip")
    assert isinstance(embedding, MultiModalEmbedding)
    expected = model.embed(digit_photos, normalize=True)
    assert np.allclose(embedding.get_image_embedding_batch(digit_photos), expected, atol=1e-7)
    in_memory = io.BytesIO(Path(digit_photos[3]).read_bytes())
    assert np.allclose(embedding.get_image_embedding(in_memory), expected[3], atol=1e-7)
    assert np.allclose(asyncio.run(embedding.aget_image_embedding_batch(digit_photos)), expected, atol=1e-7)
    assert np.allclose(embedding.get_query_embedding("a"), model.encode("a"), atol=1e-7)
    with pytest.raises(qkv.Error, match="two towers"):
        QkvMultiModalEmbedding(BERT)


def test_configurations_and_pickles_open_the_same_model():
    embedding = QkvEmbedding(BERT, load_options={"dtype": "int8"}, normalize=True, embed_batch_size=3)
    for again in (
        QkvEmbedding.from_dict(embedding.to_dict()),
        QkvEmbedding.from_json(embedding.to_json()),
        pickle.loads(pickle.dumps(embedding)),
    ):
        assert again.to_dict() == embedding.to_dict()
        assert again.get_query_embedding("a dog") == embedding.get_query_embedding("a dog")
    assert embedding.to_payload()["model_name"] == BERT
    with pytest.raises(qkv.Error, match="loaded already"):
        QkvEmbedding(qkv.load(BERT), load_options={"dtype": "int8"})


def test_an_index_finds_what_was_put_in(open_model):
    embedding = QkvEmbedding(open_model("tasks/bert"))
    documents = [Document(text=text) for text in ("attention", "a dog", "the house")]
    index = VectorStoreIndex.from_documents(documents, embed_model=embedding)
    assert index.as_retriever(similarity_top_k=1).retrieve("a dog")[0].text == "a dog"
    nodes = IngestionPipeline(transformations=[embedding]).run(documents=documents)
    assert [node.embedding for node in nodes] == embedding.get_text_embedding_batch([node.text for node in documents])
