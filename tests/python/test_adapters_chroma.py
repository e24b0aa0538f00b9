"""qkv.chroma: texts and photos in a collection on disk, which opens with its model again."""

import numpy as np
import pytest
from support import GOLDEN, run_python

import qkv

chromadb = pytest.importorskip("chromadb")
from chromadb.utils.embedding_functions import config_to_embedding_function  # noqa: E402

from qkv.chroma import QkvEmbeddingFunction, QkvImageLoader  # noqa: E402

BERT, CLIP = str(GOLDEN / "tasks/bert"), str(GOLDEN / "towers/clip")


@pytest.fixture
def client(tmp_path):
    return chromadb.PersistentClient(str(tmp_path), chromadb.Settings(anonymized_telemetry=False))


def test_texts_with_the_prompts_of_the_files(prompted, client):
    function = QkvEmbeddingFunction(prompted)
    assert np.array_equal(function(["dog", "house"]), prompted.encode(["a dog", "a house"]))
    assert np.array_equal(function.embed_query(["dog"]), prompted.encode(["the dog"]))
    texts = client.create_collection("texts", embedding_function=QkvEmbeddingFunction(prompted, query_prompt="a "))
    texts.add(ids=["1", "2", "3"], documents=["attention", "dog", "house"])
    found = texts.query(query_texts=["dog", "attention"], n_results=1)
    assert found["ids"] == [["2"], ["1"]] and np.allclose(found["distances"], 0, atol=1e-6)


def test_a_collection_opens_with_its_model_again(client, tmp_path):
    function = QkvEmbeddingFunction(qkv.load(BERT, dtype="int8"), document_prompt="the ", normalize=True)
    client.create_collection("texts", embedding_function=function).add(ids=["1", "2"], documents=["dog", "house"])
    code = """
import sys, chromadb, qkv.chroma
client = chromadb.PersistentClient(sys.argv[1], chromadb.Settings(anonymized_telemetry=False))
texts = client.get_collection("texts")
print(texts.configuration["embedding_function"].get_config())
print(texts.query(query_texts=["the house"], n_results=1)["ids"])
"""
    done = run_python(code, tmp_path)
    assert done.stdout == f"{function.get_config()}\n[['2']]\n", done.stderr
    with pytest.raises(ValueError, match="normalize: cannot change"):
        function.validate_config_update(function.get_config(), {"normalize": False})
    with pytest.raises(qkv.Error, match="dtpye"):
        QkvEmbeddingFunction.validate_config({"model": BERT, "dtpye": "int8"})


def test_configurations_are_json():
    import json

    model = qkv.load(GOLDEN / "timm_vit", size=(24, 16), mean=[0.5] * 3, threads=1)
    function = QkvEmbeddingFunction(model, normalize=True)
    config = json.loads(json.dumps({"name": "qkv", "config": function.get_config()}))
    again = config_to_embedding_function(config)
    image = np.arange(24 * 16, dtype=np.uint8).reshape(24, 16)
    assert np.array_equal(again([image]), function([image]))
    assert again.default_space() == "cosine"


def test_photos_by_path_found_by_words_and_photos(client, digit_photos, open_model):
    function = QkvEmbeddingFunction(CLIP)
    photos = client.create_collection("photos", embedding_function=function, data_loader=QkvImageLoader())
    photos.add(ids=digit_photos, uris=digit_photos)
    rows = photos.get(ids=digit_photos, include=["embeddings"])["embeddings"]
    model = open_model("towers/clip")
    assert np.allclose(rows, model.embed(digit_photos, normalize=True), atol=1e-6)
    assert photos.query(query_uris=[digit_photos[3]], n_results=1)["ids"] == [[digit_photos[3]]]
    nearest = digit_photos[(rows @ model.encode("a")).argmax()]
    assert photos.query(query_texts=["a"], n_results=1)["ids"] == [[nearest]]
    image = np.zeros((20, 20, 3), dtype=np.uint8)
    assert len(photos.query(query_images=[image], n_results=2)["ids"][0]) == 2


def test_the_loader_reads_as_the_engine_does(tmp_path, digits):
    import PIL.Image

    noise = np.random.default_rng(0).integers(0, 256, (40, 30, 4), dtype=np.uint8)
    turned = PIL.Image.Exif()
    turned[0x0112] = 6
    PIL.Image.fromarray(noise[..., :3]).save(tmp_path / "turned.jpg", exif=turned)
    PIL.Image.fromarray(noise[..., :3]).quantize(16).save(tmp_path / "palette.png")
    PIL.Image.fromarray(noise[..., 0]).save(tmp_path / "grey.png")
    paths = qkv.find_images(tmp_path)
    read = QkvImageLoader()([*paths, None])
    assert len(paths) == 3 and read.pop() is None
    assert np.allclose(digits.embed(read), digits.embed(paths), atol=1e-5)
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(qkv.Error, match="bad.png"):
        QkvImageLoader()([str(tmp_path / "bad.png")])


def test_what_cannot_be_embedded(digits):
    image = np.zeros((20, 20, 3), dtype=np.uint8)
    with pytest.raises(qkv.Error, match="digits embeds no texts"):
        QkvEmbeddingFunction(digits)(["a"])
    with pytest.raises(qkv.Error, match="one kind"):
        QkvEmbeddingFunction(CLIP)(["a", image])
    with pytest.raises(TypeError, match="got one text"):
        QkvEmbeddingFunction(CLIP)("attention")
    with pytest.raises(TypeError, match="uint8"):
        QkvEmbeddingFunction(digits)([image.astype(np.float64)])
