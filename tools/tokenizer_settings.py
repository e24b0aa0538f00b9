"""Settings beside a tokenizer's files, and what AutoTokenizer of transformers 5 makes of them.

    python tools/tokenizer_settings.py [--qkv PROGRAM] [--golden FILE] [--show] [PATTERN...]

For each kind of tokenizer (small vocabularies of tests/text/golden) and each setting of tokenizer_config.json and
special_tokens_map.json, and for each key of each step of tokenizer.json: its neutral value, another valid one, null and a
wrong type. The ids of `qkv tokenize` are compared with the original's: equal, or refused with an error that names the
setting; a key that nobody knows has to be noted. Prints the counts; exits 1 if any differs silently. --golden writes a part of the cases, with decoded,
cut and padded texts, for tests/text/settings_test.cc.
"""
import argparse
import fnmatch
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
os.environ["HF_HUB_OFFLINE"] = "1"
import tokenizers  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/golden"))
from pack import unpacked  # noqa: E402

GOLDEN = unpacked("tests/text/golden")
TEXTS = ["Hello  World, the Café \u732b\u72ac.", " a photo of <new> two<im> x", "A</s> <s>b [MASK] <mask>  c <pad>[SEP]d",
         "<|endoftext|>a <|im_start|> b<unk> [UNK]", "it 's n't , a <NEW> test . <image> xnewx new <extra_id_3>", ""]
LENGTH = 6
OF_FILE = ("json.truncation", "json.padding")
WRONG = ("DIFFERENT", "NOT NOTED", "refused without a name")

# kind: (folder of the golden vocabularies, its files, tokenizer_class, may be in the goldens)
KINDS = {
    "bert_json": ("bert", ["tokenizer.json"], "BertTokenizer"),
    "bert_txt": ("bert_slow", ["vocab.txt"], "BertTokenizer"),
    "cased_json": ("bert_cased", ["tokenizer.json"], "DistilBertTokenizerFast"),
    "convbert_json": ("bert_cased", ["tokenizer.json"], "ConvBertTokenizer"),
    "mpnet_json": ("bert", ["tokenizer.json"], "MPNetTokenizer"),
    "mpnet_txt": ("bert_slow", ["vocab.txt"], "MPNetTokenizer"),
    "roberta_json": ("roberta", ["tokenizer.json"], "RobertaTokenizerFast"),
    "roberta_files": ("roberta_slow", ["vocab.json", "merges.txt"], "RobertaTokenizer"),
    "bart_files": ("roberta_slow", ["vocab.json", "merges.txt"], "BartTokenizer"),
    "gpt2_json": ("gpt2", ["tokenizer.json"], "GPT2Tokenizer"),
    "gpt2_files": ("roberta_slow", ["vocab.json", "merges.txt"], "GPT2Tokenizer"),
    "clip_json": ("clip", ["tokenizer.json"], "CLIPTokenizer"),
    "clip_files": ("clip_slow", ["vocab.json", "merges.txt"], "CLIPTokenizer"),
    "qwen2_json": ("qwen2", ["tokenizer.json"], "Qwen2Tokenizer"),
    "qwen2_files": ("qwen2_slow", ["vocab.json", "merges.txt"], "Qwen2Tokenizer"),
    "llama_json": ("llama_json", ["tokenizer.json"], "LlamaTokenizerFast"),
    "llama_model": ("llama2", ["tokenizer.model"], "LlamaTokenizer"),
    "gemma_json": ("gemma_json", ["tokenizer.json"], "GemmaTokenizer"),
    "gemma_model": ("gemma", ["tokenizer.model"], "GemmaTokenizer"),
    "siglip2_json": ("gemma_json", ["tokenizer.json"], "Siglip2Tokenizer"),
    "siglip2_model": ("gemma", ["tokenizer.model"], "Siglip2Tokenizer"),
    "t5_json": ("t5_json", ["tokenizer.json"], "T5Tokenizer"),
    "t5_model": ("t5_slow", ["spiece.model"], "T5Tokenizer"),
    "xlm_json": ("t5_json", ["tokenizer.json"], "XLMRobertaTokenizer"),
    "xlm_model": ("xlm_slow", ["sentencepiece.bpe.model"], "XLMRobertaTokenizer"),
    "camembert_json": ("t5_json", ["tokenizer.json"], "CamembertTokenizer"),
    "siglip_model": ("siglip", ["spiece.model"], "SiglipTokenizer"),
    "marian": ("marian", ["source.spm", "target.spm", "vocab.json"], "MarianTokenizer"),
    "backend_json": ("llama3", ["tokenizer.json"], "PreTrainedTokenizerFast"),
    "unigram_json": ("unigram_bytes", ["tokenizer.model"], "TokenizersBackend"),
    "backend_model": ("llama2", ["tokenizer.model"], "TokenizersBackend"),
    "byte_llama": ("llama3", ["tokenizer.json"], "LlamaTokenizerFast"),
}


def added(content, kind=True, **flags):
    return {**({"__type": "AddedToken"} if kind else {}), "content": content, "lstrip": False, "rstrip": False,
            "normalized": False, "single_word": False, **flags}


# key of tokenizer_config.json: values; the last is of a wrong type.
SETTINGS = {
    "do_lower_case": [True, False, None, "yes"],
    "strip_accents": [None, True, False, "yes"],
    "tokenize_chinese_chars": [True, False, 1],
    "add_prefix_space": [False, True, None, "yes"],
    "add_bos_token": [False, True, None, "yes"],
    "add_eos_token": [False, True, "yes"],
    "legacy": [False, True, None, "yes"],
    "clean_up_tokenization_spaces": [False, True, "yes"],
    "split_special_tokens": [False, True],
    "truncation_side": ["right", "left", "middle", 3],
    "padding_side": ["right", "left", "middle", 3],
    "model_max_length": [1000000000000000019884624838656, 4, None, "4"],
    "max_len": [4],
    "additional_special_tokens": [[], ["<new>", "<im>"], [added("<new>", lstrip=True, special=True)], None,
                                  [added("<new>", normalized=True)], "<new>", [5]],
    "extra_special_tokens": [[], ["<new>", "<im>"], {"b_token": "<new>", "a_token": "<im>"}, {},
                             [added("<new>", rstrip=True, special=True), "<new>"], 5],
    "image_token": ["<image>", added("<image>", lstrip=True), 5],
    "extra_ids": [100, 0, 10, "x"],
    "sp_model_kwargs": [{}, {"enable_sampling": True, "nbest_size": -1, "alpha": 0.1}],
    "init_inputs": [[]],
    "fast_tokenizer_files": [["tokenizer.json"]],
    "fix_mistral_regex": [False],
    "errors": ["replace", "strict"],
    "trim_offsets": [True, False],
    "do_basic_tokenize": [True, False],
    "never_split": [None, ["photo"]],
    "spaces_between_special_tokens": [False, True],
    "use_default_system_prompt": [False, True],
    "keep_accents": [True, False],
    "tokenizer_file": ["elsewhere.json"],
}
for key in ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]:
    SETTINGS[key] = ["<new>", None, added("<new>", lstrip=True, rstrip=True), added("a", normalized=True), 5]

# What special_tokens_map.json may have, too, as any key.
MAP_SETTINGS = ["do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space", "add_bos_token",
                "add_eos_token", "legacy", "split_special_tokens", "truncation_side", "model_max_length", "extra_ids"]

DECODER = {"900": added("<new>", False, special=True), "901": added("<im>", False, lstrip=True, rstrip=True)}
# The two keys of extra tokens, of every form; and what a class of tokenizers takes besides.
EXTRA = [None, [], {}, ["<new>", "<im>", "<new>"], {"b_token": "<new>", "a_token": "<image>"}]
OLDER = [None, [], {}, ["<im>", "<new>", "<im>"], [added("<image>", lstrip=True)], {"c_token": "<im>"}]
BOTH = [{"extra_special_tokens": extra, "additional_special_tokens": older}
        for extra, older in itertools.product(EXTRA, OLDER)]
BOTH += [{"model_specific_special_tokens": {"b_token": "<new>", "a_token": added("<im>", rstrip=True)}, **beside}
         for beside in ({}, {"image_token": "<image>"}, {"image_token": added("<image>")},
                        {"additional_special_tokens": ["<image>"]}, {"extra_special_tokens": {"c_token": "<image>"}})]
BOTH += [{"model_specific_special_tokens": value} for value in (None, {}, ["<new>"], {"a": 5})]
# name: files beside, whose tokenizer_config.json joins the class.
FILES = {
    "decoder": {"tokenizer_config.json": {"added_tokens_decoder": DECODER}},
    "decoder_normalized": {"tokenizer_config.json": {"added_tokens_decoder": {
        "900": added("<NEW>", False, normalized=True), "905": added("new", False, single_word=True)}}},
    "decoder_and_extra": {"tokenizer_config.json": {"added_tokens_decoder": DECODER, "additional_special_tokens": [
        "<im>", "<image>"], "pad_token": "<pad2>", "eos_token": "<im>"}},
    "decoder_counts_alone": {"tokenizer_config.json": {"added_tokens_decoder": DECODER},
                             "special_tokens_map.json": {"additional_special_tokens": ["<image>"], "pad_token": "<im>"},
                             "added_tokens.json": {"test": 950}},
    "decoder_empty": {"tokenizer_config.json": {"added_tokens_decoder": {}}},
    "decoder_wrong": {"tokenizer_config.json": {"added_tokens_decoder": {"900": "<new>"}}},
    "decoder_no_ids": {"tokenizer_config.json": {"added_tokens_decoder": {"x": added("<new>", False)}}},
    "added": {"added_tokens.json": {"<new>": 900, "<im>": 901}},
    "added_named": {"added_tokens.json": {"<new>": 901, "<im>": 900}, "tokenizer_config.json": {"mask_token": "<new>"}},
    "added_wrong": {"added_tokens.json": {"<new>": "x"}},
    "map": {"special_tokens_map.json": {"additional_special_tokens": ["<new>", "<im>"], "mask_token": "<image>"}},
    "map_flags": {"special_tokens_map.json": {"mask_token": added("<mask>", False, lstrip=True),
                                              "pad_token": added("<new>", False, normalized=True)}},
    "map_over_config": {"tokenizer_config.json": {"pad_token": "<image>", "additional_special_tokens": ["<new>"]},
                        "special_tokens_map.json": {"pad_token": "<im>", "additional_special_tokens": ["test"]}},
    "map_null": {"tokenizer_config.json": {"pad_token": "<image>"}, "special_tokens_map.json": {"pad_token": None}},
    "map_extra": {"tokenizer_config.json": {"extra_special_tokens": ["<new>"]},
                  "special_tokens_map.json": {"extra_special_tokens": ["<new>", "<im>"], "image_token": "<image>"}},
    **{f"both_{i}": {"tokenizer_config.json": config} for i, config in enumerate(BOTH)},
    **{f"twice_{i}": {"tokenizer_config.json": {"additional_special_tokens": tokens}} for i, tokens in enumerate([
        [added("<new>", rstrip=True, normalized=True), "<new>"], ["<new>", added("<new>", rstrip=True, normalized=True)],
        [added("<new>", lstrip=True, normalized=True), added("<new>", special=True, normalized=True), "<new>"]])},
    "own_order": {"tokenizer_config.json": {"b_token": "<new>", "extra_special_tokens": {"c_token": "<im>"}},
                  "special_tokens_map.json": {"a_token": "<image>", "extra_special_tokens": {"d_token": "<NEW>"},
                                              "additional_special_tokens": ["<pad2>"]}},
    "map_specific": {"special_tokens_map.json": {"model_specific_special_tokens": {"a_token": "<new>"}}},
    "bos_and_eos": {"tokenizer_config.json": {"add_bos_token": True, "add_eos_token": True, "bos_token": "<new>",
                                              "eos_token": "<im>"}},
    "prefix_and_legacy": {"tokenizer_config.json": {"add_prefix_space": False, "legacy": True}},
    "prefix_legacy": {"tokenizer_config.json": {"add_prefix_space": True, "legacy": True, "additional_special_tokens": [
        "<new>"]}},
    "clean_bpe": {"tokenizer_config.json": {
        "clean_up_tokenization_spaces": True,
        "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True}},
    "cased": {"tokenizer_config.json": {"do_lower_case": False, "strip_accents": True}},
}
# Steps of tokenizer.json, whose other keys are in STEP_VALUES.
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
ROBERTA = {"type": "RobertaProcessing", "sep": ["a", 5], "cls": ["b", 6], "trim_offsets": True, "add_prefix_space": True}
TEMPLATE = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {
    "id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"a": {"id": "a", "ids": [5], "tokens": ["a"]}}}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
STEPS = {
    "normalizer": [
        {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"},
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "StripAccents"}, {"type": "Nmt"},
        {"type": "Replace", "pattern": {"String": "o"}, "content": "b"}, {"type": "Prepend", "prepend": "a"},
        {"type": "Replace", "pattern": {"Regex": "[a-e]+"}, "content": ""}, {"type": "ByteLevel"},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
         "lowercase": True}, {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}],
    "pre_tokenizer": [
        {**BYTES, "use_regex": True}, METASPACE, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "_", "add_prefix_space": True},
        {"type": "Metaspace", "replacement": "_", "add_prefix_space": True, "prepend_scheme": "first", "str_rep": "_"},
        {"type": "Split", "pattern": {"String": "o"}, "behavior": "Isolated", "invert": False},
        {"type": "BertPreTokenizer"}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Punctuation"},
        {"type": "Digits", "individual_digits": False}, {"type": "CharDelimiterSplit", "delimiter": "a"},
        {"type": "UnicodeScripts"}, {"type": "FixedLength", "length": 5},
        {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}]}],
    "decoder": [
        BYTES, METASPACE, {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}]}],
    "post_processor": [BYTES, TEMPLATE, ROBERTA, {"type": "BertProcessing", "sep": ["a", 5], "cls": ["b", 6]},
                       {"type": "Sequence", "processors": [BYTES, TEMPLATE]}],
    "added_tokens": [{"id": 900, "content": "<new>", "single_word": False, "lstrip": False, "rstrip": False,
                      "normalized": False, "special": True}],
    "truncation": [{"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}],
    "padding": [{"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                 "pad_type_id": 0, "pad_token": "!"}],
}
STEP_VALUES = {
    "pattern": [{"String": " "}, {"Regex": "\\s+"}, {"String": "o", "Regex": "l"}, {"Mystery": "o"}],
    "behavior": ["Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous", "isolated"],
    "prepend_scheme": ["first", "never", "Always"], "replacement": ["_", "__"], "strip_accents": [True, False],
    "direction": ["Left", "Middle"], "strategy": ["OnlyFirst", "OnlySecond", {"Fixed": 8}, "Longest"],
    "max_length": [0, 100], "stride": [2, 100], "pad_to_multiple_of": [8], "pad_id": [3], "pad_type_id": [1],
    "pad_token": ["<new>"], "content": ["the", " "], "prepend": ["", "the "], "id": [0, 5], "sep": [["a", 9], ["a"]],
    "length": [2], "unk_token": ["<new>", "e"], "continuing_subword_prefix": ["##"], "end_of_word_suffix": ["e"],
    "dropout": [0.0, 0.5], "unk_id": [0, 100000], "max_input_chars_per_word": [3],
}
# Vocabularies for a step of the key, and for the options of each model.
STEP_BASE = "gpt2"
MODEL_OPTIONS = {
    "gpt2": {"dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False},
    "bert": {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
    "t5_json": {"unk_id": 2, "byte_fallback": False},
}
MODEL_TYPES = ["bert", "distilbert", "roberta", "gpt2", "clip", "qwen2", "qwen3", "llama", "mistral", "gemma", "siglip",
               "siglip2", "t5", "xlm-roberta", "marian", "mpnet", "vit", "modernbert", "camembert", "deberta", "whisper", "olmo", "gpt_neox", "qwen3_5"]
# Classes that make steps of their own, whatever tokenizer.json says; the last is none of transformers.
CLASSES = ["CodeLlamaTokenizer", "GPTNeoXTokenizer", "GPTNeoXTokenizerFast", "WhisperTokenizer", "DebertaTokenizer",
           "CohereTokenizerFast", "CodeGenTokenizer", "NllbTokenizer", "OpenAIGPTTokenizer", "FunnelTokenizer",
           "CamembertTokenizerFast", "AlbertTokenizer", "HerbertTokenizerFast", "BertJapaneseTokenizer",
           "SomethingTokenizer"]
CLASS_KINDS = ["bert_json", "roberta_json", "gpt2_files", "llama_json", "t5_json"]


# What the goldens have: of all kinds the neutral settings and some others, of some kinds all that is refused.
GOLDEN_ANSWERS = ["errors:0", "do_lower_case:1", "add_prefix_space:0", "add_prefix_space:1", "prefix_legacy", "bos_and_eos",
                  "truncation_side:1", "padding_side:1", "extra_special_tokens:2", "decoder_and_extra",
                  "decoder_normalized", "map_over_config", "both_27", "both_30", "own_order", "type:siglip2:True", "type:qwen2:True",
                  "type:mistral:True", "type:camembert:False", "class:CamembertTokenizerFast", "class:SomethingTokenizer"]
GOLDEN_REFUSALS = ["bert_json", "t5_model", "backend_model"]


def cases():
    """name, folder of the vocabulary, its files, files beside, the setting that an error has to name."""
    for kind, (folder, files, name) in KINDS.items():
        def case(label, beside, keys, stated=True):
            config = {**({"tokenizer_class": name} if stated else {}), **beside.get("tokenizer_config.json", {})}
            return (f"{kind}:{label}", folder, files, {**beside, "tokenizer_config.json": config}, keys)
        for key, values in SETTINGS.items():
            for i, value in enumerate(values):
                yield case(f"{key}:{i}", {"tokenizer_config.json": {key: value}}, [key])
        for file in ("tokenizer_config.json", "special_tokens_map.json"):
            yield case(f"{file}.unknown", {file: {"mystery": 1}}, ["mystery"])
        for key in MAP_SETTINGS:
            for i, value in enumerate(SETTINGS[key][:2]):
                yield case(f"map.{key}:{i}", {"special_tokens_map.json": {key: value}}, [key])
        for label, beside in FILES.items():
            yield case(label, beside, [k for b in beside.values() for k in b] + list(beside))
        for other in CLASSES if kind in CLASS_KINDS else []:
            yield case(f"class:{other}", {"tokenizer_config.json": {"tokenizer_class": other}},
                       [other.removesuffix("Fast"), "tokenizer_class"])
        for model_type in MODEL_TYPES:
            for stated in (True, False):
                yield case(f"type:{model_type}:{stated}", {"config.json": {"model_type": model_type}},
                           ["tokenizer_class", name, model_type], stated)


def changed(step):
    """Label and the step with one key of another value."""
    yield "as it is", "", step
    yield "unknown", "mystery", {**step, "mystery": 1}
    for key, value in step.items():
        if key == "type":
            continue
        yield "missing", key, {k: v for k, v in step.items() if k != key}
        wrong = "x" if isinstance(value, (int, float)) and not isinstance(value, bool) else 5
        for i, other in enumerate([None, wrong, *([not value] if isinstance(value, bool) else []), *STEP_VALUES.get(key, [])]):
            yield str(i), key, {**step, key: other}


def step_cases():
    """The same of tokenizer.json; the class takes all of it."""
    def case(label, base, content, key, kind=()):
        beside = {"tokenizer.json": content}
        if not label.startswith(OF_FILE):
            beside["tokenizer_config.json"] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        return (label, base, ["tokenizer.json"], beside, [*([key] if key else []), *kind])
    plain = json.loads((GOLDEN / STEP_BASE / "tokenizer.json").read_text())
    for place, steps in STEPS.items():
        for number, step in enumerate(steps):
            for label, key, other in changed(step):
                put = [other] if place == "added_tokens" else other
                if place == "pre_tokenizer":
                    put = {"type": "Sequence", "pretokenizers": [other, BYTES]}
                yield case(f"json.{place}:{number}.{key}:{label}", STEP_BASE, {**plain, place: put}, key,
                           [step["type"]] if "type" in step else [])
    for token in ("!", "<new>"):
        yield case(f"json.named:{token}", STEP_BASE, {**plain, "padding": {**STEPS["padding"][0], "pad_token": token}},
                   "pad_token")
    for base, options in MODEL_OPTIONS.items():
        json_of = json.loads((GOLDEN / base / "tokenizer.json").read_text())
        for label, key, other in changed(options):
            model = {k: v for k, v in json_of["model"].items() if k not in options}
            yield case(f"json.model:{base}.{key}:{label}", base, {**json_of, "model": {**model, **other}}, key)
    for key, value in [("version", None), ("version", "2.0"), ("mystery", 1), ("added_tokens", None), ("added_tokens", {}),
                       ("normalizer", 5), ("pre_tokenizer", []), ("decoder", "x"), ("post_processor", {})]:
        yield case(f"json.file:{key}:{value}", STEP_BASE, {**plain, key: value}, key)


def make(folder, base, files, beside):
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy(GOLDEN / base / file, folder / file)
    for file, content in beside.items():
        (folder / file).write_text(json.dumps(content))


def original(folder, from_file):
    """What AutoTokenizer gives, or the tokenizers library for the file alone; or the error."""
    from transformers import AutoTokenizer
    try:
        if from_file:  # whose truncation and padding transformers leaves to the caller
            tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            return {"ids": [tokenizer.encode(text).ids for text in TEXTS]}
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        answer = {"ids": [list(map(int, tokenizer(text)["input_ids"])) for text in TEXTS]}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  a panic of tokenizers is no Exception
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    try:
        # Ids above the vocabulary's have no token in some of its classes.
        answer["decoded"] = [tokenizer.decode(ids, skip_special_tokens=True) for ids in answer["ids"]]
        answer["cut"] = [list(map(int, tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]))
                         for text in TEXTS]
        answer["padded"] = (None if tokenizer.pad_token_id is None else
                            [list(map(int, row)) for row in tokenizer(TEXTS, padding=True)["input_ids"]])
    except Exception as error:  # noqa: BLE001
        answer["decode_error"] = f"{type(error).__name__}: {str(error)[:200]}"
    return answer


def ours(program, folder, work):
    path = work / "texts"
    path.write_bytes(b"".join(text.encode() + b"\0" for text in TEXTS))
    done = subprocess.run([*program, "tokenize", "-m", str(folder), "--null", str(path)], capture_output=True)
    if done.returncode != 0:
        return {"error": done.stderr.decode().strip()}
    return {"ids": [[int(i) for i in row.split()] for row in done.stdout.decode().split("\n")[:-1]],
            "note": done.stderr.decode()}


def verdict(label, wanted, got, keys):
    if "error" in got:
        if any(key in got["error"] for key in keys) and any(file in got["error"] for file in ("token", "vocab")):
            return "refused"
        return "both fail" if "error" in wanted else "refused without a name"
    if "error" in wanted:
        return "original fails"
    if "unknown" in label and keys[0] not in got["note"]:
        return "NOT NOTED"
    return "equal" if wanted["ids"] == got["ids"] else "DIFFERENT"


def write_golden(path, rows):
    answers, index, out = [], {}, []
    for (name, base, files, beside, keys), wanted, word in rows:
        kind, label = name.split(":", 1)
        if not (word == "equal" and label in GOLDEN_ANSWERS or word == "refused" and kind in GOLDEN_REFUSALS):
            continue
        # As text: the order of keys counts.
        entry = {"name": name, "base": base, "files": files,
                 "beside": {file: json.dumps(content, ensure_ascii=False) for file, content in beside.items()}}
        if "side" not in label and label != GOLDEN_ANSWERS[0]:
            wanted = {key: value for key, value in wanted.items() if key not in ("cut", "padded")}
        if word == "refused":
            entry["names"] = keys
        elif word == "equal" and "decode_error" not in wanted:
            key = json.dumps(wanted)
            if key not in index:
                index[key] = len(answers)
                answers.append(wanted)
            entry["answer"] = index[key]
        else:
            continue
        out.append(entry)
    dump = lambda values: ",\n".join(json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in values)  # noqa: E731
    path.write_text(f'{{"texts": {json.dumps(TEXTS)}, "length": {LENGTH},\n"answers": [\n{dump(answers)}],\n'
                    f'"cases": [\n{dump(out)}]}}\n')
    print(f"{path}: {len(out)} cases, {len(answers)} answers, {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qkv", default=str(ROOT / "build/release/qkv"))
    parser.add_argument("--golden", type=Path)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("patterns", nargs="*", default=["*"])
    args = parser.parse_args()
    counts, rows = Counter(), []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for i, case in enumerate(itertools.chain(cases(), step_cases())):
            name, base, files, beside, keys = case
            if not any(fnmatch.fnmatch(name, pattern) for pattern in args.patterns):
                continue
            folder = work / str(i)
            make(folder, base, files, beside)
            wanted, got = original(folder, name.startswith(OF_FILE)), ours(args.qkv.split(), folder, work)
            word = verdict(name, wanted, got, keys)
            counts[word] += 1
            rows.append((case, wanted, word))
            if word in WRONG or args.show and word != "equal":
                print(f"{name}: {word}\n  original {wanted.get('error', wanted.get('ids'))}\n"
                      f"  qkv      {got.get('error', got.get('ids'))}", flush=True)
            shutil.rmtree(folder)
    if args.golden:
        write_golden(args.golden, rows)
    print(f"{sum(counts.values())} comparisons: " + ", ".join(f"{n} {word}" for word, n in counts.most_common()))
    return 1 if any(counts[word] for word in WRONG) else 0


if __name__ == "__main__":
    sys.exit(main())
