"""qkv.torch beside PyTorch: its own samples, gradients, torch.compile, transformers' and timm's models."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
try:
    import torchvision_stub  # noqa: F401  (tools/: beside a torch for the CPU alone)
except ImportError:
    pass
pytest.importorskip("expecttest", reason="torch.testing's samples need expecttest")

import torch.nn.functional as F  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import qkv  # noqa: E402
import qkv.torch  # noqa: E402

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
OPERATORS = {op.name: op for op in op_db}


def within(ours, theirs, exact, scores=0.0):
    """The project's rule: at most about as far from the exact result as the original. scores: the greatest, whose rounding
    is relative to it and becomes one of the weights."""
    if exact.numel() == 0:
        return ours.shape == exact.shape
    ours, theirs = ours.double(), theirs.double()
    seen = torch.isfinite(exact)
    error, usual = (ours - exact)[seen].abs().max(), (theirs - exact)[seen].abs().max()
    unit = torch.finfo(torch.float32).eps * max(scores, 8.0)
    return bool(error <= 4 * usual + unit * exact[seen].abs().max() + 2 * torch.finfo(torch.float64).eps)


def greatest_score(sample):
    """Of scaled_dot_product_attention's samples."""
    q, k = sample.input.detach().double(), sample.args[0].detach().double()
    if q.dim() < 2 or k.dim() != q.dim() or q.shape[-1] != k.shape[-1] or q.shape[:-2] != k.shape[:-2]:
        return 0.0
    return float((q @ k.mT).abs().max()) / q.shape[-1] ** 0.5 if q.numel() and k.numel() else 0.0


def doubled(value):
    return value.detach().double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def gradients(function, sample, dtype=None):
    """The result, and the gradient of its product with fixed numbers with respect to each input that has one."""
    cast = doubled if dtype == torch.float64 else lambda x: x.detach() if isinstance(x, torch.Tensor) else x
    given = [sample.input, *sample.args]
    tensors = [cast(x) for x in given]
    named = {key: cast(x) for key, x in sample.kwargs.items()}
    wanted = []
    for before, now in [*zip(given, tensors), *((sample.kwargs[key], named[key]) for key in named)]:
        if isinstance(before, torch.Tensor) and before.requires_grad:
            now.requires_grad_()
            wanted.append(now)
    out = function(*tensors, **named)
    first = out[0] if isinstance(out, tuple) else out
    weights = torch.from_numpy(np.cos(np.arange(first.numel()))).reshape(first.shape).to(first.dtype)
    return first.detach(), torch.autograd.grad(first, wanted, weights) if wanted else ()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("trains", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize(
    "name", ["nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward"]
)
def test_samples_of_pytorch(name, trains, dtype):
    operator = OPERATORS[name]
    samples = compared = 0
    for sample in operator.sample_inputs("cpu", dtype, requires_grad=trains):
        samples += 1
        if sample.kwargs.get("dropout_p", 0) > 0:
            continue  # stays PyTorch's: test_dropout_stays_pytorchs
        exact, exact_gradient = gradients(operator.op, sample, torch.float64)
        theirs, their_gradient = gradients(operator.op, sample)
        with qkv.torch.attention():
            ours, our_gradient = gradients(operator.op, sample)
        scores = greatest_score(sample)
        assert ours.dtype == theirs.dtype and within(ours, theirs, exact, scores), sample
        for one, their, true in zip(our_gradient, their_gradient, exact_gradient, strict=True):
            assert within(one, their, true, scores), sample
        compared += 1
    assert compared >= samples // 2


def count_calls(monkeypatch):
    """How often qkv computes, from now on."""
    calls = []
    ours = qkv.torch.scaled_dot_product_attention
    monkeypatch.setattr(qkv.torch, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or ours(*a, **k))
    return calls


def test_dropout_stays_pytorchs(monkeypatch):
    calls, x = count_calls(monkeypatch), torch.randn(1, 2, 4, 8)
    with qkv.torch.attention():
        F.scaled_dot_product_attention(x, x, x)
        torch.manual_seed(1)
        inside = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    torch.manual_seed(1)
    assert torch.equal(inside, F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)) and len(calls) == 1
    with pytest.raises(qkv.Error, match="dropout"):
        qkv.torch.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


def test_operators_are_what_pytorch_expects():
    def x(*shape):
        return torch.randn(*shape, requires_grad=True)

    settings = (0.0, 0.0, 0, -1, -1, 0)
    q, k, v = x(2, 4, 5, 8), x(2, 2, 6, 8), x(2, 2, 6, 3)
    for extras in [(None,) * 4, (x(1, 4, 5, 6), torch.rand(2, 1, 5, 6) > 0.2, torch.tensor([6, 4]), x(4))]:
        torch.library.opcheck(torch.ops.qkv.attention.default, (q, k, v, *extras, *settings))


def test_gradient_of_all_options():
    def x(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    q, k, v, bias, sinks = x(2, 4, 5, 3), x(2, 2, 6, 3), x(2, 2, 6, 4), x(1, 4, 1, 6), x(4)
    torch.autograd.gradcheck(
        lambda q, k, v, bias, sinks: qkv.torch.scaled_dot_product_attention(
            q, k, v, bias=bias, sinks=sinks, softcap=2.0, window=3, is_causal="bottom_right", enable_gqa=True,
            lengths=torch.tensor([6, 5]),
        ),
        (q, k, v, bias, sinks),
    )  # fmt: skip


def test_compiles_without_a_break():
    mask = torch.rand(8, 8) < 0.8

    class Block(torch.nn.Module):
        def forward(self, x):
            causal = F.scaled_dot_product_attention(x, x, x, is_causal=True)
            masked = F.scaled_dot_product_attention(x, x[:, :1], x[:, :1], attn_mask=mask)
            return causal + masked + F.scaled_dot_product_attention(x, x, x, attn_mask=mask.float())

    x = torch.randn(1, 2, 8, 8, requires_grad=True)
    with qkv.torch.attention():
        out = torch.compile(Block(), fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(out, Block()(x))
    out.sum().backward()
    assert torch.isfinite(x.grad).all()


CONFIGS = {
    "BertModel": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=99),
    "GPT2Model": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=64),
    "LlamaModel": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                       intermediate_size=48, vocab_size=99),
    "Gemma2Model": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                        intermediate_size=48, vocab_size=99, sliding_window=4, attn_logit_softcapping=5.0),
    "ModernBertModel": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
                            vocab_size=99, local_attention=4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                            cls_token_id=1, sep_token_id=2),
    "T5Model": dict(d_model=32, num_layers=2, num_heads=4, d_kv=8, d_ff=48, vocab_size=99),
    "ViTModel": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32,
                     patch_size=8),
    "CLIPVisionModel": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                            image_size=32, patch_size=8),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_models_of_transformers_equal_eager(name):
    transformers = pytest.importorskip("transformers")
    import qkv.transformers

    qkv.transformers.register()
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    config = kind.config_class(**CONFIGS[name])
    try:
        eager = kind._from_config(config, attn_implementation="eager").eval()
        ours = kind._from_config(config, attn_implementation="qkv").eval()
    except ValueError as error:
        pytest.skip(f"transformers: {error}")
    ours.load_state_dict(eager.state_dict())
    if name in ("ViTModel", "CLIPVisionModel"):
        given = {"pixel_values": torch.randn(2, 3, 32, 32)}
    else:
        ids = torch.randint(3, 99, (3, 12))
        given = {"input_ids": ids, "attention_mask": (torch.arange(12) < torch.tensor([[12], [7], [3]])).long()}
        if name == "T5Model":
            given["decoder_input_ids"] = ids[:, :5]
    with torch.inference_mode():
        a, b = eager(**given, output_attentions=True), ours(**given, output_attentions=True)
    seen = given.get("attention_mask")
    rows = (lambda x: x) if seen is None or name == "T5Model" else (lambda x: x[seen.bool()])
    torch.testing.assert_close(rows(b.last_hidden_state), rows(a.last_hidden_state), atol=2e-5, rtol=1e-4)
    pairs = zip(a.attentions or (), b.attentions or ()) if name != "T5Model" else ()
    for expected, weights in pairs:
        keep = torch.ones(weights.shape[0], weights.shape[2], dtype=torch.bool) if seen is None else seen.bool()
        torch.testing.assert_close(weights.transpose(1, 2)[keep], expected.transpose(1, 2)[keep], atol=1e-5, rtol=1e-4)


MODELS = ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "beit_base_patch16_224", "eva02_tiny_patch14_224",
          "vit_small_patch14_dinov2", "vit_base_patch16_siglip_224", "cait_xxs24_224", "xcit_nano_12_p16_224",
          "vit_relpos_small_patch16_224", "samvit_base_patch16"]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_of_timm_equal_without(name, monkeypatch):
    timm = pytest.importorskip("timm")
    monkeypatch.setattr(timm.layers.config, "_USE_FUSED_ATTN", 1)  # which tests/golden/originals.py sets off
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = {"img_size": 64} if name.startswith(("vit", "deit", "eva", "samvit")) and "relpos" not in name else {}
        model = timm.create_model(name, pretrained=False, **size).eval()
    side = 64 if size else model.pretrained_cfg["input_size"][1]
    pixels, calls = torch.randn(1, 3, side, side), count_calls(monkeypatch)
    with torch.inference_mode():
        expected = model(pixels)
        with qkv.torch.attention():
            out = model(pixels)
    assert calls or name.startswith("xcit"), "no call of scaled_dot_product_attention"
    torch.testing.assert_close(out, expected, atol=3e-5 * float(expected.abs().max()), rtol=1e-4)


def test_the_mode_reaches_multi_head_attention(monkeypatch):
    calls, x = count_calls(monkeypatch), torch.randn(2, 5, 16)
    layer = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    expected = layer(x, x, x, need_weights=False)[0]
    with qkv.torch.attention():
        with qkv.torch.attention():
            pass
        out = layer(x, x, x, need_weights=False)[0]
    assert calls
    torch.testing.assert_close(out, expected)
    assert F.scaled_dot_product_attention is qkv.torch._PYTORCHS
