"""Attention rollout (Abnar and Zuidema 2020) of the goldens' own attention, by plain matrix products.

    python tests/golden/rollout.py     writes CASE/rollout.safetensors beside the expected answers

For each setting "FUSION.DISCARD.FIRST" a matrix [B, N, N] in float32 and, as NAME.float64, in float64:
the product of all blocks from FIRST on. A fraction DISCARD of the fused matrix's entries, the lowest,
is zeroed, as jacobgil/vit-explain does it (the class token's attention to itself stays), with the
keepdim that its issue 16 asks for. Needs torch and safetensors only.
"""
import torch
from pack import pack, unpacked
from safetensors.torch import load_file, save_file

FOLDER = unpacked("tests/golden")
FUSIONS = {"mean": lambda a: a.mean(1), "max": lambda a: a.amax(1), "min": lambda a: a.amin(1)}
SETTINGS = [("mean", 0.0, 0), ("mean", 0.0, 1), ("max", 0.0, 0), ("min", 0.0, 0), ("mean", 0.9, 0), ("max", 0.5, 0), ("min", 0.35, 1)]
# With and without a class token, with registers, two tokens, qk_norm, other sizes and grids that are not square.
CASES = [
    "timm_vit", "timm_reg4_cls", "timm_reg4_gap", "timm_non_square", "timm_resized", "timm_distilled", "timm_qk_norm",
    "hf_vit_non_square", "hf_dinov2_registers_resized", "vit_pytorch_non_square", "vit_pytorch_simple_non_square",
]
NO_CLASS_TOKEN = {"timm_reg4_gap", "vit_pytorch_simple_non_square"}


def rollout(attention, fusion, discard, first, class_token):
    """attention: the blocks' weights, each [B, H, N, N]."""
    result = torch.eye(attention[0].shape[-1], dtype=attention[0].dtype)
    for weights in attention[first:]:
        fused = FUSIONS[fusion](weights).clone()
        flat = fused.flatten(1)  # a view
        lowest = flat.argsort(dim=1)[:, : int(flat.shape[1] * discard)]
        for row, drop in zip(flat, lowest):
            row[drop[drop != 0] if class_token else drop] = 0
        mixed = (fused + torch.eye(fused.shape[-1], dtype=fused.dtype)) / 2
        result = mixed / mixed.sum(dim=-1, keepdim=True) @ result
    return result


def main():
    for case in CASES:
        expected = load_file(FOLDER / case / "expected.safetensors")
        tensors = {}
        for suffix in ("", ".float64"):
            blocks = sorted(int(k.split(".")[1]) for k in expected if k.startswith("attention.") and not k.endswith("64"))
            attention = [expected[f"attention.{block}{suffix}"] for block in blocks]
            for fusion, discard, first in SETTINGS:
                result = rollout(attention, fusion, discard, first, case not in NO_CLASS_TOKEN)
                tensors[f"{fusion}.{discard}.{first}{suffix}"] = result.contiguous()
        for name, value in tensors.items():  # the two precisions discard the same entries
            if not name.endswith("64"):
                assert (value - tensors[name + ".float64"]).abs().max() < 1e-5, (case, name)
        save_file(tensors, FOLDER / case / "rollout.safetensors")
        print(f"{case:32} {(FOLDER / case / 'rollout.safetensors').stat().st_size >> 10:4} KiB")
    pack()


if __name__ == "__main__":
    main()
