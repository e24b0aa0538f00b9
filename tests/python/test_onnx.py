"""ONNX's own tests of its operator Attention, over a backend of qkv.attention."""

import re
import unittest
import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its cases of other operators
    import onnx.backend.base
    import onnx.backend.test

import qkv  # noqa: E402

ATTENTION = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")


def with_heads(x, heads):
    """[B, N, heads * width] as [B, heads, N, width]."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def over_keys(mask, keys, hidden):
    """ONNX hides the keys that a shorter mask does not reach."""
    lacking = keys - mask.shape[-1]
    return np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, lacking)], constant_values=hidden) if lacking > 0 else mask


def attention(inputs, attributes, outputs):
    """Outputs by name of ONNX's operator."""
    has = inputs.get
    flat = inputs["Q"].ndim == 3
    q = with_heads(inputs["Q"], attributes.get("q_num_heads"))
    k, v = (with_heads(inputs[name], attributes.get("kv_num_heads")) for name in ("K", "V"))
    first = 0
    if has("past_key") is not None:
        first = inputs["past_key"].shape[2]
        k, v = np.concatenate([inputs["past_key"], k], 2), np.concatenate([inputs["past_value"], v], 2)
    keys = k.shape[2]
    options = {"enable_gqa": True, "scale": attributes.get("scale"), "softcap": attributes.get("softcap", 0.0)}
    masks = {"first_position": first, "is_causal": bool(attributes.get("is_causal", 0))}
    if has("nonpad_kv_seqlen") is not None:
        masks["lengths"] = inputs["nonpad_kv_seqlen"]
        masks["is_causal"] = "bottom_right" if masks["is_causal"] else False
    left, right = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    if left >= 0 or right >= 0:
        masks["window"] = left, right
    if has("attn_mask") is not None:
        mask = inputs["attn_mask"]
        masks["mask"] = over_keys(mask, keys, False if mask.dtype == bool else -np.inf)
    out = qkv.attention(q, k, v, **options, **masks)
    found = {"Y": out.transpose(0, 2, 1, 3).reshape(*out.shape[:1], out.shape[2], -1) if flat else out}
    found["present_key"], found["present_value"] = k, v
    if "qk_matmul_output" in outputs:
        mode = attributes.get("qk_matmul_output_mode", 0)
        # Scores are log(weight) + log-sum-exp: before bias and masks, and 0 before the soft cap.
        given = options | masks if mode > 1 else options | ({} if mode == 1 else {"softcap": 0.0})
        _, weights, lse = qkv.attention(q, k, v, **given, return_weights=True, return_lse=True)
        with np.errstate(divide="ignore"):
            found["qk_matmul_output"] = weights if mode == 3 else (np.log(weights) + lse[..., None]).astype(q.dtype)
    return found


class QkvModel(onnx.backend.base.BackendRep):
    def __init__(self, node, given):
        self.node, self.given = node, given
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}

    def run(self, inputs, **_):
        values = dict(zip(self.given, inputs))
        named = {role: values[name] for role, name in zip(ATTENTION, self.node.input) if name}
        roles = ("Y", "present_key", "present_value", "qk_matmul_output")
        outputs = {role: name for role, name in zip(roles, self.node.output) if name}
        found = attention(named, self.attributes, outputs)
        return [found[role] for role in outputs]


class QkvBackend(onnx.backend.base.Backend):
    @classmethod
    def prepare(cls, model, device="CPU", **_):
        (node,) = model.graph.node
        return QkvModel(node, [value.name for value in model.graph.input])

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


# bfloat16 is no type of NumPy's, and expanded cases are of other operators.
CASES = re.compile(r"^test_attention_(?!.*(expanded|bf16|bfloat16)).*_cpu$")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    whole = onnx.backend.test.BackendTest(QkvBackend, __name__).test_cases["OnnxBackendNodeModelTest"]
TestAttention = type(
    "TestAttention", (unittest.TestCase,), {name: case for name, case in vars(whole).items() if CASES.match(name)}
)
del whole  # pytest would collect it
