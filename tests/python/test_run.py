"""Activations of a pass by name: against the originals, against each other, and changed."""

import shutil
import warnings

import numpy as np
import pytest
from support import GOLDEN, ROOT, assert_as_exact, expected, goldens_in, outputs_of, read_safetensors, with_numbered_tokenizer

import qkv

IMAGES = goldens_in(GOLDEN)
TEXTS = goldens_in(GOLDEN / "text")
CAPTIONS = goldens_in(GOLDEN / "caption")


def name_in_run(output, names):
    """The name of an original's output, "attention.2" or "hidden.1", among activations; None if it is an output here too."""
    part, _, number = output.rpartition(".")
    if not number.isdigit():
        return None
    of, _, kind = part.rpartition("_") if part.startswith("encoder_") else ("", "", part)
    pair = any(name.startswith("decoder.") for name in names)
    prefix = "encoder." if of else "decoder." if pair else ""
    if kind == "hidden":
        last = f"{prefix}blocks.{number}.resid_pre" not in names
        return f"{prefix}blocks.{int(number) - 1}.resid_post" if last else f"{prefix}blocks.{number}.resid_pre"
    return f"{prefix}blocks.{number}.{'cross' if kind == 'cross_attention' else 'attn'}.weights"


def without_tokenizer(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qkv.ModelWarning)
        return qkv.load(GOLDEN / name)


def assert_all_as_original(model, stored, inputs):
    run = model.run(inputs, cache="*")
    names = model.activations
    assert [name for name in run if name in names] == names
    compared = 0
    for output in outputs_of(stored):
        name = name_in_run(output, names)
        if name is None and output not in run:
            continue
        ours = run[name or output]
        waits = ours.ndim > 2 and "eomt" in model.path and ours.shape != stored[output].shape
        if waits:  # queries that enter later are not in the activations of the blocks before
            continue
        shown = inputs.get("attention_mask")
        if shown is not None and output != "pooled" and ("decoder_input_ids" not in inputs or output.startswith("encoder_")):
            ours = np.where(shown.astype(bool).reshape(len(shown), *[1] * (ours.ndim - 3), -1, 1), ours, 0)
        assert_as_exact(ours, stored, output)
        compared += 1
    return compared


@pytest.mark.parametrize("name", IMAGES)
def test_images_have_the_activations_of_the_original(name):
    stored = expected(name)
    assert assert_all_as_original(without_tokenizer(name), stored, {"pixels": stored["pixels"]}) >= 3


@pytest.mark.parametrize("name", TEXTS)
def test_texts_have_the_activations_of_the_original(name):
    stored = expected(f"text/{name}")
    keys = ("input_ids", "attention_mask", "token_type_ids", "decoder_input_ids")
    model = without_tokenizer(f"text/{name}")
    assert assert_all_as_original(model, stored, {key: stored[key] for key in keys if key in stored}) >= 3


@pytest.mark.parametrize("name", CAPTIONS)
def test_captions_have_the_activations_of_the_original(name, tmp_path):
    stored = expected(f"caption/{name}")
    model = qkv.load(with_numbered_tokenizer(f"caption/{name}", tmp_path))
    inputs = {"pixels": stored["pixels"], "decoder_input_ids": stored["decoder_input_ids"]}
    assert assert_all_as_original(model, stored, inputs) >= 3


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def test_each_activation_follows_from_those_before():
    folder = ROOT / "models/digits-shared"
    weights = {k: v.astype(np.float64) for k, v in read_safetensors(folder / "model.safetensors").items()}
    model = qkv.load(folder)
    run = model.run(str(ROOT / "examples/digits/7-black.png"), cache="*")

    def norm(x, name):
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def heads(x):
        return x.reshape(*x.shape[:-1], 4, 24).swapaxes(1, 2)

    def close(name, wanted):
        np.testing.assert_allclose(run[name], wanted, atol=2e-5 * np.abs(wanted).max(), err_msg=name)

    close("blocks.0.resid_pre", run["embed"])
    for i in range(4):
        at = f"blocks.{i}"
        a = {name.removeprefix(at + "."): run[name].astype(np.float64) for name in run if name.startswith(at + ".")}
        close(f"{at}.norm1", norm(a["resid_pre"], f"{at}.norm1"))
        close(f"{at}.attn.q", heads(linear(a["norm1"], f"{at}.attn.qk")))
        assert np.array_equal(run[f"{at}.attn.q"], run[f"{at}.attn.k"])
        close(f"{at}.attn.v", heads(linear(a["norm1"], f"{at}.attn.v")))
        close(f"{at}.attn.scores", a["attn.q"] @ a["attn.k"].swapaxes(2, 3) / np.sqrt(24))
        close(f"{at}.attn.weights", softmax(a["attn.scores"]))
        close(f"{at}.attn.heads", a["attn.weights"] @ a["attn.v"])
        joined = a["attn.heads"].swapaxes(1, 2).reshape(a["norm1"].shape)
        close(f"{at}.attn.out", linear(joined, f"{at}.attn.proj"))
        close(f"{at}.resid_mid", a["resid_pre"] + a["attn.out"])
        close(f"{at}.norm2", norm(a["resid_mid"], f"{at}.norm2"))
        close(f"{at}.mlp.out", linear(a["mlp.hidden"], f"{at}.mlp.fc2"))
        close(f"{at}.resid_post", a["resid_mid"] + a["mlp.out"])
    close("norm", norm(run["blocks.3.resid_post"].astype(np.float64), "norm"))
    close("logits", linear(run["norm"][:, 0].astype(np.float64), "head"))


@pytest.fixture(scope="module")
def photos():
    return [str(ROOT / f"examples/digits/{digit}-black.png") for digit in (3, 7)]


def test_keeping_changes_nothing(digits, photos):
    plain = digits.run(photos)
    assert list(plain) == ["logits", "tokens"] and "logits [2, 10]" in repr(plain)
    np.testing.assert_allclose(digits.run(photos, cache="*").logits, plain.logits, atol=1e-4)
    np.testing.assert_allclose(plain.logits, digits.forward(digits.preprocess(photos))["logits"], atol=1e-4)
    with pytest.raises(KeyError, match="cache="):
        plain["blocks.0.attn.q"]


@pytest.mark.parametrize("name", ["embed", "blocks.1.norm1", "blocks.1.attn.q", "blocks.2.attn.scores", "blocks.1.attn.weights",
                                  "blocks.0.attn.heads", "blocks.2.attn.out", "blocks.1.resid_mid", "blocks.1.mlp.hidden",
                                  "blocks.1.mlp.out", "blocks.3.resid_post", "norm"])
def test_an_edit_is_what_the_pass_goes_on_with(digits, photos, name):
    """What was kept of a pass, put into another, has the same effect as the pass itself; the other's own has none."""
    three, seven = (digits.run(photo, cache=name) for photo in photos)
    same = digits.run(photos[1], edits={name: seven[name]})
    np.testing.assert_allclose(same.logits, seven.logits, atol=1e-4)
    other = digits.run(photos[1], cache=name, edits={name: lambda activation, at: three[at]})
    assert np.abs(other.logits - seven.logits).max() > 1e-3
    assert np.array_equal(other[name], three[name])
    if name in ("embed", "blocks.3.resid_post", "norm"):  # all that follows comes from it
        np.testing.assert_allclose(other.logits, three.logits, atol=1e-4)


def test_heads_are_named_one_by_one(digits, photos):
    run = digits.run(photos, cache="blocks.*.attn.heads", edits={"blocks.2.attn.heads.1": 0, "blocks.*.attn.v.3": 0.0})
    assert not run["blocks.2.attn.heads"][:, 1].any() and run["blocks.2.attn.heads"][:, 0].any()
    assert not run["blocks.0.attn.heads"][:, 3].any()
    with pytest.raises(qkv.Error, match="heads 0 to 3, not 4"):
        digits.run(photos, edits={"blocks.2.attn.heads.4": 0})


def test_edits_of_the_explorer(digits, photos):
    plain = digits.run(photos, cache="*.scores")
    query, key = qkv.edits.gauge(seed=3)
    gauged = digits.run(photos, cache="*.q", edits={"*.attn.q": query, "*.attn.k": key})
    np.testing.assert_allclose(gauged.logits, plain.logits, atol=1e-3)
    half = digits.run(photos, cache="*.scores", edits={"blocks.0.attn.scores": qkv.edits.symmetry(0)})
    scores = plain["blocks.0.attn.scores"]
    np.testing.assert_allclose(half["blocks.0.attn.scores"], (scores + scores.swapaxes(2, 3)) / 2, atol=1e-5)
    full = digits.run(photos, edits={"*.scores": qkv.edits.rank(50)})
    np.testing.assert_allclose(full.logits, plain.logits, atol=1e-3)
    low = digits.run(photos, cache="*.scores", edits={"*.scores": qkv.edits.rank(2)})
    assert np.linalg.matrix_rank(low["blocks.1.attn.scores"][0, 0], tol=1e-3) <= 2
    hidden = digits.run(photos, cache="*.weights", edits={"*.scores": qkv.edits.hide(5, 6)})
    weights = hidden["blocks.3.attn.weights"]
    assert not weights[..., [0, 1, 7], 5].any() and weights[..., 5, 5].all()


def test_a_shared_model_has_symmetric_scores(photos):
    model = qkv.load(ROOT / "models/digits-shared")
    plain = model.run(photos)
    symmetric = model.run(photos, edits={"*.scores": qkv.edits.symmetry(0)})
    np.testing.assert_allclose(symmetric.logits, plain.logits, atol=1e-4)


def test_edits_know_which_scores_they_are_for():
    model = without_tokenizer("text/marian")
    ids = np.array([[5, 6, 7, 8]])
    inputs = {"input_ids": ids, "decoder_input_ids": ids}
    same = model.run(inputs, edits={"encoder.*.scores": qkv.edits.symmetry(1)})
    np.testing.assert_allclose(same.logits, model.run(inputs).logits, atol=1e-4)
    hidden = model.run(inputs, cache="*.cross.weights", edits={"*.cross.scores": qkv.edits.hide(2)})
    assert not hidden["decoder.blocks.0.cross.weights"][..., 2].any()  # token 2 of the target neither
    with pytest.raises(qkv.Error, match="only scores of tokens with each other"):
        model.run(inputs, edits={"*.cross.scores": qkv.edits.symmetry(0)})
    with pytest.raises(qkv.Error, match="no symmetric part"):  # causal
        model.run(inputs, edits={"decoder.*.attn.scores": qkv.edits.symmetry(1)})
    with pytest.raises(qkv.Error, match="no symmetric part"):
        padded = {**inputs, "attention_mask": np.array([[1, 1, 1, 0]])}
        model.run(padded, edits={"encoder.*.scores": qkv.edits.symmetry(1)})


def test_two_maps_have_queries_and_keys_of_their_own():
    model, stored = without_tokenizer("timm_differential"), expected("timm_differential")
    plain = model.run(stored["pixels"], cache="blocks.0.*")
    q, k, scores = (plain[f"blocks.0.attn.{name}"] for name in ("q", "k", "scores"))
    assert q.shape[1] == k.shape[1] == scores.shape[1] == 2 * plain["blocks.0.attn.weights"].shape[1]
    np.testing.assert_allclose(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]), scores, atol=1e-5)
    query, key = qkv.edits.gauge()
    gauged = model.run(stored["pixels"], cache="*.scores", edits={"*.q": query, "*.k": key})
    np.testing.assert_allclose(gauged["blocks.0.attn.scores"], scores, atol=1e-4)
    np.testing.assert_allclose(gauged.logits, plain.logits, atol=1e-3)


@pytest.mark.parametrize("make,name", [(lambda: qkv.edits.hide(1), "blocks.1.attn.weights"),
                                       (lambda: qkv.edits.symmetry(0), "blocks.1.attn.weights"),
                                       (lambda: qkv.edits.rank(1), "blocks.1.attn.heads.2"),
                                       (lambda: qkv.edits.gauge()[0], "blocks.1.attn.scores"),
                                       (lambda: qkv.edits.gauge()[1], "blocks.1.attn.q")])
def test_edits_say_what_they_are_for(make, name, digits, photos):
    with pytest.raises(qkv.Error, match=f"is for .*, not for {name}"):
        digits.run(photos, edits={name: make()})


@pytest.mark.parametrize("make", [lambda: qkv.edits.hide([1, 2]), lambda: qkv.edits.hide("1"), lambda: qkv.edits.symmetry("a"),
                                  lambda: qkv.edits.rank("3"), lambda: qkv.edits.gauge("a"), lambda: qkv.edits.gauge(1, 0.5)])
def test_edits_are_made_of_numbers(make):
    with pytest.raises(TypeError, match="expected a (whole )?number, got"):
        make()


def test_the_files_are_those_that_were_loaded(tmp_path, monkeypatch):
    for folder, name in (("here", "digits-shared"), ("there", "digits-merged")):
        shutil.copytree(ROOT / "models" / name, tmp_path / folder / "model")
    monkeypatch.chdir(tmp_path / "here")
    model = qkv.load("model")
    monkeypatch.chdir(tmp_path / "there")
    pixels = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    np.testing.assert_allclose(model.run(pixels).logits, model.forward(pixels)["logits"], atol=1e-4)


@pytest.mark.parametrize("work", ["run", "explore"])
def test_a_model_without_files_says_so(work, tmp_path, photos):
    shutil.copytree(ROOT / "models/digits-shared", tmp_path / "model")
    model = qkv.load(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(qkv.Error, match=f"^{work}: .*has no files any more: save it"):
        getattr(model, work)(photos[0])


def test_files_that_changed_are_not_read(tmp_path, photos):
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "models/digits-shared", folder)
    model = qkv.load(folder)
    (folder / "notes.md").write_text("a note", encoding="utf-8")
    model.run(photos)
    again = qkv.load(folder)
    shutil.copyfile(ROOT / "models/digits-merged/model.safetensors", folder / "model.safetensors")
    for work in (lambda: again.run(photos), lambda: again.explore(photos[0]), lambda: qkv.qk.weights(again, 0)):
        with pytest.raises(qkv.Error, match="model.safetensors has changed since the model was loaded: load it again"):
            work()
    assert np.isfinite(model.run(photos).logits).all()  # it has read them


def test_what_would_be_left_unread_is_refused(digits, photos):
    pixels = {"pixels": digits.preprocess(photos)}
    with pytest.raises(TypeError, match="encoder-decoder of texts"):
        digits.run(photos, target="seven")
    with pytest.raises(TypeError, match="beside a dict"):
        digits.run(pixels, decoder_input_ids=[[1]])
    with pytest.raises(TypeError, match="give one of them"):
        digits.run(photos, target="seven", decoder_input_ids=[[1]])
    with pytest.raises(TypeError, match="None changes nothing"):
        digits.run(photos, edits={"norm": None})
    with pytest.raises(qkv.Error, match="at least 0, got -1"):
        qkv.edits.rank(-1)
    for wrong in (lambda: qkv.edits.symmetry("half"), lambda: qkv.edits.symmetry(float("nan")), lambda: qkv.edits.hide(0.5),
                  lambda: qkv.edits.gauge(seed=-1), lambda: qkv.edits.gauge(None), lambda: qkv.edits.rank(2.5)):  # fmt: skip
        with pytest.raises((qkv.Error, TypeError), match="expected a"):
            wrong()
    with pytest.raises(TypeError, match="cache: expected names"):
        digits.run(photos, cache=True)


def test_errors_say_what_there_is(digits, photos):
    with pytest.raises(qkv.Error, match=r"blocks\.1\.attn\.score;.*near: .*blocks\.1\.attn\.scores"):
        digits.run(photos, cache="blocks.1.attn.score")
    with pytest.raises(qkv.Error, match="an array that fits"):
        digits.run(photos, edits={"norm": np.zeros((3, 4, 5))})
    with pytest.raises(qkv.Error, match="an array that fits"):
        digits.run(photos, edits={"norm": lambda activation, name: "no"})
    with pytest.raises(TypeError, match="texts"):
        digits.run(photos, cache=[3])
    assert list(digits.run(photos, cache=None)) == ["logits", "tokens"]
    for no_number in ("0", 1 + 2j, "x", [None]):
        with pytest.raises(qkv.Error, match="blocks.1.norm1: an edit is a number"):
            digits.run(photos, edits={"blocks.1.norm1": no_number})
    with pytest.raises(ZeroDivisionError):
        digits.run(photos, edits={"norm": lambda activation, name: 1 / 0})
    with pytest.raises(qkv.Error, match="tokens 0 to 49"):
        digits.run(photos, edits={"*.scores": qkv.edits.hide(50)})


@pytest.mark.parametrize("data", ["task:copy", "text"])
def test_sequences_are_run_by_their_ids(data, tmp_path, digits):
    if data == "text":
        (tmp_path / "text.txt").write_text("a text of some words, again and again\n" * 40, encoding="utf-8")
        data = tmp_path / "text.txt"
    model = qkv.train(data, out=tmp_path / "run", steps=2, batch=4, depth=2, width=32, heads=2, threads=1, progress=False).model()
    writes = data != "task:copy"
    assert model.abilities == ["generate"] * writes + ["forward", "run"]
    ids = np.array([[1, 2, 3, 4], [4, 3, 2, 1]])
    run = model.run(ids, cache="*")
    assert [name for name in run if name in model.activations] == model.activations
    forward = model.forward(input_ids=ids, outputs=["logits", "tokens", "attention.1"])
    for name, array in forward.items():
        np.testing.assert_allclose(run["blocks.1.attn.weights" if name == "attention.1" else name], array, atol=1e-5)
    edited = model.run(ids, edits={"blocks.*.*.out": 0}, cache="blocks.1.resid_post")
    np.testing.assert_allclose(edited["blocks.1.resid_post"], run["embed"], atol=1e-6)
    with pytest.raises(qkv.Error, match="reads ids"):
        model.run("text")
    with pytest.raises(qkv.Error, match="\"attention_mask\" is there"):
        model.forward(input_ids=ids, attention_mask=np.ones_like(ids))
    with pytest.raises(qkv.Error, match=r"its methods are (generate, )?forward, run"):
        model.attend("text")


def test_a_change_may_call_qkv(digits, photos):
    def change(activation, name):
        digits.classify(photos[0])
        return qkv.attention(activation[:, None], activation[:, None], activation[:, None])[:, 0]

    assert np.isfinite(digits.run(photos, edits={"norm": change}).logits).all()


def test_a_text_is_run_by_its_words():
    model = qkv.load(ROOT / "models/english-italian")
    run = model.run("Package to read files", cache=["encoder.blocks.0.attn.weights", "decoder.blocks.*.cross.weights"])
    source, target = run.inputs["input_ids"].shape[1], run.inputs["decoder_input_ids"].shape[1]
    assert run["encoder.blocks.0.attn.weights"].shape[2:] == (source, source)
    assert run["decoder.blocks.0.cross.weights"].shape[2:] == (target, source)
    attention = model.attend("Package to read files", part="cross", layers=0, heads="all")
    np.testing.assert_allclose(run["decoder.blocks.0.cross.weights"][0], attention.weights[0], atol=1e-5)
    with pytest.raises(qkv.Error, match="decoder_input_ids"):
        model.run(["one", "two"])
