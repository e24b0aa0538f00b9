"""What a user writes, for type checkers: test_types.py has mypy read it, and nothing runs it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy
from numpy.typing import NDArray

import qkv

Floats = NDArray[numpy.float32]


def look(model: qkv.Model, photo: bytes, pixels: NDArray[numpy.uint8]) -> None:
    assert_type(model.abilities, list[str])
    assert_type(model.classify("cat.jpg", top=3), qkv.Classification)
    assert_type(model.classify(photo, prompts=["a cat", "a dog"]), qkv.Classification)
    assert_type(model.classify(["cat.jpg", Path("dog.jpg"), pixels], on_error="skip"), list[qkv.Classification])
    for prediction in model.classify(photo):
        assert_type(prediction, qkv.Prediction)
        assert_type(prediction.score, float)
    assert_type(model.embed("photos/", normalize=True, batch_size=16, progress=False), Floats)
    for path, vector in model.iter_embed(Path("photos")):
        assert_type(path, str)
        assert_type(vector, Floats)
    assert_type(model.detect(pixels, threshold=0.3)[0].box, tuple[float, float, float, float])
    assert_type(model.detect([pixels], draw=True), list[qkv.Detections])
    found = model.segment(photo, task="panoptic")
    assert_type(found, qkv.Segmentation)
    assert_type(found.mask(found[0]), NDArray[numpy.bool_])
    assert_type(model.segment([photo]), list[qkv.Segmentation])
    assert_type(model.caption(photo, max_new_tokens=20, num_beams=3), qkv.Caption)
    assert_type(model.caption([photo]), list[qkv.Caption])
    assert_type(model.forward(model.preprocess(photo), outputs=["logits"]), dict[str, Floats])
    attention = model.attend(pixels, layers="all", query=(3, 4))
    assert_type(attention, qkv.ImageAttention)
    assert_type(attention.maps, Floats)
    attention.image(opacity=0.5).save("map.png")
    model.attend("cat.jpg").save("map.html")


def read(model: qkv.Model) -> None:
    assert_type(model.encode("a"), Floats)
    assert_type(model.encode_query(["a", "b"], normalize_embeddings=True, show_progress_bar=False), Floats)
    assert_type(model.similarity(model.encode("a"), model.encode(["b"])), Floats)
    assert_type(model.tokenize(["a", "b"]), list[list[int]])
    assert_type(model.decode([1, 2]), str)
    assert_type(model.generate("Once", max_new_tokens=5, stop=["\n"]), qkv.Text)
    assert_type(model.generate("Once", stream=True), Iterator[str])
    assert_type(model.chat([{"role": "user", "content": "Hello"}], temperature=0.5), qkv.Text)
    assert_type(model.translate("Hallo"), qkv.Text)
    assert_type(model.translate(["Hallo"], cut=True, num_beams=2), list[qkv.Text])
    assert_type(model.summarize("Long"), qkv.Text)


def compute(q: Floats, k: Floats, v: Floats) -> None:
    assert_type(qkv.attention(q, k, v, is_causal=True), Floats)
    assert_type(qkv.attention(q, k, v, softcap=30.0, return_weights=True), tuple[Floats, Floats])
    assert_type(qkv.attention(q, k, v, return_weights=True, return_lse=True), tuple[Floats, Floats, Floats])


def take_apart(model: qkv.Model, photo: bytes) -> None:
    run = model.run(photo, cache="blocks.*.attn.scores", edits={"blocks.0.attn.heads.0": 0, "blocks.1.mlp.out": half})
    assert_type(run, qkv.Run)
    assert_type(model.explore(photo), qkv.Exploration)
    assert_type(qkv.train("photos", out="run"), qkv.TrainingRun)
    columns: tuple[Iterable[str], Iterable[Any]] = (["cat.jpg"], {"cat": 1})
    assert_type(qkv.train(columns, validation=(numpy.zeros((1, 8, 8), numpy.uint8), [0]), out="run"), qkv.TrainingRun)
    assert_type(qkv.pipeline("image-classification", model, top_k=3), qkv.Pipeline)


def half(x: NDArray[Any], name: str) -> NDArray[Any]:
    return x / 2


def opened() -> qkv.Model:
    try:
        return qkv.load(Path("model"), dtype="int8", threads=4, cache=True, size=(224, 224), mean=[0.5], std=[0.5])
    except qkv.Error as error:
        raise SystemExit(str(error)) from None


def wrong(model: qkv.Model, photo: bytes) -> None:
    # Each line has an error that a checker finds; mypy reports an ignore that nothing needs.
    model.classify(photo, tpo=3)  # type: ignore[call-overload]
    model.classify(photo, on_error="ignore")  # type: ignore[call-overload]
    model.embed(5)  # type: ignore[arg-type]
    model.encode("a", normalise=True)  # type: ignore[call-arg]
    model.generate("a", max_new_token=3)  # type: ignore[call-overload]
    qkv.load("digits", threads="two")  # type: ignore[arg-type]
    qkv.attention(photo, photo, photo, casual=True)  # type: ignore[call-overload]
