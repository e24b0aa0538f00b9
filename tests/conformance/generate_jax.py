#!/usr/bin/env python3
"""Writes tests/conformance/jax.safetensors: the cases of JAX's own tests of dot_product_attention (tests/nn_test.py:
testDotProductAttention, …Mask, …BiasGradient), with what JAX answers.

    python -m venv VENV && VENV/bin/pip install jax==0.10.2 safetensors
    VENV/bin/python tests/conformance/generate_jax.py

As torch.safetensors (generate_torch.py); the masks' cases also have "CASE/dbias". JAX computes the products in float64
here, and the softmax in float32, as its code always does.
"""
import itertools
import json
import pathlib

import jax
import numpy as np
import seeded
from safetensors.numpy import save_file

FILE = pathlib.Path(__file__).parent / "jax.safetensors"
B, N, H, E = 2, 128, 4, 32
FULL = dict(B=B, H=H, H_kv=H, N_q=N, N_k=N, E=E, causal=False, scale=0, bias=[], mask=[], window=[-1, -1],
            types=["bfloat16"], train=[True], layout="rows", runs=1)  # fmt: skip


def cases():
    seed = itertools.count(1001)
    for groups in (1, 2, 4):
        # By type, by vmap (which changes the call, not the numbers), and by implementation, of which cuDNN is one.
        yield f"grouped/G{groups}", FULL | dict(H_kv=H // groups, seed=next(seed), types=["bfloat16", "float16"], runs=2)
    padding = dict(query_lengths=[N // 2, N // 4], key_lengths=[N // 4, N // 2])
    modes = {
        "bias": dict(bias=[1, H, N, N]),
        "causal": dict(causal=True),
        "padding": padding,
        "custom": dict(tril=True),
        "causal+padding": dict(causal=True) | padding,
        "custom+padding": dict(tril=True) | padding,
        "bias+causal": dict(bias=[1, H, N, N], causal=True),
        "causal+sliding_window": dict(causal=True, window=[3, 2]),
    }
    for mode, options in modes.items():
        yield f"mask/{mode}", FULL | dict(seed=next(seed)) | options
    for batch in (1, 16):  # with and without vmap
        yield f"bias_gradient/B{batch}", FULL | dict(B=batch, seed=next(seed), bias=[batch, H, N, N], self=True, runs=2)


def answers(p):
    """Outputs and gradients, [B, H, N, E]."""
    shape = {"q": (p["B"], H, p["N_q"], E), "k": (p["B"], p["H_kv"], p["N_k"], E)}
    x = {key: seeded.numbers(p["seed"], what, shape[of])
         for key, what, of in (("q", seeded.Q, "q"), ("k", seeded.K, "k"), ("v", seeded.V, "k"), ("dout", seeded.DOUT, "q"))}
    if p.get("self"):
        x["k"] = x["v"] = x["q"]
    if p["bias"]:
        x["bias"] = seeded.numbers(p["seed"], seeded.BIAS, p["bias"])
    mask = np.tril(np.ones((1, 1, p["N_q"], p["N_k"]), bool)) if p.get("tril") else None
    lengths = {}
    if "key_lengths" in p:
        lengths = dict(query_seq_lengths=np.array(p["query_lengths"], np.int32),
                       key_value_seq_lengths=np.array(p["key_lengths"], np.int32))  # fmt: skip
    window = None if p["window"] == [-1, -1] else tuple(p["window"])

    def attend(q, k, v, bias):
        rows = [t.transpose(0, 2, 1, 3) for t in (q, k, v)]
        return jax.nn.dot_product_attention(*rows, bias, mask, is_causal=p["causal"], local_window_size=window,
                                            implementation="xla", **lengths).transpose(0, 2, 1, 3)  # fmt: skip

    out, pull = jax.vjp(attend, x["q"], x["k"], x["v"], x.get("bias"))
    gradients = dict(zip(("dq", "dk", "dv", "dbias"), pull(x["dout"])))
    if not p["bias"]:
        del gradients["dbias"]
    return {"out": out} | gradients


def main():
    jax.config.update("jax_enable_x64", True)
    tensors, metadata, runs = {}, {"jax": jax.__version__}, {}
    for name, p in cases():
        for key, value in answers(p).items():
            value = np.asarray(value)
            assert np.isfinite(value).all(), (name, key)
            tensors[f"{name}/{key}"] = seeded.samples(p["seed"], value)
        metadata[name] = json.dumps(p)
        group = name.split("/")[0]
        runs[group] = runs.get(group, 0) + p["runs"] * len(p["types"]) * len(p["train"])
    metadata["runs"] = json.dumps(runs)
    save_file(tensors, FILE, metadata)
    FILE.chmod(0o644)
    print(len(metadata) - 2, "cases stand for", runs, FILE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
