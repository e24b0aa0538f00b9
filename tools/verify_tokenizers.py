"""Compares `qkv tokenize` with the original tokenizers, id by id.

    python tools/verify_tokenizers.py [--qkv PROGRAM] [--lines FILE] [--count N] [--keep FOLDER] [--speed] [PATTERN...]

Needs PyPI's tokenizers, sentencepiece and transformers; with open_clip_torch's wheel unpacked or installed, CLIP's real
vocabulary is compared too. Vocabularies of each kind are trained on the lines of FILE (text in many scripts, one text a
line; --keep keeps them for the next run), and N lines and as many random texts are encoded by both sides. PATTERN are
shell patterns of names. Prints lines compared and differences; exit 1 if there are any. --speed measures both sides in
turn on one thread. Settings beside the files are compared by tools/tokenizer_settings.py.
"""
import argparse
import fnmatch
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import sentencepiece  # noqa: E402
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,  # noqa: E402
                        pre_tokenizers, processors, trainers)

ROOT = Path(__file__).resolve().parents[1]
GPT2_TOKENS = ["<|endoftext|>"]
# tests/text/golden/generate.py makes small vocabularies.
SIZE_LIMIT = None
RULES = {}  # in place of SentencePiece's named normalisation


def size(wanted):
    return min(wanted, SIZE_LIMIT or wanted)


# ---- vocabularies ----

def clip_parts(tokenizer):
    """What transformers' CLIPTokenizer is made of."""
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(
            Regex(r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""),
            behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    begin, end = "<|startoftext|>", "<|endoftext|>"
    tokenizer.add_special_tokens([AddedToken(begin, normalized=False), AddedToken(end, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(
        (end, tokenizer.token_to_id(end)), (begin, tokenizer.token_to_id(begin)), False, False)
    return tokenizer


def save_slow(tokenizer, folder, **config):
    """vocab.json, merges.txt and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(folder))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def train_clip(lines, folder):
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    clip_parts(tokenizer)
    trainer = trainers.BpeTrainer(vocab_size=size(20000), end_of_word_suffix="</w>", show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|startoftext|>", "<|endoftext|>"])
    tokenizer.train_from_iterator(lines, trainer)
    vocab = json.loads(tokenizer.to_str())["model"]
    # CLIP has every byte with and without the suffix.
    ids = {token: i for i, token in enumerate(
        list(vocab["vocab"]) + [c + "</w>" for c in pre_tokenizers.ByteLevel.alphabet() if c + "</w>" not in vocab["vocab"]])}
    model = models.BPE(vocab=ids, merges=[tuple(m) for m in vocab["merges"]], end_of_word_suffix="</w>",
                       continuing_subword_prefix="", unk_token="<|endoftext|>", fuse_unk=False)
    clip_parts(Tokenizer(model)).save(str(folder / "tokenizer.json"))


def train_gpt2(lines, folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size(20000), show_progress=False, special_tokens=GPT2_TOKENS,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens([AddedToken("qkv", single_word=True), AddedToken("Debian", lstrip=True, normalized=True)])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
    tokenizer.save(str(folder / "tokenizer.json"))


def train_llama3(lines, folder):
    """A Split with a long pattern in front of ByteLevel without one; ignore_merges."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size(12000), show_progress=False, special_tokens=["<|begin_of_text|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", 0)])])
    tokenizer.save(str(folder / "tokenizer.json"))


def train_sentencepiece(lines, prefix, **options):
    if RULES and options.get("normalization_rule_name") != "identity":
        options.pop("normalization_rule_name", None)
        options.update(RULES)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(prefix), minloglevel=2, num_threads=2,
        max_sentence_length=100000, **options)
    Path(f"{prefix}.vocab").unlink()


def model_proto(path):
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(Path(path).read_bytes())
    return proto


def train_siglip(lines, folder):
    train_sentencepiece(lines, folder / "spiece", model_type="unigram", vocab_size=size(16000), character_coverage=0.9995,
                        pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "SiglipTokenizer", "model_max_length": 64, "pad_token": "</s>", "eos_token": "</s>",
         "unk_token": "<unk>"}))


def train_gemma(lines, folder):
    train_sentencepiece(lines, folder / "tokenizer", model_type="bpe", vocab_size=size(16000), byte_fallback=True,
                        normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
                        character_coverage=0.999, pad_id=0, eos_id=1, bos_id=2, unk_id=3, split_digits=True,
                        allow_whitespace_only_pieces=True,
                        user_defined_symbols=["<start_of_turn>", "\n\n", "<h1>", "\u2581\u2581\u2581"])


def train_llama2(lines, folder):
    train_sentencepiece(lines, folder / "tokenizer", model_type="bpe", vocab_size=size(8000), byte_fallback=True,
                        normalization_rule_name="nmt_nfkc", character_coverage=0.995)


def train_unigram_bytes(lines, folder):
    train_sentencepiece(lines, folder / "tokenizer", model_type="unigram", vocab_size=size(8000), byte_fallback=True,
                        normalization_rule_name="nmt_nfkc_cf", character_coverage=0.99,
                        user_defined_symbols=["<sep>", "kernel", "abc def"])


def train_suffix(lines, folder):
    train_sentencepiece(lines, folder / "tokenizer", model_type="unigram", vocab_size=size(4000),
                        treat_whitespace_as_suffix=True, normalization_rule_name="nfkc", character_coverage=0.98)


def hf_siglip(source, folder):
    """What transformers' converter makes of a T5-like model."""
    proto = model_proto(source / "spiece.model")
    tokenizer = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=2, byte_fallback=False))
    charsmap = proto.normalizer_spec.precompiled_charsmap
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(charsmap), normalizers.Lowercase(),
        normalizers.Replace(Regex(r"[!\"\#\$%\&'\(\)\*\+,\-\.:;=\?@\[\\\]\^_`\{\|\}\~]"), ""),
        normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", 1)])
    tokenizer.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.save(str(folder / "tokenizer.json"))


def hf_t5(source, folder):
    proto = model_proto(source / "spiece.model")
    tokenizer = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=2, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first")
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.save(str(folder / "tokenizer.json"))


def sentencepiece_merges(proto, vocab):
    merges = []
    for piece in proto.pieces:
        if piece.type != 1:
            continue
        local = [(piece.piece[:i], piece.piece[i:]) for i in range(1, len(piece.piece))]
        local = [pair for pair in local if pair[0] in vocab and pair[1] in vocab]
        merges += [(piece.score, vocab[a], vocab[b], a, b) for a, b in local]
    merges.sort(key=lambda m: (-m[0], m[1], m[2]))
    return [(m[3], m[4]) for m in merges]


def hf_gemma(source, folder):
    """Siglip2Tokenizer: lower case, then Gemma's."""
    proto = model_proto(source / "tokenizer.model")
    vocab = {p.piece: i for i, p in enumerate(proto.pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=sentencepiece_merges(proto, vocab), unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<pad>", "</s>", "<s>", "<unk>"])
    tokenizer.add_tokens([AddedToken("<start_of_turn>", normalized=False), AddedToken("\n\n", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                             special_tokens=[("<s>", 2)])
    tokenizer.save(str(folder / "tokenizer.json"))


def hf_steps(lines, folder):
    """Every other step at once: unknown tokens, prefixes, accents, punctuation, digits."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip(), normalizers.Lowercase(),
        normalizers.Replace("debian", "Debian"), normalizers.Prepend(">")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.Split("e", "merged_with_previous")])
    trainer = trainers.BpeTrainer(vocab_size=size(6000), show_progress=False, special_tokens=["[UNK]", "[CLS]", "[SEP]"],
                                  continuing_subword_prefix="##", limit_alphabet=200)
    tokenizer.train_from_iterator(lines[:20000], trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.enable_truncation(40, direction="left")
    tokenizer.enable_padding(direction="left", pad_id=0, pad_token="[UNK]", length=32, pad_to_multiple_of=8)
    tokenizer.save(str(folder / "tokenizer.json"))


def hf_more_steps(lines, folder):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.NFD()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(),
        pre_tokenizers.Split(Regex(r"\w+|[^\w\s]"), "isolated", invert=True),
        pre_tokenizers.Metaspace(prepend_scheme="always", split=False)])
    trainer = trainers.BpeTrainer(vocab_size=size(6000), show_progress=False, special_tokens=["[UNK]"], limit_alphabet=500)
    tokenizer.train_from_iterator(lines[:20000], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))


def hf_byte_normalizer(lines, folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u0120", "merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=size(6000), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines[:20000], trainer)
    tokenizer.add_tokens([AddedToken("gnome", normalized=True, single_word=True), AddedToken("\u00e9t\u00e9", normalized=True)])
    tokenizer.save(str(folder / "tokenizer.json"))


def train_wordpiece(lines, folder, prefix="##", decoder=True, **normalizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix,
                                           max_input_chars_per_word=100 if decoder else 20))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=prefix, cleanup=decoder)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size(12000), show_progress=False, special_tokens=special,
                                        continuing_subword_prefix=prefix, limit_alphabet=1500 if not SIZE_LIMIT else 200)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.model.max_input_chars_per_word = 100 if decoder else 20
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.save(str(folder / "tokenizer.json"))


def train_bert(lines, folder):
    train_wordpiece(lines, folder, clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)


def train_bert_cased(lines, folder):
    train_wordpiece(lines, folder, prefix="_", decoder=False, clean_text=False, handle_chinese_chars=False,
                    strip_accents=True, lowercase=False)


def hf_bert_slow(source, folder, **config):
    """vocab.txt, with what transformers leaves to its configuration."""
    vocab = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in sorted(vocab, key=vocab.get)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **config}))


def hf_bert_options(source, folder):
    vocab = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    # Odd lines: white space at ends, a token twice, an empty one; the mask is not there.
    tokens[tokens.index("[MASK]")] = "[unused1]"
    tokens += ["a\u3000", "kernel", "kernel\u00a0", "", "caf\u00e9", "##\u00e9"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "DistilBertTokenizer", "do_lower_case": False, "strip_accents": False,
        "tokenize_chinese_chars": False, "model_max_length": 128, "clean_up_tokenization_spaces": True, "additional_special_tokens": ["<mask>"]}))
    (folder / "special_tokens_map.json").write_text(json.dumps({
        "cls_token": "[CLS]", "sep_token": {"content": "[SEP]", "lstrip": True, "rstrip": False, "normalized": False,
                                            "single_word": False}}))
    (folder / "added_tokens.json").write_text(json.dumps({"qkv": len(tokens), "Debian": len(tokens) + 1}))


def train_marian(lines, folder):
    """Two models on overlapping texts, and the vocabulary of both."""
    source = [line for line in lines if line.isascii()]
    target = [line for line in lines if not line.isascii()] + source[:len(source) // 4]
    options = {"model_type": "unigram", "vocab_size": size(8000), "character_coverage": 0.98,
               "eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}
    train_sentencepiece(source, folder / "source", **options)
    train_sentencepiece(target, folder / "target", **options)
    pieces = {}
    for name in ["source", "target"]:
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        for piece in model_proto(folder / f"{name}.spm").pieces:
            pieces.setdefault(piece.piece, len(pieces))
    # Published vocabularies lack a few pieces.
    for piece in list(pieces)[100::50]:
        del pieces[piece]
    tokens = ["</s>", "<unk>"] + [piece for piece in pieces if piece not in ("</s>", "<unk>")]
    tokens += [">>ita<<", ">>deu<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"source_lang": "eng", "target_lang": "mul", "tokenizer_class": "MarianTokenizer", "model_max_length": 512}))


def hf_t5_slow(source, folder):
    (folder / "spiece.model").write_bytes((source / "spiece.model").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "T5Tokenizer", "model_max_length": 512, "extra_ids": 100,
         "clean_up_tokenization_spaces": True}))


def hf_xlm_slow(source, folder):
    (folder / "sentencepiece.bpe.model").write_bytes((source / "spiece.model").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "XLMRobertaTokenizer", "model_max_length": 512, "cls_token": "<s>", "mask_token": {
            "__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": True, "rstrip": False,
            "single_word": False}}))


def train_roberta(lines, folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size(12000), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    tokenizer.save(str(folder / "tokenizer.json"))


def train_qwen2(lines, folder):
    """Qwen2Tokenizer's own pipeline."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size(12000), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))


def hf_llama_json(source, folder):
    """Llama's tokenizer.json, in the form with legacy set."""
    proto = model_proto(source / "tokenizer.model")
    vocab = {p.piece: i for i, p in enumerate(proto.pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=sentencepiece_merges(proto, vocab), unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ["<unk>", "<s>", "</s>"]])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                             special_tokens=[("<s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))


def real_clip(folder, vocabulary):
    """The vocabulary of open_clip as transformers stores it."""
    merges = gzip.open(vocabulary).read().decode().split("\n")[1:49152 - 256 - 2 + 1]
    merges = [tuple(line.split()) for line in merges]
    # Bytes in the order of GPT-2's table.
    order = list(range(ord("!"), ord("~") + 1)) + list(range(0xa1, 0xad)) + list(range(0xae, 0x100))
    characters = [chr(b) for b in order] + [chr(256 + i) for i in range(68)]
    vocab = characters + [c + "</w>" for c in characters] + ["".join(m) for m in merges]
    vocab += ["<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocab)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(" ".join(m) for m in merges) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CLIPTokenizer"}))


def find_open_clip():
    import importlib.util
    spec = importlib.util.find_spec("open_clip")
    places = [Path(p) for p in (spec.submodule_search_locations if spec else [])]
    places += [Path(p) for p in os.environ.get("QKV_OPEN_CLIP", "").split(":") if p]
    for place in places:
        if (place / "bpe_simple_vocab_16e6.txt.gz").exists():
            return place / "bpe_simple_vocab_16e6.txt.gz"
    return None


# ---- the originals ----

def huggingface(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda texts: [tokenizer.encode(text).ids for text in texts]


def transformers_class(name):
    def make(folder):
        import transformers
        tokenizer = getattr(transformers, name).from_pretrained(str(folder))
        return lambda texts: [tokenizer(text)["input_ids"] for text in texts]
    make.name = name
    return make


def target_of(folder):
    """Text -> ids of Marian's target side."""
    import transformers
    tokenizer = transformers.MarianTokenizer.from_pretrained(str(folder))
    return lambda text: tokenizer(text_target=text)["input_ids"]


def decoder_of(name, folder):
    """ids, whether special tokens are left out -> text; of cases whose original is not sentencepiece."""
    original = CASES[name][2]
    if original is huggingface:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        import transformers
        tokenizer = getattr(transformers, original.name).from_pretrained(str(folder))
    return lambda ids, skip: tokenizer.decode(ids, skip_special_tokens=skip)


def sentencepiece_model(folder):
    [path] = folder.glob("*.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return lambda texts: [processor.encode(text) for text in texts]


# name: (how its folder is made, from the lines or from another's folder; the original; bytes need not be UTF-8)
CASES = {
    "clip": (train_clip, None, huggingface, False),
    "clip_slow": (None, "clip", transformers_class("CLIPTokenizer"), False),
    "clip_real": (None, None, transformers_class("CLIPTokenizer"), False),
    "gpt2": (train_gpt2, None, huggingface, False),
    "gpt2_slow": (None, "gpt2", transformers_class("GPT2Tokenizer"), False),
    "llama3": (train_llama3, None, huggingface, False),
    "siglip": (train_siglip, None, transformers_class("SiglipTokenizer"), False),
    "siglip_model": (None, "siglip", sentencepiece_model, True),
    "siglip_json": (hf_siglip, "siglip", huggingface, False),
    "t5_json": (hf_t5, "siglip", huggingface, False),
    "gemma": (train_gemma, None, sentencepiece_model, True),
    "gemma_json": (hf_gemma, "gemma", huggingface, False),
    "llama2": (train_llama2, None, sentencepiece_model, True),
    "unigram_bytes": (train_unigram_bytes, None, sentencepiece_model, True),
    "suffix": (train_suffix, None, sentencepiece_model, True),
    "steps": (hf_steps, None, huggingface, False),
    "more_steps": (hf_more_steps, None, huggingface, False),
    "byte_normalizer": (hf_byte_normalizer, None, huggingface, False),
    "bert": (train_bert, None, huggingface, False),
    "bert_cased": (train_bert_cased, None, huggingface, False),
    "bert_slow": (hf_bert_slow, "bert", transformers_class("BertTokenizer"), False),
    "bert_options": (hf_bert_options, "bert", transformers_class("DistilBertTokenizer"), False),
    "marian": (train_marian, None, transformers_class("MarianTokenizer"), False),
    "t5_slow": (hf_t5_slow, "siglip", transformers_class("T5Tokenizer"), False),
    "xlm_slow": (hf_xlm_slow, "siglip", transformers_class("XLMRobertaTokenizer"), False),
    "roberta": (train_roberta, None, huggingface, False),
    "roberta_slow": (None, "roberta", transformers_class("RobertaTokenizer"), False),
    "qwen2": (train_qwen2, None, huggingface, False),
    "qwen2_slow": (None, "qwen2", transformers_class("Qwen2Tokenizer"), False),
    "llama_json": (hf_llama_json, "llama2", huggingface, False),
}


def make_folder(name, lines, work):
    """The folder of a case's files, made unless it is there; None if it cannot be."""
    make, source, _, _ = CASES[name]
    folder = work / name
    if folder.exists() and any(folder.iterdir()):
        return folder
    if name == "clip_real":
        vocabulary = find_open_clip()
        if vocabulary is None:
            return None
        real_clip(folder, vocabulary)
        return folder
    start = time.time()
    origin = make_folder(source, lines, work) if source else None
    folder.mkdir(parents=True, exist_ok=True)
    if name == "clip_slow":
        save_slow(Tokenizer.from_file(str(origin / "tokenizer.json")), folder, tokenizer_class="CLIPTokenizer",
                  model_max_length=77)
    elif name == "gpt2_slow":
        save_slow(Tokenizer.from_file(str(origin / "tokenizer.json")), folder, tokenizer_class="GPT2Tokenizer")
    elif name == "qwen2_slow":
        save_slow(Tokenizer.from_file(str(origin / "tokenizer.json")), folder, tokenizer_class="Qwen2Tokenizer",
                  added_tokens_decoder={str(i): {"content": token, "special": True} for token, i in sorted(
                      Tokenizer.from_file(str(origin / "tokenizer.json")).get_vocab().items(), key=lambda v: v[1])
                      if token.startswith("<|")})
    elif name == "roberta_slow":
        save_slow(Tokenizer.from_file(str(origin / "tokenizer.json")), folder, tokenizer_class="RobertaTokenizer")
    elif name == "siglip_model":
        (folder / "spiece.model").write_bytes((origin / "spiece.model").read_bytes())
    else:
        make(origin if source else lines, folder)
    print(f"  {name}: made in {time.time() - start:.0f} s", flush=True)
    return folder


# ---- texts ----

RANGES = [(1, 0x7f), (0x20, 0x7e), (0x80, 0x250), (0x300, 0x36f), (0x370, 0x52f), (0x590, 0x6ff), (0x900, 0xdff),
          (0xe00, 0xfff), (0x1100, 0x11ff), (0x1e00, 0x206f), (0x2070, 0x23ff), (0x2460, 0x27bf), (0x3000, 0x30ff),
          (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xfe00, 0xffff),
          (0x10000, 0x1ffff), (0x1f300, 0x1faff), (0x1f1e6, 0x1f1ff), (0x20000, 0x323af), (0xe0000, 0xe01ef),
          (1, 0x10ffff)]
SPECIAL = ["<|endoftext|>", "<|startoftext|>", "<mask>", "</s>", "<s>", "<unk>", "<pad>", "<start_of_turn>", "\u2581",
           "'s", "'LL", "don't", "  ", " ", "\t", "\u200d", "\u00a0", "</w>", "<0x0A>", "qkv", "Debian", "\u0130", "\u03a3",
           "abc def", "kernel", "[UNK]", "[MASK]", " [SEP] ", ">>ita<<", ">>xyz<< ", "<extra_id_7>", "n't", "<|im_end|>",
           "\ufeff", "\ufffd", "\u1e9e", "\ufb01", "\ufdfa", "\u00e9", "e\u0301", "\u2028", "\x85", "\x1c",
           "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\r\n", "123456", "\u0e33", "\u1100\u1161\u11a8", "#", "##"]


def random_text(rng, lines):
    kind = rng.random()
    if kind < 0.3:  # a line with something strange in it
        text = rng.choice(lines)
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(text))
            text = text[:at] + rng.choice(SPECIAL) + text[at + rng.randint(0, 3):]
        return text
    parts = []
    for _ in range(rng.randint(0, 12)):
        if rng.random() < 0.3:
            parts.append(rng.choice(SPECIAL))
            continue
        low, high = rng.choice(RANGES)
        for _ in range(rng.randint(1, 6)):
            code = rng.randint(low, high)
            parts.append("x" if 0xd800 <= code <= 0xdfff else chr(code))
        if rng.random() < 0.5:
            parts.append(" ")
    return "".join(parts)


def random_bytes(rng, lines):
    text = bytearray(random_text(rng, lines).encode())
    for _ in range(rng.randint(0, 4)):
        if text:
            text[rng.randrange(len(text))] = rng.randrange(1, 256)
    return bytes(text)


# ---- comparison ----

def run_qkv(program, folder, texts, work):
    """Ids of each text (str or bytes)."""
    path = work / "texts"
    path.write_bytes(b"".join((t if isinstance(t, bytes) else t.encode()) + b"\0" for t in texts))
    done = subprocess.run([*program, "tokenize", "-m", str(folder), "--null", str(path)], capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"{folder}: {done.stderr.decode()}")
    rows = done.stdout.decode().split("\n")[:-1]
    assert len(rows) == len(texts), (len(rows), len(texts))
    return [[int(i) for i in row.split()] for row in rows]


def compare(name, program, folder, texts, work, show=5):
    original = CASES[name][2](folder)
    theirs = original(texts)
    ours = run_qkv(program, folder, texts, work)
    differences = 0
    for text, a, b in zip(texts, theirs, ours):
        if list(a) != b:
            differences += 1
            if differences <= show:
                at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                print(f"    {text[:200]!r}\n      at {at}: original {list(a)[max(0, at - 2):at + 6]}, "
                      f"qkv {b[max(0, at - 2):at + 6]}")
    return differences, sum(map(len, theirs))


def speed(name, program, folder, texts, work, rounds=7):
    """Tokens a second of both, in turn: best and median seconds of each."""
    original = CASES[name][2](folder)
    path = work / "texts"
    path.write_bytes(b"".join(t.encode() + b"\0" for t in texts))
    theirs, ours = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        original(texts)
        theirs.append(time.perf_counter() - start)
        said = subprocess.run([*program, "tokenize", "-m", str(folder), "--null", "--time", "--threads", "1", str(path)],
                              capture_output=True, check=True)
        ours.append(float(said.stderr.split()[-2]))
    median = lambda values: sorted(values)[len(values) // 2]  # noqa: E731
    return min(theirs), median(theirs), min(ours), median(ours)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qkv", default=str(ROOT / "build/release/qkv"))
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("patterns", nargs="*", default=["*"])
    args = parser.parse_args()
    lines = [line for line in args.lines.read_text().split("\n") if line]
    work = args.keep or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)
    program = args.qkv.split()
    texts = lines[:args.count]
    strange = [random_text(rng, lines) for _ in range(args.count)]
    broken = [random_bytes(rng, lines) for _ in range(args.count)]
    # Zero bytes separate texts.
    strange = [text.replace("\0", "") for text in strange]
    failed = 0
    for name, (_, _, _, any_bytes) in CASES.items():
        if not any(fnmatch.fnmatch(name, pattern) for pattern in args.patterns):
            continue
        folder = make_folder(name, lines[:20000], work)
        if folder is None:
            print(f"{name}: left out, its vocabulary is not installed")
            continue
        if args.speed:
            a, b, c, d = speed(name, program, folder, texts, work)
            print(f"{name}: original best {a:.3f} s, median {b:.3f} s; qkv best {c:.3f} s, median {d:.3f} s; "
                  f"qkv is {a / c:.2f} (best), {b / d:.2f} (median) times as fast", flush=True)
            continue
        for kind, some in [("lines", texts), ("random texts", strange), ("random bytes", broken if any_bytes else [])]:
            if some:
                differences, tokens = compare(name, program, folder, some, work)
                failed += differences
                print(f"{name}: {len(some)} {kind}, {tokens} tokens, {differences} differences", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
