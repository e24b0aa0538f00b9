"""qkv.qk on arrays, against NumPy in float64."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import qkv
from qkv import qk


def tolerance(*arrays, factor=1.0):
    """Of sums of products of all of them, computed in float64."""
    return 1e-13 * factor * np.prod([max(1.0, float(np.linalg.norm(a))) for a in arrays if a is not None])


@st.composite
def layers(draw):
    """(arguments of a layer, its tokens); biases in every combination, shared keys, two widths."""
    heads = draw(st.sampled_from([1, 2, 4]))
    key_heads = draw(st.sampled_from([n for n in (1, 2, 4) if heads % n == 0]))
    width, d = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    d_k = draw(st.sampled_from([d, d, draw(st.integers(1, 9))]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    normal = lambda *shape: rng.normal(size=shape).astype(dtype)  # noqa: E731
    layer = dict(w_q=normal(heads * width, d), w_k=normal(key_heads * width, d_k), heads=heads)
    layer["b_q"] = normal(heads * width) if draw(st.booleans()) else None
    layer["b_k"] = normal(key_heads * width) if draw(st.booleans()) else None
    return layer, rng.normal(size=(6, d)), rng.normal(size=(7, d_k))


def scores(w_q, w_k, heads, x, y, b_q=None, b_k=None):
    """Head by head, as the formula has it."""
    w_q, w_k = np.asarray(w_q, np.float64), np.asarray(w_k, np.float64)
    width = len(w_q) // heads
    group = heads // (len(w_k) // width)
    b_q = np.zeros(len(w_q)) if b_q is None else np.asarray(b_q, np.float64)
    b_k = np.zeros(len(w_k)) if b_k is None else np.asarray(b_k, np.float64)
    out = []
    for h in range(heads):
        at, key = slice(h * width, (h + 1) * width), slice(h // group * width, (h // group + 1) * width)
        out.append((x @ w_q[at].T + b_q[at]) @ (y @ w_k[key].T + b_k[key]).T / np.sqrt(width))
    return np.array(out)


def centred(s):
    return s - s.mean(-1, keepdims=True)


@hypothesis.given(layers())
def test_merged_scores_are_those_of_the_weights(case):
    layer, x, y = case
    expected = scores(**layer, x=x, y=y)
    bound = tolerance(layer["w_q"], layer["w_k"], x, y)
    merged = qk.merge(**layer)
    assert merged.m.shape == (layer["heads"], x.shape[1], y.shape[1]) and merged.m.dtype == np.float64
    np.testing.assert_allclose(merged.scores(x, y), expected, atol=bound, rtol=0)
    np.testing.assert_allclose(qk.Pair(**layer).scores(x, y), expected, atol=bound, rtol=0)
    assert (merged.u is None) == (layer["b_q"] is None)
    softmax = qk.merge(**layer, terms="softmax")
    assert softmax.w is None and softmax.c is None
    np.testing.assert_allclose(centred(softmax.scores(x, y)), centred(expected), atol=bound, rtol=0)


@hypothesis.given(layers())
def test_split_gives_balanced_weights_of_the_same_scores(case):
    layer, x, y = case
    pair = qk.split(qk.merge(**layer))
    bound = tolerance(layer["w_q"], layer["w_k"], x, y, factor=100)
    np.testing.assert_allclose(pair.scores(x, y), scores(**layer, x=x, y=y), atol=bound, rtol=0)
    assert pair.width <= len(layer["w_q"]) // layer["heads"] or pair.width <= 1
    for h in range(pair.heads):
        one = pair.head(h)
        side = lambda w, b: w @ w.T + (0 if b is None else np.outer(b, b))  # noqa: E731
        np.testing.assert_allclose(side(one.w_q, one.b_q), side(one.w_k, one.b_k), atol=bound)


@hypothesis.given(layers(), st.data())
def test_any_gauge_keeps_the_scores(case, data):
    layer, x, y = case
    width = len(layer["w_q"]) // layer["heads"]
    key_heads = len(layer["w_k"]) // width
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    t = rng.normal(size=(key_heads, width, width)) * 0.2 + 2 * np.eye(width)
    other = qk.regauge(**layer, gauge=t)
    assert other.w_k.shape == layer["w_k"].shape and other.key_heads == key_heads
    bound = tolerance(layer["w_q"], layer["w_k"], x, y, factor=100)
    np.testing.assert_allclose(other.scores(x, y), scores(**layer, x=x, y=y), atol=bound, rtol=0)
    np.testing.assert_allclose(other.w_q[:width], t[0].T @ layer["w_q"][:width], atol=bound)


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_gauges_by_name(key_heads):
    rng = np.random.default_rng(key_heads)
    w_q, w_k = rng.normal(size=(20, 9)), rng.normal(size=(5 * key_heads, 9))
    x = rng.normal(size=(8, 9))
    expected = scores(w_q, w_k, 4, x, x)
    squares = {}
    for gauge in ("balanced", "orthonormal_keys", "identity_block"):
        pair = qk.regauge(w_q, w_k, heads=4, gauge=gauge)
        np.testing.assert_allclose(pair.scores(x), expected, atol=1e-9)
        assert pair.key_heads == key_heads
        keys = pair.w_k[:5]
        squares[gauge] = np.sum(pair.w_q**2) + np.sum(pair.w_k**2)
        if gauge == "orthonormal_keys":
            np.testing.assert_allclose(keys @ keys.T, np.eye(5), atol=1e-12)
        elif gauge == "identity_block":
            assert sum(np.allclose(column, np.eye(5)[i]) for column in keys.T for i in range(5)) >= 5
        else:
            queries = pair.w_q[: 5 * (4 // key_heads)].reshape(-1, 5, 9)
            np.testing.assert_allclose(sum(q @ q.T for q in queries), keys @ keys.T, atol=1e-10)
    assert squares["balanced"] < min(np.sum(w_q**2) + np.sum(w_k**2), squares["orthonormal_keys"])


@hypothesis.given(layers(), st.data())
def test_truncation_is_that_of_the_singular_values(case, data):
    layer, x, y = case
    width, d = len(layer["w_q"]) // layer["heads"], min(x.shape[1], y.shape[1])
    rank = data.draw(st.integers(1, min(width, d)))
    exact = qk.merge(**layer)
    pair = qk.truncate(**layer, rank=rank)
    assert pair.width == rank and pair.key_heads == pair.heads
    assert pair.scale == pytest.approx(width**-0.5)

    def with_ones(merged):
        """The biases as one more input."""
        h, a, b = merged.m.shape
        m = np.zeros((h, a + 1, b + 1))
        m[:, :a, :b] = merged.m
        if merged.u is not None:
            m[:, a, :b] = merged.u
        if merged.w is not None:
            m[:, :a, b] = merged.w
        if merged.c is not None:
            m[:, a, b] = merged.c
        return m

    m = with_ones(exact)
    left = np.linalg.norm(m - with_ones(qk.merge(pair)), axis=(1, 2))
    values = np.linalg.svd(m, compute_uv=False)
    bound = tolerance(layer["w_q"], layer["w_k"], factor=1000)
    np.testing.assert_allclose(left, np.sqrt(np.sum(values[:, rank:] ** 2, axis=1)), atol=bound)


def test_truncation_for_tokens_is_the_best_for_their_scores():
    rng = np.random.default_rng(1)
    w_q, w_k, b_q, b_k = rng.normal(size=(12, 9)), rng.normal(size=(12, 9)), rng.normal(size=12), rng.normal(size=12)
    x = rng.normal(size=(40, 9)) * np.geomspace(10, 0.01, 9)
    exact = qk.merge(w_q, w_k, b_q, b_k, heads=3).scores(x)
    of_weights = qk.truncate(w_q, w_k, b_q, b_k, heads=3, rank=2).scores(x)
    of_tokens = qk.truncate(w_q, w_k, b_q, b_k, heads=3, rank=2, x=x).scores(x)
    values = np.linalg.svd(exact, compute_uv=False)
    best = np.sqrt(np.sum(values[:, 2:] ** 2, axis=1))
    error = np.linalg.norm(exact - of_tokens, axis=(1, 2))
    np.testing.assert_allclose(error, best, rtol=1e-7, atol=1e-9)
    assert np.all(error < np.linalg.norm(exact - of_weights, axis=(1, 2)))
    softmax = qk.truncate(w_q, w_k, b_q, b_k, heads=3, rank=2, x=x, terms="softmax")
    assert softmax.b_k is None
    up_to_constants = np.linalg.norm(centred(exact) - centred(softmax.scores(x)), axis=(1, 2))
    best = np.sqrt(np.sum(np.linalg.svd(centred(exact), compute_uv=False)[:, 2:] ** 2, axis=1))
    np.testing.assert_allclose(up_to_constants, best, rtol=1e-7, atol=1e-9)


@hypothesis.given(layers())
def test_spectra_are_those_of_m(case):
    layer, x, y = case
    layer = {name: layer[name] for name in ("w_q", "w_k", "heads")}
    m = qk.merge(**layer).m
    bound = tolerance(layer["w_q"], layer["w_k"], factor=1000)
    for found in (qk.spectra(**layer), qk.spectra(qk.Pair(**layer)), qk.spectra(qk.merge(**layer))):
        values = np.linalg.svd(m, compute_uv=False)
        k = min(found.singular_values.shape[1], values.shape[1])
        np.testing.assert_allclose(found.singular_values[:, :k], values[:, :k], atol=bound)
        p = values / values.sum(axis=1, keepdims=True)
        entropy = -np.sum(np.where(p > 1e-12, p * np.log(np.maximum(p, 1e-300)), 0), axis=1)
        np.testing.assert_allclose(found.effective_rank, np.exp(entropy), rtol=1e-6)
        np.testing.assert_allclose(found.stable_rank, np.sum(values**2, axis=1) / values[:, 0] ** 2, rtol=1e-6)
        if m.shape[1] != m.shape[2]:
            assert found.eigenvalues is None and np.all(np.isnan(found.symmetry))
            continue
        ours = found.eigenvalues
        assert ours.dtype == np.complex128
        np.testing.assert_allclose(ours.sum(axis=1), np.trace(m, axis1=1, axis2=2), atol=bound)
        energy = np.sum(m**2, axis=(1, 2))
        np.testing.assert_allclose(found.symmetry, np.sum(m * m.swapaxes(1, 2), axis=(1, 2)) / energy, atol=1e-6)
    assert "heads" in repr(found) and found._repr_svg_().startswith("<svg")


def test_symmetric_and_antisymmetric_parts():
    rng = np.random.default_rng(0)
    merged = qk.merge(rng.normal(size=(6, 5)), rng.normal(size=(6, 5)), heads=2)
    np.testing.assert_allclose(merged.symmetric + merged.antisymmetric, merged.m)
    np.testing.assert_array_equal(merged.antisymmetric, -merged.antisymmetric.swapaxes(1, 2))
    with pytest.raises(qkv.Error, match="two widths"):
        qk.merge(rng.normal(size=(6, 5)), rng.normal(size=(6, 4)), heads=2).symmetric


@hypothesis.given(layers())
def test_directions_make_m(case):
    layer, x, y = case
    layer = {name: layer[name] for name in ("w_q", "w_k", "heads")}
    merged = qk.merge(**layer)
    for found in (qk.directions(**layer), qk.directions(merged)):
        made = np.einsum("hk,hka,hkb->hab", found.singular_values, found.left, found.right)
        np.testing.assert_allclose(made, merged.m, atol=tolerance(layer["w_q"], layer["w_k"], factor=100))
        for head in found.left:
            np.testing.assert_allclose(head @ head.T, np.eye(len(head)), atol=1e-10)
        assert all(ranges[0].start == 0 and ranges[-1].stop == found.left.shape[1] for ranges in found.subspaces)


def test_equal_singular_values_are_one_subspace():
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    k, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    values = np.array([3.0, 2.0, 2.0, 1.0, 0.0, 0.0])
    found = qk.directions(values[:, None] * q[:6], k[:6], heads=1)
    np.testing.assert_allclose(found.singular_values[0], values, atol=1e-12)
    assert found.subspaces == [[range(0, 1), range(1, 3), range(3, 4), range(4, 6)]]
    np.testing.assert_array_equal(found.determined[0], [True, False, False, True, False, False])
    assert "head 0: 1 to 2" in repr(found)
    # The subspace is that of the weights, whatever its basis.
    np.testing.assert_allclose(found.left[0, 1:3].T @ found.left[0, 1:3], q[1:3].T @ q[1:3], atol=1e-12)


def test_an_array_of_float32_has_the_rank_it_was_stored_with():
    rng = np.random.default_rng(0)
    m = (rng.normal(size=(3, 40)).T @ rng.normal(size=(3, 40))).astype(np.float32)
    pair = qk.split(m)
    assert (pair.heads, pair.width, pair.scale) == (1, 3, 1.0)
    np.testing.assert_allclose(pair.w_q.T @ pair.w_k, m, atol=1e-6)
    assert qk.split(m, rank=7).w_q.shape == (7, 40)
    with pytest.raises(qkv.Error, match="of rank 2 at most, got rank 3"):
        qk.split(m, rank=2)


def test_arguments_that_do_not_fit_say_so():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(12, 5))
    with pytest.raises(TypeError, match="heads= is missing"):
        qk.merge(w, w)
    with pytest.raises(TypeError, match="w_k is missing"):
        qk.merge(w, heads=3)
    with pytest.raises(TypeError, match="w_q: expected an array of NumPy"):
        qk.merge([[1.0]], w, heads=3)
    with pytest.raises(qkv.Error, match="12 rows of w_q do not divide into 5 heads"):
        qk.merge(w, w, heads=5)
    with pytest.raises(qkv.Error, match="does not fit"):
        qk.merge(w, w[:7], heads=3)
    with pytest.raises(qkv.Error, match="at least 1"):
        qk.merge(w, w, heads=0)
    with pytest.raises(qkv.Error, match=r"b_q: an array \[5\], expected \[12\]"):
        qk.merge(w, w, np.zeros(5), heads=3)
    with pytest.raises(qkv.Error, match=r"expected \[heads · E, D\]"):
        qk.merge(w[0], w, heads=3)
    with pytest.raises(qkv.Error, match="expected float32, float64"):
        qk.merge(np.ones((12, 5), int), w, heads=3)
    with pytest.raises(qkv.Error, match='"exact" or "softmax"'):
        qk.merge(w, w, heads=3, terms="all")
    with pytest.raises(qkv.Error, match=r"head \d: truncate: expected 1 <= rank <= 4, got 5"):
        qk.truncate(w, w, heads=3, rank=5)
    with pytest.raises(qkv.Error, match="rank: expected at least 1"):
        qk.truncate(w, w, heads=3, rank=0)
    with pytest.raises(qkv.Error, match="tokens of 5 features"):
        qk.truncate(w, w, heads=3, rank=2, x=rng.normal(size=(9, 4)))
    for x, y in (((5,), None), ((5,), (9, 5)), ((2, 9, 5), (3, 9, 5)), ((2, 9, 5), (9, 5))):
        for terms in ("exact", "softmax"):
            tokens = {"x": np.ones(x), "y": None if y is None else np.ones(y)}
            with pytest.raises(qkv.Error, match="truncate: x .* expected"):
                qk.truncate(w, w, heads=3, rank=2, terms=terms, **tokens)
    with pytest.raises(qkv.Error, match="invertible transform"):
        qk.regauge(w, w, heads=3, gauge=np.zeros((4, 4)))
    with pytest.raises(qkv.Error, match="expected balanced"):
        qk.regauge(w, w, heads=3, gauge="nice")
    with pytest.raises(qkv.Error, match=r"transforms: an array \[3, 5, 5\], expected \[3, 4, 4\]"):
        qk.regauge(w, w, heads=3, gauge=np.eye(5))
    with pytest.raises(qkv.Error, match="of rank E = 4, got rank 1"):
        qk.regauge(np.ones((12, 5)), w, heads=3)
    w[3, 2] = np.nan
    with pytest.raises(qkv.Error, match="finite"):
        qk.spectra(w, w, heads=3)
    with pytest.raises(TypeError, match="split"):
        qk.merge(qk.merge(np.eye(4), np.eye(4), heads=2))


@pytest.mark.parametrize("of", [lambda pair: pair, qk.merge], ids=["pair", "merged"])
def test_tokens_that_do_not_fit_say_so(of):
    rng = np.random.default_rng(0)
    weights = of(qk.Pair(rng.normal(size=(6, 5)), rng.normal(size=(6, 4)), heads=2))
    x, y = np.ones((3, 7, 5)), np.ones((3, 8, 4))
    assert weights.scores(x, y).shape == weights.scores(x, y[0]).shape == (3, 2, 7, 8)
    for wrong in ((x[..., :4], y), (x[0, 0], y), (np.float64(1), y), (x, y[..., :3]), (x, y[0, 0]), (x,), (x[:2], y)):
        with pytest.raises(qkv.Error, match="scores: "):
            weights.scores(*wrong)
    with pytest.raises(TypeError, match="x: expected an array"):
        weights.scores([[1.0]])


def test_a_head_is_a_whole_number_and_a_scale_a_number():
    pair = qk.Pair(np.ones((6, 5)), np.ones((6, 5)), heads=2)
    for wrong in (1.5, "a", None, np.zeros(2)):
        with pytest.raises(TypeError, match="head: expected a whole number"):
            pair.head(wrong)
    with pytest.raises(IndexError):
        pair.head(2)
    with pytest.raises(qkv.Error, match="scale"):
        qk.Pair(np.ones((6, 5)), np.ones((6, 5)), heads=2, scale=float("nan"))


def test_parameters_of_pytorch():
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(5, 12)
    merged = qk.merge(linear.weight, linear.weight, linear.bias, heads=3)  # which need a gradient
    w = linear.weight.detach().numpy().astype(float)
    np.testing.assert_allclose(merged.m[1], w[4:8].T @ w[4:8])
    half = qk.merge(linear.weight.bfloat16(), linear.weight, heads=3)
    np.testing.assert_allclose(half.m, merged.m, atol=0.02)
