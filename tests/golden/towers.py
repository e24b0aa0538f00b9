"""Writes towers.tar: a small CLIP and a small SigLIP with tokenizers, and how transformers compares photos with
texts by them.

    python tests/golden/towers.py

Needs the environment of tools/reference_env.sh. The tokenizers are those of tests/text/golden.
"""
import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import torch
import torchvision_stub  # noqa: F401  before transformers
from pack import pack, unpacked
from PIL import Image
from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerFast, SiglipConfig, SiglipModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

TEXTS = ["a cat", "a dog on the beach", "seven", "the quick brown fox jumps over the lazy dog again and again and again"]
PHOTOS = ["7-black.png", "4-white.png"]
TEMPLATES = ["a photo of {}", "{}, drawn"]
VISION = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 16, "patch_size": 8}
TEXT = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 12}


def clip():
    text = {**TEXT, "vocab_size": 787, "eos_token_id": 1, "bos_token_id": 0}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=VISION, projection_dim=12))
    processor = CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    return model, processor, "clip", "<|endoftext|>", lambda logits: logits.softmax(-1)


def siglip():
    text = {**TEXT, "vocab_size": 640, "projection_size": 24}
    model = SiglipModel(SiglipConfig(text_config=text, vision_config=VISION))
    processor = SiglipImageProcessorPil(size={"height": 16, "width": 16})
    return model, processor, "siglip_json", "</s>", lambda logits: logits.sigmoid()


def main():
    torch.set_num_threads(1)
    for name, make in (("clip", clip), ("siglip", siglip)):
        torch.manual_seed(len(name))
        model, processor, tokenizer, pad, probabilities = make()
        with torch.no_grad():
            for key, value in model.named_parameters():
                if value.dim() > 1:
                    value.copy_(torch.randn_like(value) * 0.25)
            if hasattr(model, "logit_bias"):
                model.logit_scale.fill_(2.3)
                model.logit_bias.fill_(-2)
        model.eval()
        folder = unpacked("tests/golden/towers") / name
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        shutil.copy(unpacked("tests/text/golden") / tokenizer / "tokenizer.json", folder)
        (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": pad, "model_max_length": 12}) + "\n")
        words = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token=pad)

        def ids(texts):
            return words(texts, padding="max_length", max_length=12, truncation=True, return_tensors="pt").input_ids

        photos = [Image.open(ROOT / "examples/digits" / photo).convert("RGB") for photo in PHOTOS]
        pixels = processor(photos, return_tensors="pt").pixel_values
        with torch.no_grad():
            out = model(input_ids=ids(TEXTS), pixel_values=pixels)
            filled = [template.replace("{}", text) for text in TEXTS for template in TEMPLATES]
            each = model(input_ids=ids(filled), pixel_values=pixels).text_embeds
            mean = torch.nn.functional.normalize(each.view(len(TEXTS), len(TEMPLATES), -1).mean(1), dim=-1)
            logits = out.image_embeds @ mean.T * model.logit_scale.exp()
            if hasattr(model, "logit_bias"):
                logits = logits + model.logit_bias
        expected = {
            "texts": TEXTS, "photos": PHOTOS, "templates": TEMPLATES,
            "image_embeds": out.image_embeds.tolist(), "text_embeds": out.text_embeds.tolist(),
            "logits": out.logits_per_image.tolist(), "probabilities": probabilities(out.logits_per_image).tolist(),
            "template_probabilities": probabilities(logits).tolist(),
        }  # fmt: skip
        (folder / "expected.json").write_text(json.dumps(expected) + "\n")
        print(name, out.logits_per_image, sum(f.stat().st_size for f in folder.iterdir()) >> 10, "KiB")
    pack()


if __name__ == "__main__":
    main()
