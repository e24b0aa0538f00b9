"""qkv.langchain: LangChain's own tests of embeddings, prompts, images, stores."""

import pickle

import numpy as np
import pytest
from support import GOLDEN

import qkv

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402
from langchain_tests.integration_tests import EmbeddingsIntegrationTests  # noqa: E402
from langchain_tests.unit_tests import EmbeddingsUnitTests  # noqa: E402

from qkv.langchain import QkvEmbeddings  # noqa: E402

BERT, CLIP = str(GOLDEN / "tasks/bert"), str(GOLDEN / "towers/clip")


class TestUnit(EmbeddingsUnitTests):
    embeddings_class = QkvEmbeddings
    embedding_model_params = {"model": BERT}


class TestIntegration(EmbeddingsIntegrationTests):
    embeddings_class = QkvEmbeddings
    embedding_model_params = {"model": BERT}


def test_texts_with_the_prompts_of_the_files(prompted):
    embeddings = QkvEmbeddings(prompted)
    assert embeddings.embed_query("dog") == prompted.encode("the dog").tolist()
    assert embeddings.embed_documents(["dog", ""]) == prompted.encode(["a dog", "a "]).tolist()
    own = QkvEmbeddings(prompted, query_prompt="", document_prompt="house ", normalize=True)
    assert own.embed_query("dog") == prompted.encode("dog", normalize_embeddings=True).tolist()
    assert own.embed_documents(["dog"]) == prompted.encode(["house dog"], normalize_embeddings=True).tolist()
    assert embeddings.embed_documents([]) == []


def test_images_of_two_towers_and_of_one(digit_photos, open_model):
    embeddings = QkvEmbeddings(CLIP)
    rows = np.array(embeddings.embed_image(digit_photos))
    assert np.allclose(rows, open_model("towers/clip").embed(digit_photos, normalize=True), atol=1e-7)
    assert len(embeddings.embed_query("a photo")) == rows.shape[1]
    assert np.allclose(np.linalg.norm(rows, axis=1), 1) and np.isclose(np.linalg.norm(embeddings.embed_query("a")), 1)
    assert len(QkvEmbeddings("digits").embed_image(digit_photos)) == 20 and embeddings.embed_image([]) == []


def test_a_store_finds_what_was_put_in(open_model):
    store = InMemoryVectorStore(QkvEmbeddings(open_model("tasks/bert")))
    store.add_texts(["attention", "a dog", "the house"])
    assert [found.page_content for found in store.similarity_search("a dog", k=1)] == ["a dog"]


def test_a_store_of_images(digit_photos, tmp_path):
    langchain_chroma = pytest.importorskip("langchain_chroma")
    store = langchain_chroma.Chroma("photos", QkvEmbeddings("digits"), persist_directory=str(tmp_path))
    store.add_images(digit_photos, ids=digit_photos)
    (found,) = store.similarity_search_by_image(digit_photos[7], k=1)
    assert found.id == digit_photos[7]


def test_what_the_model_cannot_do(digits, open_model):
    with pytest.raises(qkv.Error, match="digits embeds no texts"):
        QkvEmbeddings(digits).embed_query("a")
    with pytest.raises(qkv.Error, match="embeds no images"):
        QkvEmbeddings(BERT).embed_image(["a.png"])
    with pytest.raises(qkv.Error, match="neither texts nor images"):
        QkvEmbeddings(open_model("tasks/gpt2"))
    with pytest.raises(TypeError, match="list of texts"):
        QkvEmbeddings(BERT).embed_documents("attention")
    with pytest.raises(TypeError, match="expected a text"):
        QkvEmbeddings(BERT).embed_query(["attention"])


def test_pickles(open_model):
    embeddings = QkvEmbeddings(open_model("tasks/bert"), normalize=True)
    assert pickle.loads(pickle.dumps(embeddings)).embed_query("a dog") == embeddings.embed_query("a dog")
