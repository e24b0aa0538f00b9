"""Arrays of other libraries in and out, without copies; each is skipped by name where its library is missing."""

import numpy as np
import pytest

import qkv

SHAPE = (1, 2, 9, 8)


def values():
    random = np.random.default_rng(3)
    return [random.standard_normal(SHAPE).astype(np.float32) for _ in range(3)]


def test_torch_in_and_out():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(x) for x in values())
    out, lse = qkv.attention(q, k, v, is_causal=True, return_lse=True)
    assert isinstance(out, torch.Tensor) and out.dtype == torch.float32 and lse.shape == SHAPE[:3]
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64"])
def test_torch_types(name):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    q, k, v = (torch.from_numpy(x).to(dtype) for x in values())
    out = qkv.attention(q, k, v)
    assert out.dtype == dtype
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(out.double(), expected, atol=2 * torch.finfo(dtype).eps + 1e-9, rtol=0)


def test_torch_tensors_with_a_gradient_are_sent_to_the_operator():
    torch = pytest.importorskip("torch")
    q = torch.ones(SHAPE, requires_grad=True)
    with pytest.raises(qkv.Error, match="qkv.torch"):
        qkv.attention(q, q, q)
    with torch.no_grad():
        assert qkv.attention(q, q, q).shape == SHAPE


def test_torch_meta_tensors_are_refused():
    torch = pytest.importorskip("torch")
    x = torch.ones(SHAPE, device="meta")
    with pytest.raises((qkv.Error, TypeError, BufferError)):
        qkv.attention(x, x, x)


def test_jax_in_and_out():
    jax = pytest.importorskip("jax")
    q, k, v = (jax.numpy.asarray(x) for x in values())
    out = qkv.attention(q, k, v)
    assert isinstance(out, jax.Array)
    np.testing.assert_allclose(np.asarray(out), qkv.attention(*values()), atol=1e-6)
    half = [x.astype(jax.numpy.bfloat16) for x in (q, k, v)]
    assert qkv.attention(*half).dtype == jax.numpy.bfloat16


def test_jax_tracers_are_refused():
    jax = pytest.importorskip("jax")
    with pytest.raises(TypeError, match="pure_callback"):
        jax.jit(lambda x: qkv.attention(x, x, x))(jax.numpy.ones(SHAPE))


def test_jax_calls_back():
    jax = pytest.importorskip("jax")
    q, k, v = values()

    def call(q, k, v):
        shape = jax.ShapeDtypeStruct(q.shape, q.dtype)
        return jax.pure_callback(lambda *x: qkv.attention(*(np.asarray(one) for one in x)), shape, q, k, v)

    np.testing.assert_allclose(np.asarray(jax.jit(call)(q, k, v)), qkv.attention(q, k, v), atol=1e-6)


def test_a_library_that_only_knows_dlpack():
    class Other:
        def __init__(self, array):
            self.array, self.shape, self.dtype = array, array.shape, array.dtype

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    q, k, v = values()
    out = qkv.attention(Other(q), Other(k), Other(v))
    np.testing.assert_array_equal(out, qkv.attention(q, k, v))


@pytest.mark.parametrize("name", ["q", "k", "v", "mask", "bias", "lengths", "sinks"])
def test_tensors_that_cannot_be_read_say_what_to_do(name):
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 1, 2, 2)
    given = {"q": x, "k": x, "v": x, name: torch.ones(2, 2, dtype=torch.bool if name == "mask" else None)}
    for tensor, advice in (
        (given[name].to("meta").expand(1, 1, 2, 2), rf"{name} is on meta; .* give {name}.cpu\(\)"),
        (given[name].to_sparse(), rf"{name} is torch.sparse_coo, .* give {name}.to_dense\(\)"),
    ):
        with pytest.raises(TypeError, match=advice):
            qkv.attention(**{**given, name: tensor})
    with pytest.raises(TypeError, match="w_q is on meta"):
        qkv.qk.merge(torch.ones(2, 2, device="meta"), torch.ones(2, 2), heads=1)
