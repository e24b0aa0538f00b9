"""qkv.qk on models: against the models' own passes, NumPy, and the program's `qkv qk`."""

import json
import subprocess
import sys

import numpy as np
import pytest
from support import GOLDEN, environment

import qkv
from qkv import qk


def command(*arguments):
    """The JSON Lines that `qkv qk …` prints."""
    program = [sys.executable, "-m", "qkv", "qk", *map(str, arguments)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100, env=environment())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def path_of(name):
    return name if name.startswith("digits") else GOLDEN / name


def pixels_for(model):
    shape = 2, model.info["channels"], *model.info["image_size"]
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


IMAGES = ["digits", "digits-shared", "digits-merged", "hf_vit", "timm_dinov2", "timm_kind_low_rank"]


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("fold", [False, True])
def test_weights_give_the_model_s_attention(name, fold, open_model):
    model = open_model(name)
    pixels, block = pixels_for(model), model.info["depth"] - 1
    out = model.forward(pixels, outputs=[f"hidden.{block}", f"attention.{block}"])
    weights = qk.weights(model, block, fold=fold)
    x = out[f"hidden.{block}"].astype(np.float64)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + weights.eps)
    if not fold:
        x = x * weights.gamma + weights.beta
    assert weights.norm == "layer_norm" and weights.folded == fold and not weights.obstacles
    np.testing.assert_allclose(softmax(weights.scores(x)), out[f"attention.{block}"], atol=2e-5)
    merged = qk.merge(weights)
    np.testing.assert_allclose(softmax(merged.scores(x)), out[f"attention.{block}"], atol=2e-5)


@pytest.mark.parametrize("name", ["digits", "timm_kind_merged", "timm_beit", "text/bert", "text/gpt2", "text/llama"])
def test_spectra_are_the_program_s(name, open_model):
    path = path_of(name)
    (told,) = command("inspect", "--json", "--images", 0, *([] if name == "digits" else ["-m", path]))
    spectra = qk.spectra(path)
    shape = spectra.effective_rank.shape
    assert spectra.ov.rank_99.shape == shape and spectra.caveats == told["caveats"]
    for field in ("qk_effective_rank", "qk_rank", "qk_symmetry", "gauge_excess"):
        of = field.removeprefix("qk_")
        if field in told["heads"][0]:
            theirs = np.array([head[field] for head in told["heads"]], dtype=float).reshape(shape)
            ours = getattr(spectra, of)
            assert np.all(np.isnan(theirs)) if ours is None else np.array_equal(ours, theirs, equal_nan=True), field
    block, head = shape[0] - 1, shape[1] - 1
    last = told["heads"][-1]
    np.testing.assert_array_equal(spectra.singular_values[block, head], last["qk_singular_values"])
    np.testing.assert_array_equal(spectra.eigenvalues[block, head], [complex(*z) for z in last["qk_eigenvalues"]])
    of_block = qk.spectra(qk.weights(path, block, fold=True))
    np.testing.assert_array_equal(of_block.singular_values, spectra.singular_values[block])
    assert spectra._repr_svg_().startswith("<svg") and str(path) in repr(spectra)


def test_parts_of_a_translator(tmp_path):
    path = GOLDEN / "text/marian"
    with pytest.raises(qkv.Error, match='"encoder", "decoder", "cross", got None'):
        qk.spectra(path)
    cross = qk.spectra(path, part="cross")
    assert cross.eigenvalues is None and np.all(np.isnan(cross.symmetry))
    assert qk.spectra(path, part="encoder").eigenvalues is not None
    with pytest.raises(qkv.Error, match='weights: part: .* has "encoder", "decoder", "cross", got none'):
        qk.weights(path, 0)
    weights = qk.weights(path, 0, part="cross", fold=True)
    assert weights.cross and "cross block 0" in repr(weights)
    np.testing.assert_array_equal(qk.spectra(weights).singular_values, cross.singular_values[0])
    assert qk.spectra(weights).eigenvalues is qk.spectra(qk.merge(weights)).eigenvalues is None
    for ending in ("csv", "json", "html"):
        cross.save(tmp_path / f"heads.{ending}")
    assert len((tmp_path / "heads.csv").read_text().splitlines()) > 1
    assert json.loads((tmp_path / "heads.json").read_text())["parts"]
    with pytest.raises(qkv.Error, match="expected .csv, .json or .html"):
        cross.save(tmp_path / "heads.txt")


def test_shared_keys_are_repeated():
    weights = qk.weights(GOLDEN / "text/llama", 0)
    width = weights.width
    assert weights.heads > weights.shared_keys and weights.norm == "rms_norm"
    np.testing.assert_array_equal(weights.w_k[:width], weights.w_k[width : 2 * width])


@pytest.mark.parametrize("name", ["digits", "timm_eva_qk_norm", "text/llama", "text/t5"])
def test_certificates_are_the_program_s(name):
    path = path_of(name)
    model = [] if name == "digits" else ["-m", path]
    ours = qk.certificate(path, traits="sink,rope=2")
    assert list(ours) == command("certify", "--json", "--with", "sink,rope=2", *model)
    plain = qk.certificate(path, rank=2)
    assert {one["rank"] for one in plain.select(rewriting="truncate")} == {2}
    assert "<table" in plain._repr_html_() and "merge with u" in repr(plain)


def test_what_stands_between_the_projections_is_an_error():
    for name, why in [("text/llama", "RoPE"), ("timm_eva_qk_norm", "QK-norm")]:
        weights = qk.weights(GOLDEN / name, 0)
        assert why in weights.obstacles and why in repr(weights)
        x = np.ones((2, weights.w_q.shape[1]))
        for work in (qk.merge, qk.regauge, lambda w: qk.truncate(w, rank=1), lambda w: w.scores(x)):
            with pytest.raises(qkv.Error, match=f"{why}.* between W_Q, W_K and their product"):
                work(weights)
        with pytest.raises(qkv.Error, match=why):
            qk.merge(weights.head(1))
        spectra = qk.spectra(weights)  # as the program has them, with the caveat
        assert why in spectra.caveats[0] and why in repr(spectra) and why in repr(qk.directions(weights))
    with pytest.raises(qkv.Error, match="rotates queries and keys|norm"):
        qk.merge_model(GOLDEN / "timm_eva02", "never")
    with pytest.raises(qkv.Error, match="QK-norm"):
        qk.truncate_model(GOLDEN / "timm_qk_norm", "never", rank=2)
    with pytest.raises(qkv.Error, match="qk_merge_model|merge_model: .*text"):
        qk.merge_model(GOLDEN / "text/bert", "never")


@pytest.mark.parametrize("name", ["timm_beit", "text/t5_encoder"])
def test_biases_beside_the_scores_are_told(name):
    weights = qk.weights(GOLDEN / name, 0)
    assert weights.relative_bias and "relative position" in repr(weights)
    assert "relative position" in qk.spectra(qk.merge(weights)).caveats[0]


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_written_models_are_the_program_s(tmp_path, digit_photos):
    command("merge", "-o", tmp_path / "a", "--dtype", "fp32")
    merged = qk.merge_model("digits", tmp_path / "b", dtype="float32")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert merged.dtype == "float32" and merged.after["parameters"] > merged.before["parameters"]
    assert any("merging does not pay here" in note for note in merged.notes)
    command("split", "-m", merged.path, "-o", tmp_path / "c")
    qk.split_model(merged, tmp_path / "d")
    assert files(tmp_path / "c") == files(tmp_path / "d")
    folder = str(next(iter({photo.rsplit("/", 1)[0] for photo in digit_photos})))
    command("truncate", "--rank", 5, "-o", tmp_path / "e", "--data-optimal", folder, "--sample", 2)
    truncated = qk.truncate_model("digits", tmp_path / "f", rank=5, images=folder, sample=2)
    assert files(tmp_path / "e") == files(tmp_path / "f")
    assert any("few to calibrate on" in note for note in truncated.notes)
    command("truncate", "--rank", 5, "-o", tmp_path / "g")
    qk.truncate_model("digits", tmp_path / "h", rank=5)
    assert files(tmp_path / "g") == files(tmp_path / "h") != files(tmp_path / "f")


@pytest.mark.parametrize("name", ["hf_vit", "timm_vit", "timm_beit", "timm_kind_low_rank", "hf_dinov2", "timm_clip"])
@pytest.mark.parametrize("gauge", ["balanced", "orthonormal_keys", "identity_block"])
def test_another_gauge_answers_the_same(name, gauge, open_model, tmp_path):
    model = open_model(name)
    pixels = pixels_for(model)
    written = qk.regauge_model(model, tmp_path / "out", gauge=gauge, dtype="float32")
    other = qkv.load(written)
    assert written.after["parameters"] == written.before["parameters"]
    expected, ours = model.forward(pixels), other.forward(pixels)
    for output, array in expected.items():
        np.testing.assert_allclose(ours[output], array, atol=2e-4 * max(1, np.abs(array).max()))
    before, after = qk.weights(model, 0), qk.weights(other, 0)
    np.testing.assert_allclose(qk.merge(after).m, qk.merge(before).m, atol=1e-5 * np.abs(before.w_q).max())
    assert np.abs(after.w_q - before.w_q).max() > 1e-3
    np.testing.assert_array_equal(after.w_v, before.w_v)
    if gauge == "balanced":
        side = after.head(0)
        np.testing.assert_allclose(side.w_q @ side.w_q.T, side.w_k @ side.w_k.T, atol=1e-5)


def test_plans_are_the_program_s():
    ours = qk.plan_model("digits")
    assert "Block 3, scores: Merging does not pay" in repr(ours)
    assert ours["blocks"] == command("plan", "--json")
    shape = qk.plan(width=768, heads=12, queries=1, predict=True)
    assert all(one["predicted_ms"] > 0 for one in shape["orders"]) and shape["cheapest"] == "absorbed"
    assert "Absorbing pays below 51.5 rows" in repr(shape) and "<table" in shape._repr_html_()
    assert "predicted_ms" not in qk.plan(width=768)["orders"][0]
    assert "Merging pays" in qk.plan(width=3000, head_width=4000, tokens=2000, read="scores")["merging"]


def test_arguments_that_do_not_fit_say_so(tmp_path):
    with pytest.raises(qkv.Error, match="weights: an empty path"):
        qk.weights("", 0)
    with pytest.raises(TypeError, match="select: there is no rewritng=; did you mean rewriting=?"):
        qk.certificate("digits").select(rewritng="merge with u")
    with pytest.raises(TypeError, match="weights: there is no zzzz="):
        qk.weights("digits", 0, zzzz=1)
    with pytest.raises(TypeError, match="certificate: there is no architectur=; did you mean architecture=?"):
        qk.certificate("digits", architectur="x")
    with pytest.raises(TypeError, match=r"qk\.weights\(model, block\)"):
        qk.merge("digits")
    with pytest.raises(TypeError, match=r"qk\.weights\(model, block\)"):
        qk.directions(qkv.load("digits"))
    with pytest.raises(qkv.Error, match="block"):
        qk.weights("digits", 99)
    with pytest.raises(qkv.Error, match="part: an image model has one"):
        qk.weights("digits", 0, part="encoder")
    with pytest.raises(qkv.Error, match="spectra: part: digits has none"):
        qk.spectra("digits", part="encoder")
    with pytest.raises(TypeError, match="of a model expected no weights"):
        qk.spectra("digits", heads=4)
    with pytest.raises(qkv.Error, match="rank: queries and keys have 24 features, got 25"):
        qk.certificate("digits", rank=25)
    with pytest.raises(qkv.Error, match=r"expected some of rope\[=N\]"):
        qk.certificate("digits", traits="nice")
    with pytest.raises(qkv.Error, match="dtype: expected float32, float16 or bfloat16"):
        qk.merge_model("digits", tmp_path / "out", dtype="int8")
    with pytest.raises(qkv.Error, match="from 1 to 24, got 25"):
        qk.truncate_model("digits", tmp_path / "out", rank=25)
    with pytest.raises(qkv.Error, match="not merged"):
        qk.split_model("digits", tmp_path / "out")
    with pytest.raises(qkv.Error, match="W_Q and W_K of their own"):
        qk.regauge_model("digits-shared", tmp_path / "out")
    with pytest.raises(qkv.Error, match="expected balanced"):
        qk.regauge_model("digits", tmp_path / "out", gauge="nice")
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("kept")
    with pytest.raises(qkv.Error, match="full"):
        qk.merge_model("digits", tmp_path / "full")
    with pytest.raises(qkv.Error, match="cannot|unreadable|no image|not"):
        qk.truncate_model("digits", tmp_path / "out", rank=2, images=tmp_path / "full/file")
    with pytest.raises(qkv.Error, match="do not divide into 7 heads"):
        qk.plan(width=768, heads=7)
    with pytest.raises(qkv.Error, match="belong together"):
        qk.plan(width=768, latent=8)
    with pytest.raises(qkv.Error, match="cached: expected nothing, tokens, keys, latent"):
        qk.plan(width=768, cached="all")
    with pytest.raises(TypeError, match="width"):
        qk.plan()
    with pytest.raises(TypeError, match="an open model has its hints already"):
        qk.weights(qkv.load("digits"), 0, heads=4)
    with pytest.raises(qkv.Error, match="nothing to plan"):
        qk.plan_model(GOLDEN / "timm_kind_positional")


def test_a_model_without_files_says_so(tmp_path, digit_photos):
    import shutil

    qk.merge_model("digits", tmp_path / "model")
    model = qkv.load(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(qkv.Error, match="has no files any more"):
        qk.weights(model, 0)


def test_progress_is_told(tmp_path):
    pytest.importorskip("tqdm")
    qk.merge_model("digits", tmp_path / "out", progress=True)
    assert qk.spectra("digits", progress=True).rank.shape == (4, 4)
