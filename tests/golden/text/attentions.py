"""Writes NAME/attentions.safetensors into tasks.tar: what transformers' models attend to in a text.

    python tests/golden/text/attentions.py

Needs the environment of tools/reference_env.sh, and the models of tasks.py. Of the first text of expected.json, in double
precision: "source" [1, N] ids; of a pair also "written" [1, T], the ids of the greedy text. Weights of every block and head:
"encoder" [L, H, N, N], "decoder" [L, H, T, T] and "cross" [L, H, T, N], row t of which is the step that wrote token t;
of a model with one part the same name.
"""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tools"), str(ROOT / "tests/golden")]
import torch
import torchvision_stub  # noqa: F401  before transformers
import transformers
from pack import pack, unpacked
from safetensors.torch import save_file
from transformers import AutoTokenizer, MarianTokenizer, PreTrainedTokenizerFast

CLASSES = {"bert": "BertModel", "gpt2": "GPT2LMHeadModel", "t5": "T5ForConditionalGeneration", "marian": "MarianMTModel"}


def tokenizer(name, folder):
    if name == "marian":
        return MarianTokenizer.from_pretrained(folder)
    if name == "bert":
        return AutoTokenizer.from_pretrained(folder)
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def stack(attentions):
    return torch.cat(attentions).float().contiguous()


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    for name, kind in CLASSES.items():
        folder = unpacked("tests/golden/tasks") / name
        model = getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager").double().eval()
        text = json.loads((folder / "expected.json").read_text())["texts"][0]
        source = tokenizer(name, folder)(text, return_tensors="pt").input_ids
        tensors = {"source": source.int()}
        if model.config.is_encoder_decoder:
            start = model.generation_config.decoder_start_token_id
            written = model.generate(source, do_sample=False, num_beams=1, max_new_tokens=10)[0, 1:]
            fed = torch.cat([torch.tensor([start]), written[:-1]])[None]
            out = model(input_ids=source, decoder_input_ids=fed, output_attentions=True)
            tensors |= {"written": written[None].int(), "encoder": stack(out.encoder_attentions),
                        "decoder": stack(out.decoder_attentions), "cross": stack(out.cross_attentions)}
        else:
            out = model(input_ids=source, output_attentions=True)
            tensors["decoder" if name == "gpt2" else "encoder"] = stack(out.attentions)
        save_file(tensors, folder / "attentions.safetensors")
        print(name, {k: list(v.shape) for k, v in tensors.items()}, (folder / "attentions.safetensors").stat().st_size)
    pack()


if __name__ == "__main__":
    main()
