"""Compares qkv with the installed originals: what `make verify` runs.

    python tools/verify.py [--convert] [--qkv PROGRAM] [--small] [--keep FOLDER] [PATTERN...]

For every configuration of tests/golden/cases.py, and for full-size models of each family, the
original (timm, transformers, vit-pytorch) is made with random weights, saved as its library
saves it and run in float32 and float64; `qkv verify` then runs the saved model and compares
logits, tokens, hidden states and attention. Exit 1 when one of them disagrees. Unlike the
goldens, nothing here is kept, so the models may be large. PATTERN are shell patterns of names.

With --convert, `qkv convert` instead writes each model for the other library (timm for
transformers, transformers for timm), which must load it strictly and answer the same.
"""
import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/golden"))

from cases import CASES  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from originals import Case, answers, build, channels, run, save, save_file, trained_size  # noqa: E402


def timm_full(arch, size=None, **args):
    suffix = f"_at_{size[0]}x{size[1]}" if size else ""
    return Case(f"full_timm_{arch}{suffix}", "timm", arch, args, size, batch=1)


def hf_full(name, kind, size=None, **args):
    return Case(f"full_hf_{name}", "transformers", kind, {"image_size": 224, **args}, size, batch=1)


SMALL = dict(hidden_size=384, num_attention_heads=6)  # of ViT-S; depth 12 is the default
DINOV2 = dict(SMALL, image_size=518, patch_size=14)  # a grid of 37×37, interpolated to the input's
FULL = [
    timm_full("vit_tiny_patch16_224", img_size=224),
    timm_full("vit_tiny_patch16_224", img_size=224, size=(192, 320)),
    timm_full("vit_base_patch16_224", img_size=224),
    timm_full("vit_base_patch32_clip_224", img_size=224),
    timm_full("vit_base_patch16_siglip_224", img_size=224),
    timm_full("vit_medium_patch16_reg4_gap_256", img_size=256),
    timm_full("vit_small_patch14_dinov2", img_size=224),
    timm_full("vit_small_patch14_reg4_dinov2", img_size=518, size=(238, 182)),
    timm_full("deit_small_patch16_224", img_size=224),
    timm_full("deit_tiny_distilled_patch16_224", img_size=224),
    timm_full("deit3_small_patch16_224", img_size=224),
    hf_full("vit_base", "ViTForImageClassification", num_labels=1000),
    hf_full("vit_small_at_288x160", "ViTForImageClassification", (288, 160), **SMALL, intermediate_size=1536),
    hf_full("deit_small_teacher", "DeiTForImageClassificationWithTeacher", **SMALL, intermediate_size=1536),
    timm_full("beit_base_patch16_224", img_size=224),
    timm_full("beitv2_base_patch16_224", img_size=224, size=(192, 320)),
    hf_full("beit_base", "BeitForImageClassification", use_relative_position_bias=True, num_labels=1000),
    hf_full("beit_small_shared_at_288x160", "BeitModel", (288, 160), **SMALL, intermediate_size=1536,
            use_shared_relative_position_bias=True, use_absolute_position_embeddings=True, use_mean_pooling=False),
    hf_full("data2vec_small", "Data2VecVisionForImageClassification", **SMALL, intermediate_size=1536,
            use_relative_position_bias=True, num_labels=1000),
    hf_full("yolos_tiny", "YolosForObjectDetection", (512, 672), image_size=(800, 1333), hidden_size=192,
            num_attention_heads=3, intermediate_size=768, num_labels=91, use_mid_position_embeddings=False),
    hf_full("yolos_base", "YolosForObjectDetection", (352, 432), image_size=(512, 864), num_labels=91),
    hf_full("eomt_small", "EomtForUniversalSegmentation", image_size=320, hidden_size=384, num_attention_heads=6,
            num_hidden_layers=12, num_queries=100, num_labels=133),
    hf_full("dinov2_small", "Dinov2Model", (224, 224), **DINOV2),
    hf_full("dinov2_small_classifier_at_154x252", "Dinov2ForImageClassification", (154, 252), **DINOV2),
    hf_full("dinov2_small_registers", "Dinov2WithRegistersModel", (224, 182), **DINOV2),
    hf_full("dinov3_small", "DINOv3ViTModel", num_register_tokens=4),
    hf_full("dinov3_small_plus_at_288x160", "DINOv3ViTModel", (288, 160), num_register_tokens=4, use_gated_mlp=True,
            hidden_act="silu"),
    hf_full("mae_small", "ViTMAEModel", patch_size=16, **SMALL, intermediate_size=1536),
    hf_full("msn_small", "ViTMSNModel", patch_size=16, **SMALL, intermediate_size=1536),
    hf_full("ijepa_small", "IJepaModel", patch_size=16, **SMALL, intermediate_size=1536),
    timm_full("vit_small_patch16_dinov3_qkvb", img_size=256),
    timm_full("vit_small_patch16_dinov3", img_size=256, size=(192, 320)),
    timm_full("eva02_small_patch14_336", img_size=336),
    timm_full("eva02_base_patch16_clip_224", img_size=224),
    timm_full("vit_pe_core_small_patch16_384", img_size=384),
    timm_full("vit_pe_spatial_tiny_patch16_512", img_size=512),
    timm_full("vit_small_patch16_rope_224", img_size=224),
    timm_full("vit_small_patch16_rope_mixed_ape_224", img_size=224, size=(192, 320)),
    Case("full_hf_clip_base_patch32", "transformers", "CLIPModel", batch=1, args=dict(
        vision_config=dict(image_size=224, patch_size=32), projection_dim=512,
        text_config=dict(vocab_size=49408, max_position_embeddings=77, eos_token_id=2))),
    Case("full_hf_siglip_base", "transformers", "SiglipModel", batch=1, args=dict(
        vision_config=dict(image_size=224, patch_size=16),
        text_config=dict(vocab_size=32000, max_position_embeddings=64))),
    Case("full_vit_pytorch", "vit-pytorch", "ViT", batch=1, args=dict(
        image_size=256, patch_size=32, num_classes=1000, dim=1024, depth=6, heads=16, mlp_dim=2048)),
    Case("full_vit_pytorch_simple", "vit-pytorch", "SimpleViT", batch=1, args=dict(
        image_size=224, patch_size=16, num_classes=1000, dim=384, depth=12, heads=6, mlp_dim=1536)),
]  # fmt: skip


def verify(case, program, folder):
    """(passed, what `qkv verify` said). The folder holds the model and reference.safetensors."""
    model = build(case)
    save(case, model, folder)
    # Beside the model, not in it: a model's folder is read whole.
    reference = folder.with_suffix(".reference.safetensors")
    save_file(answers(case, model), reference)
    done = subprocess.run([program, "verify", "-m", folder, reference], capture_output=True, text=True)
    said = (done.stdout + done.stderr).strip()
    if done.returncode < 0:
        said += f"\nkilled by signal {-done.returncode}"
    return done.returncode == 0, said


def load_converted(library, folder):
    """(case, model): what `library` makes of the folder, refusing missing and left-over tensors."""
    if library == "timm":
        model = timm.create_model(f"local-dir:{folder}", pretrained=True)  # strict
        return Case(folder.name, "timm", "", {}), model.eval()
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    bare = {"add_pooling_layer": False} if kind in ("ViTModel", "DeiTModel") else {}
    model, info = getattr(transformers, kind).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **bare)  # fmt: skip
    assert not any(info.values()), f"{kind} does not load it strictly: {info}"
    return Case(folder.name, "transformers", kind, {}), model.eval()


def verify_convert(case, program, folder):
    """(passed, what there is to say). The trained size only: elsewhere the libraries interpolate differently."""
    other = {"timm": "transformers", "transformers": "timm"}.get(case.library)
    model = build(case)
    save(case, model, folder)
    there = folder.with_suffix(".converted")
    layout = {"timm": "timm", "transformers": "hf"}.get(other, "timm")
    done = subprocess.run([program, "convert", "-m", folder, "-o", there, "--force", "--layout", layout],
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode != 0:
        refused = done.returncode == 1 and "cannot be written for" in done.stderr
        return refused, done.stderr.strip()
    pixels = torch.randn(2, channels(case), *trained_size(case), generator=torch.Generator().manual_seed(1))
    expected, got = run(case, model, pixels), run(*load_converted(other, there), pixels)
    gaps = {k: float((got[k] - expected[k]).abs().max() / expected[k].abs().max()) for k in ("logits", "tokens")}
    # float32's rounding; and LayerNorm's eps, which timm's configuration cannot say (1e-12 becomes 1e-6).
    return max(gaps.values()) <= 1e-5, ", ".join(f"{k} differ by {gap:.1e}" for k, gap in gaps.items())


def select(patterns, small):
    cases = list(CASES.values()) + ([] if small else FULL)
    if not patterns:
        return cases
    return [c for c in cases if any(fnmatch.fnmatch(c.name, p) for p in patterns)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--qkv", default=ROOT / "build/release/qkv", type=Path, metavar="PROGRAM")
    parser.add_argument("--convert", action="store_true", help="check qkv convert instead of qkv verify")
    parser.add_argument("--small", action="store_true", help="leave out the full-size models")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep models and references there")
    parser.add_argument("-v", "--verbose", action="store_true", help="print all that qkv verify says")
    options = parser.parse_args()
    if not options.qkv.is_file():
        sys.exit(f"{options.qkv}: no such program; run `make build` first")
    cases = select(options.patterns, options.small)
    if not cases:
        sys.exit("no configuration has such a name")

    failed = []
    width = max(len(case.name) for case in cases)
    for case in cases:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="qkv-verify-") as temporary:
            folder = Path(options.keep or temporary) / case.name
            passed, said = (verify_convert if options.convert else verify)(case, options.qkv, folder)
        print(f"{case.name:{width}}  {'ok  ' if passed else 'FAIL'}  {time.perf_counter() - start:6.1f} s", flush=True)
        if not passed:
            failed.append(case.name)
        if said and (options.verbose or not passed):
            print("    " + said.replace("\n", "\n    "), flush=True)
    print(f"\n{len(cases) - len(failed)} passed, {len(failed)} failed" + "".join(f"\n  {name}" for name in failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
