"""Writes tasks.tar: small text models with tokenizers, and what transformers does with texts by them.

    python tests/golden/text/tasks.py

Needs the environment of tools/reference_env.sh. The tokenizers are those of tests/text/golden. Each folder has a model as
a user has it on disk, and expected.json: the texts, and their vectors or what was written for them.
"""
import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tools"), str(ROOT / "tests/golden")]
import torch
import torchvision_stub  # noqa: F401  before transformers
import transformers
from generate import BERT, LLAMA, MARIAN, T5, randomize
from pack import pack, unpacked
from transformers import AutoTokenizer, MarianTokenizer, PreTrainedTokenizerFast

TEXTS = ["The house is green.", "attention", "a dog and a cat, seven of them!", "The quick brown fox jumps over the lazy dog."]


def write(name, kind, args, tokenizer, make_tokenizer):
    folder = unpacked("tests/golden/tasks") / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in (unpacked("tests/text/golden") / tokenizer).iterdir():
        if file.name.endswith((".json", ".txt", ".spm", ".model")) and file.name not in ("ids.json", "more.json"):
            shutil.copy(file, folder)
    tok = make_tokenizer(folder)
    cls = getattr(transformers, kind)
    torch.manual_seed(len(name))
    special = {}
    if kind in ("MarianMTModel", "T5ForConditionalGeneration"):
        pad, eos = tok.convert_tokens_to_ids(["<pad>", "</s>"])
        special = dict(pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=eos)
        if kind == "MarianMTModel":
            special["forced_eos_token_id"] = eos
    vocabulary = 1 + max(tok.get_vocab().values())
    model = cls(cls.config_class(**{**args, **special, "vocab_size": vocabulary}))
    randomize(model, torch.Generator().manual_seed(len(name)))
    model = model.eval()
    model.save_pretrained(folder)
    return folder, tok, model


@torch.no_grad()
def embed(folder, tok, model):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}))
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{m}"} for i, (m, path) in enumerate(modules)]))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12}))
    vectors = []
    for text in TEXTS:
        ids = tok(text, truncation=True, max_length=12, return_tensors="pt").input_ids
        vectors += torch.nn.functional.normalize(model(ids).last_hidden_state.mean(1)).tolist()
    return {"vectors": vectors}


@torch.no_grad()
def write_texts(tok, model, texts):
    answers = {}
    for name, options in (("greedy", {}), ("beam", {"num_beams": 3})):
        answers[name] = []
        for text in texts:
            batch = tok(text, return_tensors="pt")
            out = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], do_sample=False,
                                 max_new_tokens=10, **{"num_beams": 1, **options})[0]
            if not model.config.is_encoder_decoder:
                out = out[batch["input_ids"].shape[1]:]
            answers[name].append(tok.decode(out, skip_special_tokens=True, clean_up_tokenization_spaces=False))
    return answers


def main():
    torch.set_num_threads(1)
    fast = lambda folder: PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))  # noqa: E731
    folder, tok, model = write("bert", "BertModel", BERT, "bert", lambda f: AutoTokenizer.from_pretrained(f))
    results = {folder: embed(folder, tok, model)}
    gpt2 = dict(n_embd=24, n_layer=2, n_head=3, n_positions=128, bos_token_id=0, eos_token_id=0)
    folder, tok, model = write("gpt2", "GPT2LMHeadModel", gpt2, "gpt2", fast)
    results[folder] = write_texts(tok, model, TEXTS)
    folder, tok, model = write("llama", "LlamaForCausalLM", {**LLAMA, "max_position_embeddings": 128}, "llama_json", fast)
    results[folder] = write_texts(tok, model, TEXTS)
    folder, tok, model = write("t5", "T5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}, "t5_json", fast)
    # The steps are those of tokenizer.json, as here, and not T5Tokenizer's.
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}\n')
    results[folder] = write_texts(tok, model, TEXTS)
    folder, tok, model = write("marian", "MarianMTModel", {**MARIAN, "max_position_embeddings": 128}, "marian", lambda f: MarianTokenizer.from_pretrained(f))
    results[folder] = write_texts(tok, model, TEXTS)
    for folder, result in results.items():
        (folder / "expected.json").write_text(json.dumps({"texts": TEXTS, **result}, indent=1, ensure_ascii=False) + "\n")
        print(folder.name, sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) >> 10, "KiB", str(result)[:150])
    pack()


if __name__ == "__main__":
    main()
