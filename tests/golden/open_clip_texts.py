"""Writes open_clip_* into towers.tar: small models of open_clip with tokenizers, and the ids and vectors that open_clip
makes of texts.

    python tests/golden/open_clip_texts.py [LINES]

LINES: write only the ids of every line of this file to LINES.simple and LINES.siglip, for a comparison
over many texts. Needs the environment of tools/reference_env.sh. The vocabularies are those of tests/text/golden.
"""
import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import torch
import torchvision_stub  # noqa: F401  before open_clip
from open_clip.model import CLIP, CustomTextCLIP
from open_clip.tokenizer import HFTokenizer, SimpleTokenizer
from pack import pack, unpacked
from safetensors.torch import save_file

TEXTS = [
    "a b",
    "a b c d e f",
    "A Photo of a DOG!",
    "it's a cat, a dog_and a bird...",
    "  salt &amp;amp; pepper &lt;3 &#39;caf&eacute;&#x27; &copy 2024 ",
    "“Ｗｉｄｅ”\u3000ﬁne\x07 prints\u2028here\x1b[31m",
    "ΟΔΟΣ ΣΑΣ. İstanbul",
    "the quick brown fox jumps over the lazy dog " + "again and " * 9,
    "",
]  # fmt: skip
LENGTH = 32
VISION = {"image_size": 16, "patch_size": 8, "layers": 1, "width": 16, "head_width": 8}
TEXT = {"context_length": LENGTH, "width": 16, "heads": 2, "layers": 2, "no_causal_mask": True}


def simple(folder):
    """open_clip's own tokenizer with few merges, and the same as files of Hugging Face."""
    merges = (unpacked("tests/text/golden") / "clip_slow/merges.txt").read_text().split("\n")[1:]
    merges = [merge for merge in merges if merge]
    with tempfile.NamedTemporaryFile(suffix=".gz") as file:
        Path(file.name).write_bytes(gzip.compress("\n".join(["#version: 0.2", *merges]).encode()))
        tokenizer = SimpleTokenizer(file.name, context_length=LENGTH)
    (folder / "vocab.json").write_text(json.dumps(tokenizer.encoder, ensure_ascii=False) + "\n")
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    names = {"bos_token": "<start_of_text>", "eos_token": "<end_of_text>", "unk_token": "<end_of_text>"}
    config = {"tokenizer_class": "CLIPTokenizer", "pad_token": "<end_of_text>", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    return tokenizer, {**TEXT, "vocab_size": tokenizer.vocab_size}, CLIP


def siglip(folder):
    shutil.copy(unpacked("tests/text/golden") / "siglip_json/tokenizer.json", folder)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    tokenizer = HFTokenizer(str(folder), context_length=LENGTH, clean="canonicalize")
    own = {"hf_tokenizer_name": "local", "tokenizer_kwargs": {"clean": "canonicalize"}}
    return tokenizer, {**TEXT, **own, "vocab_size": 640, "pool_type": "last", "proj_bias": True}, CustomTextCLIP


def main():
    torch.set_num_threads(1)
    for name, make in (("simple", simple), ("siglip", siglip)):
        folder = unpacked("tests/golden/towers") / f"open_clip_{name}"
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer, text, cls = make(folder)
        if len(sys.argv) > 1:
            lines = Path(sys.argv[1]).read_bytes().decode().split("\n")[:-1]
            rows = [" ".join(map(str, tokenizer([line])[0].tolist())) for line in lines]
            Path(f"{sys.argv[1]}.{name}").write_text("\n".join(rows) + "\n")
            continue
        torch.manual_seed(len(name))
        model = cls(12, VISION, text)
        with torch.no_grad():
            for value in model.parameters():
                if value.dim() > 1:
                    value.copy_(torch.randn_like(value) * 0.25)
            ids = [tokenizer([text]) for text in TEXTS]
            vectors = [model.eval().encode_text(row, normalize=True)[0].tolist() for row in ids]
        preprocess = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"}
        config = {"model_cfg": {"embed_dim": 12, "vision_cfg": VISION, "text_cfg": text}, "preprocess_cfg": preprocess}
        (folder / "open_clip_config.json").write_text(json.dumps(config) + "\n")
        save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "open_clip_model.safetensors")
        expected = {"texts": TEXTS, "ids": [row[0].tolist() for row in ids], "text_embeds": vectors}
        (folder / "expected.json").write_text(json.dumps(expected) + "\n")
        print(name, expected["ids"], sum(f.stat().st_size for f in folder.iterdir()) >> 10, "KiB")
    pack()


if __name__ == "__main__":
    main()
