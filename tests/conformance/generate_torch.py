#!/usr/bin/env python3
"""Writes tests/conformance/torch.safetensors: the cases of PyTorch's own tests of scaled_dot_product_attention on CPUs
(test/test_transformers.py, class TestSDPA), with what PyTorch answers.

    PYTHON tests/conformance/generate_torch.py      (tools/reference_env.sh prints the Python)

Metadata: for each case a JSON object of its parameters; the inputs follow from its seed (seeded.py). Tensors:
"CASE/out" and, where PyTorch's test trains, "CASE/dq", "/dk", "/dv": some elements, computed in float64 by the backend
that PyTorch calls MATH. "runs" says how many of PyTorch's cases a case stands for: its types, with and without training.
"""
import itertools
import json
import pathlib

import numpy as np
import seeded
import torch
from safetensors.numpy import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

FILE = pathlib.Path(__file__).parent / "torch.safetensors"
TYPES = ("float64", "float32", "bfloat16", "float16")
FULL = dict(B=1, H=1, H_kv=1, N_q=1, N_k=1, E=1, seed=0, causal=False, scale=0, bias=[], mask=[], train=[True, False],
            types=TYPES, layout="heads")  # fmt: skip


def cases():
    """Name and parameters of each."""
    seed = itertools.count(1)
    for B, N, H, E, causal in itertools.product([2, 12], [267, 1030], [1, 3], [8, 16], [True, False]):
        name = f"fused_vs_math/B{B}_N{N}_H{H}_E{E}" + ("_causal" if causal else "")
        yield name, FULL | dict(B=B, H=H, H_kv=H, N_q=N, N_k=N, E=E, causal=causal, seed=next(seed), layout="packed")
    B, H, N_q, N_k = 2, 3, 267, 514
    shapes = list(itertools.product([N_q, 1], [N_k, 1]))
    shapes += list(itertools.product([B, 1], [H, 1], [N_q, 1], [N_k, 1]))
    for shape, kind in itertools.product(shapes, ("bias", "mask")):
        name = f"mask_vs_math/{kind}_" + "x".join(map(str, shape))
        full = [1] * (4 - len(shape)) + list(shape)
        yield name, FULL | {"B": B, "H": H, "H_kv": H, "N_q": N_q, "N_k": N_k, "E": 8, "seed": next(seed), kind: full}
    yield "with_inf", FULL | dict(B=1, H=2, H_kv=2, N_q=600, N_k=600, E=8, seed=next(seed), bias=[1, 1, 600, 600],
                                  band=[-9, 0], train=[False], types=["float32"])  # fmt: skip
    # PyTorch's test multiplies one normal tensor of 64 × 64 by itself with a scale of -10000, so that each row has one
    # key; these queries differ from the keys, and some weights are shared.
    yield "negative_scale", FULL | dict(B=1, H=3, H_kv=3, N_q=64, N_k=64, E=64, seed=next(seed), scale=-1e4,
                                        train=[False], types=["float64"])  # fmt: skip
    yield "negative_scale/soft", FULL | dict(B=1, H=3, H_kv=3, N_q=64, N_k=64, E=64, seed=next(seed), scale=-0.125,
                                             train=[True, False])  # fmt: skip


def additive_or_mask(p):
    if p["mask"]:
        return torch.from_numpy(seeded.mask(p["seed"], p["mask"]))
    if "band" in p:
        distance = np.arange(p["N_k"])[None, :] - np.arange(p["N_q"])[:, None]
        hidden = (distance < p["band"][0]) | (distance > p["band"][1])
        return torch.from_numpy(np.where(hidden, -np.inf, 0.0)[None, None])
    return torch.from_numpy(seeded.numbers(p["seed"], seeded.BIAS, p["bias"])) if p["bias"] else None


def answers(p):
    """Outputs and gradients, an entry of the batch at a time: the largest would need gigabytes."""
    q_shape, k_shape = (p["B"], p["H"], p["N_q"], p["E"]), (p["B"], p["H_kv"], p["N_k"], p["E"])
    q, k, v, dout = (torch.from_numpy(seeded.numbers(p["seed"], what, shape)) for what, shape in
                     ((seeded.Q, q_shape), (seeded.K, k_shape), (seeded.V, k_shape), (seeded.DOUT, q_shape)))
    extra, results = additive_or_mask(p), []
    for b in range(p["B"]):
        x = [t[b : b + 1].requires_grad_() for t in (q.clone(), k.clone(), v.clone())]
        x = [t.detach().requires_grad_() for t in x]
        own = extra if extra is None or extra.shape[0] == 1 else extra[b : b + 1]
        with sdpa_kernel(backends=[SDPBackend.MATH]):
            out = torch.nn.functional.scaled_dot_product_attention(
                *x, attn_mask=own, is_causal=p["causal"], scale=p["scale"] or None)  # fmt: skip
        gradients = torch.autograd.grad(out, x, dout[b : b + 1]) if True in p["train"] else ()
        results.append([t.detach().numpy() for t in (out, *gradients)])
    return dict(zip(("out", "dq", "dk", "dv"), (np.concatenate(parts) for parts in zip(*results))))


def main():
    tensors, metadata, runs = {}, {"torch": torch.__version__}, {}
    for name, p in cases():
        got = answers(p)
        for key, value in got.items():
            assert np.isfinite(value).all(), (name, key)
            tensors[f"{name}/{key}"] = seeded.samples(p["seed"], value)
        metadata[name] = json.dumps(p)
        group = name.split("/")[0]
        runs[group] = runs.get(group, 0) + len(p["types"]) * len(p["train"])
    metadata["runs"] = json.dumps(runs)
    save_file(tensors, FILE, metadata)
    FILE.chmod(0o644)
    print(len(metadata) - 2, "cases stand for", runs, FILE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
