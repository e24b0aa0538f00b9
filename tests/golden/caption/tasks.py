"""Writes vit_gpt2 and trocr into tasks.tar: small models that write about images, with tokenizers, and what
transformers writes about the photos of detector.tar.

    python tests/golden/caption/tasks.py

Needs the environment of tools/reference_env.sh. The tokenizers are those of tests/text/golden. Each folder has a model as
a user has it on disk, expected.json with the texts, and expected.safetensors with the pixels that transformers' processor
makes of the photos.
"""
import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from models import GPT2, TROCR, VIT, pack, randomize, unpacked  # brings what transformers needs before it
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file

PHOTOS = unpacked("tests/golden/detector/photos")


def write(name, tokenizer, decoder, arguments, processor):
    folder = unpacked("tests/golden/tasks") / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in (unpacked("tests/text/golden") / tokenizer).iterdir():
        if file.name.endswith((".json", ".txt")) and file.name not in ("ids.json", "more.json"):
            shutil.copy(file, folder)
    tok = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    vocabulary = 1 + max(tok.get_vocab().values())
    ids = {"decoder_start_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if decoder == "TrOCR":
        pad, end = tok.convert_tokens_to_ids(["<pad>", "</s>"])
        ids = {"decoder_start_token_id": end, "eos_token_id": end, "pad_token_id": pad}
    configs = (transformers.ViTConfig(**{**VIT, "image_size": 32}),
               getattr(transformers, f"{decoder}Config")(**{**arguments, "vocab_size": vocabulary}))
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(*configs)
    torch.manual_seed(len(name))
    model = transformers.VisionEncoderDecoderModel(config)
    randomize(model, torch.Generator().manual_seed(len(name)))
    model.generation_config = transformers.GenerationConfig(**ids, max_length=11)
    model.eval().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=1))
    return folder, tok, model


@torch.no_grad()
def answers(folder, tok, model):
    processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
    photos = sorted(file for file in PHOTOS.iterdir() if file.suffix in (".png", ".jpg"))
    pixels = [processor(Image.open(photo).convert("RGB"), return_tensors="pt").pixel_values for photo in photos]
    save_file({"pixels": torch.cat(pixels)}, folder / "expected.safetensors")
    texts = {"photos": [photo.name for photo in photos]}
    for name, options in (("greedy", {}), ("beam", {"num_beams": 3})):
        texts[name] = [tok.decode(model.generate(one, do_sample=False, **{"num_beams": 1, **options})[0],
                                  skip_special_tokens=True, clean_up_tokenization_spaces=False) for one in pixels]
    (folder / "expected.json").write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n")
    print(folder.name, sum(f.stat().st_size for f in folder.iterdir()) >> 10, "KiB", texts)


def main():
    torch.set_num_threads(1)
    size = {"height": 32, "width": 32}
    means = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    # As the two models' own repositories have it, of today and of the first versions.
    answers(*write("vit_gpt2", "gpt2", "GPT2", GPT2, {"image_processor_type": "ViTImageProcessor", "do_normalize": True,
                   "do_rescale": True, "do_resize": True, "resample": 2, "rescale_factor": 1 / 255, "size": size, **means}))
    answers(*write("trocr", "roberta", "TrOCR", {**TROCR, "cross_attention_hidden_size": 16},
                   {"feature_extractor_type": "ViTFeatureExtractor", "do_normalize": True, "do_resize": True, "resample": 2,
                    "size": 32, **means}))
    pack()


if __name__ == "__main__":
    main()
