"""qkv.attention on arrays, against a plain computation in float64."""

import gc
import sys

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import qkv

ROUNDING = {np.float16: 2.0**-11, np.float32: 2.0**-24, np.float64: 2.0**-53}


def reference(q, k, v, mask=None, bias=None, causal=0, scale=None, softcap=0.0, window=(-1, -1), lengths=None, sinks=None):
    """out, weights and log-sum-exps of [B, H, N, width] in float64."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    groups = q.shape[1] // k.shape[1] if k.shape[1] else 1
    k, v = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
    B, _, N_q, E = q.shape
    N_k = k.shape[2]
    scores = q @ np.swapaxes(k, 2, 3) * (E**-0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + np.asarray(bias, np.float64)
    seen = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape).copy()
    entries = np.full(B, N_k) if lengths is None else np.asarray(lengths)
    j = np.arange(N_k)
    for b in range(B):
        i = np.arange(N_q)[:, None] + (entries[b] - N_q if causal == 2 else 0)
        seen[b] &= j < entries[b]
        if causal:
            seen[b] &= j <= i
        if window[0] >= 0:
            seen[b] &= j >= i - window[0]
        if window[1] >= 0:
            seen[b] &= j <= i + window[1]
    scores = np.where(seen, scores, -np.inf)
    extra = np.full((1, q.shape[1], 1, 1), -np.inf) if sinks is None else np.asarray(sinks, np.float64).reshape(1, -1, 1, 1)
    top = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), extra)
    top = np.where(np.isfinite(top), top, 0)
    powers, sink = np.exp(scores - top), np.exp(extra - top)
    total = powers.sum(axis=-1, keepdims=True) + sink
    weights = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    return weights @ v, weights, lse


def bound(dtype, *arrays, count=1):
    """Of results that are sums of products of values up to the arrays' greatest, in float32 for float16."""
    unit = ROUNDING[np.float32 if dtype == np.float16 else dtype]
    greatest = np.prod([max(1.0, float(np.abs(x).max(initial=0))) for x in arrays])
    return 64 * (8 + count) * unit * greatest + (2 * ROUNDING[np.float16] * greatest if dtype == np.float16 else 0)


@st.composite
def cases(draw):
    """Sizes, zero among them, options and a type."""
    small = st.integers(0, 9)
    groups, heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    sizes = {
        "B": draw(st.integers(0, 3)), "H": groups * heads, "H_kv": heads, "N_q": draw(small), "N_k": draw(small),
        "E": draw(st.integers(1, 9)), "E_v": draw(st.integers(1, 9)),
    }  # fmt: skip
    return sizes, draw(st.integers(0, 2**32)), draw(st.sampled_from([np.float32, np.float64, np.float16]))


@hypothesis.given(cases(), st.data())
@hypothesis.settings(deadline=None, max_examples=300)
def test_equals_float64(case, data):
    size, seed, dtype = case
    random = np.random.default_rng(seed)

    def normal(*shape):
        x = random.standard_normal(shape).astype(dtype)
        stride = data.draw(st.sampled_from(["dense", "reversed", "apart", "turned"]))
        if stride == "reversed":
            return np.flip(x)
        if stride == "apart":
            wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
            wide[..., ::2] = x
            return wide[..., ::2]
        if stride == "turned":
            return np.ascontiguousarray(np.swapaxes(x, 1, 2)).swapaxes(1, 2)
        return x

    q = normal(size["B"], size["H"], size["N_q"], size["E"])
    k = normal(size["B"], size["H_kv"], size["N_k"], size["E"])
    v = normal(size["B"], size["H_kv"], size["N_k"], size["E_v"])
    options, expected = {}, {}
    one_of = lambda *axes: tuple(data.draw(st.sampled_from([1, axis])) for axis in axes)  # noqa: E731
    scores = size["B"], size["H"], size["N_q"], size["N_k"]
    if data.draw(st.booleans()):
        options["mask"] = expected["mask"] = random.random(one_of(*scores)) < 0.7
    if data.draw(st.booleans()):
        options["bias"] = expected["bias"] = random.standard_normal(one_of(*scores)).astype(dtype)
    causal = data.draw(st.sampled_from([0, 1, 2]))
    options["is_causal"], expected["causal"] = [False, True, "bottom_right"][causal], causal
    if data.draw(st.booleans()):
        options["scale"] = expected["scale"] = data.draw(st.sampled_from([0.3, 2.0, -0.5]))
    if data.draw(st.booleans()):
        options["softcap"] = expected["softcap"] = 1.5
    if data.draw(st.booleans()):
        options["window"] = expected["window"] = data.draw(st.tuples(st.integers(-1, 4), st.integers(-1, 4)))
    if data.draw(st.booleans()):
        options["lengths"] = expected["lengths"] = random.integers(0, size["N_k"] + 1, size["B"])
    if data.draw(st.booleans()):
        options["sinks"] = expected["sinks"] = random.standard_normal(size["H"]).astype(dtype)
    out, weights, lse = qkv.attention(q, k, v, enable_gqa=True, return_weights=True, return_lse=True, **options)
    wanted, wanted_weights, wanted_lse = reference(q, k, v, **expected)
    assert out.dtype == weights.dtype == dtype and out.shape == wanted.shape and weights.shape == wanted_weights.shape
    tolerance = bound(dtype, q, k, v, count=size["N_k"])
    np.testing.assert_allclose(out, wanted, atol=tolerance, rtol=0)
    np.testing.assert_allclose(weights, wanted_weights, atol=tolerance, rtol=0)
    seen = np.isfinite(wanted_lse)
    np.testing.assert_allclose(lse[seen], wanted_lse[seen], atol=tolerance, rtol=0)


def test_gradient_is_that_of_finite_differences():
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal(shape) for shape in ((2, 4, 5, 3), (2, 2, 6, 3), (2, 2, 6, 4)))
    bias, sinks = random.standard_normal((1, 4, 5, 6)), random.standard_normal(4)
    dout = random.standard_normal((2, 4, 5, 4))
    options = dict(is_causal="bottom_right", softcap=2.0, mask=random.random((2, 1, 5, 6)) < 0.8)
    out, lse = qkv.attention(q, k, v, bias=bias, sinks=sinks, enable_gqa=True, return_lse=True, **options)
    gradient = qkv.attention_backward(q, k, v, out, lse, dout, bias=bias, sinks=sinks, **options)
    inputs = {"q": q, "k": k, "v": v, "bias": bias, "sinks": sinks}
    step = 1e-5

    def loss(**changed):
        given = inputs | changed
        return (dout * qkv.attention(given["q"], given["k"], given["v"], bias=given["bias"], sinks=given["sinks"],
                                     enable_gqa=True, **options)).sum()  # fmt: skip

    for name, x in inputs.items():
        found = getattr(gradient, name)
        assert found.shape == x.shape
        for at in [tuple(random.integers(0, n) for n in x.shape) for _ in range(12)]:
            up, down = x.copy(), x.copy()
            up[at] += step
            down[at] -= step
            slope = (loss(**{name: up}) - loss(**{name: down})) / (2 * step)
            # Of the difference: a third derivative times step², and rounding over step.
            assert abs(found[at] - slope) < 1e-7, (name, at)


@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (2, 4, 5, 3), (2, 2, 4, 5, 3), (2, 1, 2, 4, 5, 3)])
def test_leading_axes(shape):
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal(shape).astype(np.float32) for _ in range(3))
    mask = random.random((shape[-2], shape[-2])) < 0.8
    out = qkv.attention(q, k, v, mask=mask)
    four = [x.reshape(-1, 1, *shape[-2:]) for x in (q, k, v)]
    np.testing.assert_array_equal(out, qkv.attention(*four, mask=mask).reshape(shape))


def test_broadcast_axes():
    random = np.random.default_rng(2)
    q = random.standard_normal((3, 1, 5, 4)).astype(np.float32)
    k = random.standard_normal((2, 5, 4)).astype(np.float32)
    out = qkv.attention(q, k, k)
    whole = qkv.attention(*(np.broadcast_to(x, (3, 2, 5, 4)).copy() for x in (q, k, k)))
    np.testing.assert_array_equal(out, whole)


def test_inputs_are_not_copied_and_results_own_their_memory():
    x = np.ones((1, 2, 64, 8), np.float32)
    before = sys.getrefcount(x)
    out = qkv.attention(x, x, x)
    assert sys.getrefcount(x) == before
    assert out.flags.writeable and out.flags.c_contiguous and not np.shares_memory(out, x)
    del x
    gc.collect()
    np.testing.assert_allclose(out, 1)


def test_read_only_arrays_are_read():
    x = np.ones((1, 1, 4, 4), np.float32)
    x.flags.writeable = False
    np.testing.assert_allclose(qkv.attention(x, x, x), 1)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: qkv.attention([1.0], x, x), TypeError, "list"),
        (lambda x: qkv.attention(x.astype(np.int64), x, x), qkv.Error, "expected float32"),
        (lambda x: qkv.attention(x, x.astype(np.float64), x), qkv.Error, "different types"),
        (lambda x: qkv.attention(x[0, 0, 0], x, x), qkv.Error, "two axes"),
        (lambda x: qkv.attention(x, x[..., :3], x), qkv.Error, "attention"),
        (lambda x: qkv.attention(x, x, x[:, :, :3]), qkv.Error, "attention"),
        (lambda x: qkv.attention(np.repeat(x, 2, 1), x, x), qkv.Error, "enable_gqa"),
        (lambda x: qkv.attention(x, x, x, scale=0.0), qkv.Error, "scale"),
        (lambda x: qkv.attention(x, x, x, scale=np.nan), qkv.Error, "scale: expected a finite"),
        (lambda x: qkv.attention(x, x, x, scale=-np.inf), qkv.Error, "scale: expected a finite"),
        (lambda x: qkv.attention(x, x, x, scale=10**400), TypeError, "scale"),
        (lambda x: qkv.attention(x, x, x, softcap=-1.0), qkv.Error, "softcap: expected a finite number from 0 on"),
        (lambda x: qkv.attention(x, x, x, softcap=np.nan), qkv.Error, "softcap"),
        (lambda x: qkv.attention_backward(x, x, x, x, x[..., 0], x, softcap=np.inf), qkv.Error, "softcap"),
        (lambda x: qkv.attention(x, x, x, mask=np.ones((5, 5), int)), qkv.Error, "mask: expected bool.* got int64"),
        (lambda x: qkv.attention(x, x, x, mask=np.ones((5, 5), np.uint8)), qkv.Error, "mask"),
        (lambda x: qkv.attention(x, x, x, scale=np.array([1.0, 2.0])), TypeError, "scale: expected a number"),
        (lambda x: qkv.attention(x, x, x, is_causal=2), qkv.Error, "is_causal: expected a bool"),
        (lambda x: qkv.attention(x, x, x, mask=np.zeros((4, 5)), bias=np.zeros((3, 5))), qkv.Error, "mask .* do not fit"),
        (lambda x: qkv.attention(x, x, x, lengths=[1]), qkv.Error, "lengths"),
        (lambda x: qkv.attention(x, x, x, lengths=[1.5, 2]), TypeError, "lengths: expected whole numbers"),
        (lambda x: qkv.attention(x, x, x, lengths=[None, 2]), TypeError, "lengths"),
        (lambda x: qkv.attention(x, x, x, is_causal="left"), qkv.Error, "bottom_right"),
        (lambda x: qkv.attention(x, x, x, mask=np.ones((7, 7), bool)), qkv.Error, "mask"),
        (lambda x: qkv.attention(x, x, x, lengths=np.array([99, 1])), qkv.Error, "lengths"),
        (lambda x: qkv.attention(x, x, x, lengths=np.array([1.0, 1.0])), qkv.Error, "lengths"),
        (lambda x: qkv.attention(x, x, x, sinks=np.zeros(5, np.float32)), qkv.Error, "sinks"),
    ],
)
def test_what_does_not_fit_is_said(call, error, text):
    with pytest.raises(error, match=text):
        call(np.ones((2, 2, 5, 4), np.float32))


def test_lengths_and_windows_may_be_lists():
    x = np.random.default_rng(0).standard_normal((2, 1, 4, 4)).astype(np.float32)
    lengths = np.array([1, 4])
    out, lse = qkv.attention(x, x, x, lengths=lengths, window=(1, 0), return_lse=True)
    np.testing.assert_array_equal(qkv.attention(x, x, x, lengths=[1, 4], window=[1, 0]), out)
    gradients = (qkv.attention_backward(x, x, x, out, lse, x, lengths=some, window=(1, 0)) for some in (lengths, [1, 4]))
    np.testing.assert_array_equal(*(gradient.q for gradient in gradients))


@pytest.mark.parametrize("window", [(2, 0, 1), "wide", 1.5])
def test_windows_are_a_number_or_two(window):
    x = np.ones((1, 1, 4, 4), np.float32)
    with pytest.raises(TypeError, match="window"):
        qkv.attention(x, x, x, window=window)
