"""encode, encode_query and similarity beside sentence-transformers, on a small model with prompts."""

import json
import os

import numpy as np
import pytest
from live import torch
from support import GOLDEN

import qkv

sentence_transformers = pytest.importorskip("sentence_transformers")
TEXTS = ["attention", "a dog", "The house", ""]


def folder_with(settings, folder):
    """The golden, with its pooling as sentence-transformers 6 wants it, and these settings."""
    for file in (GOLDEN / "tasks/bert").iterdir():
        if file.is_file():
            os.symlink(file, folder / file.name)
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(params=["cosine", "dot", "euclidean", "manhattan"])
def both(request, tmp_path):
    prompts = {"query": "the ", "document": "a "}
    folder_with({"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": request.param}, tmp_path)
    return qkv.load(tmp_path), sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")


def test_encode_and_similarity(both):
    ours, theirs = both
    for method, options in (
        ("encode", {}),
        ("encode", {"prompt_name": "query"}),
        ("encode", {"prompt": "house "}),
        ("encode", {"normalize_embeddings": True}),
        ("encode", {"batch_size": 1}),
        ("encode_query", {}),
        ("encode_document", {}),
    ):
        a, b = getattr(ours, method)(TEXTS, **options), getattr(theirs, method)(TEXTS, **options)
        assert a.dtype == b.dtype and a.shape == b.shape
        assert np.abs(a - b).max() <= 5e-6, (method, options)
    one = ours.encode("attention")
    assert one.shape == theirs.encode("attention").shape
    queries, documents = theirs.encode_query(TEXTS), theirs.encode_document(TEXTS)
    for a, b in ((queries, documents), (queries[0], documents), (torch.tensor(queries), torch.tensor(documents))):
        assert np.abs(ours.similarity(a, b) - theirs.similarity(a, b).numpy()).max() <= 1e-5
    assert ours.prompts == {"query": "the ", "document": "a "}


def test_a_prompt_that_is_unknown_is_refused_by_both(both):
    for model in both:
        with pytest.raises(ValueError, match="poem"):
            model.encode("a", prompt_name="poem")


def test_the_default_prompt_of_the_files_is_put_before(tmp_path):
    folder_with({"prompts": {"query": "the ", "document": ""}, "default_prompt_name": "query"}, tmp_path)
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    assert np.abs(qkv.load(tmp_path).encode("attention") - theirs.encode("attention")).max() <= 5e-6
