"""Makes the small vocabularies and the ids of tests/text: needs PyPI's tokenizers, sentencepiece and transformers.

    python tests/text/golden/generate.py [NAME...]

texts.json has texts as hexadecimal UTF-8, and bytes that are none. vocabularies.tar has a folder for each tokenizer, with its files and ids.json:
the ids of each text by the original library. Those of MORE have more.json too: further texts with their ids, and these
decoded without special tokens and with them. The texts that vocabularies are trained on are the documentation of this
project and the sentences below. trained/tokenizer.json is learned by PyPI's BpeTrainer from texts.json.
settings.json is made by `tools/tokenizer_settings.py --golden`. With names only these are made, for texts.json as it is.
"""
import json
import random
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path += [str(ROOT / "tools"), str(ROOT / "tests/golden")]
import verify_tokenizers as verify  # noqa: E402
from pack import pack, unpacked  # noqa: E402

FOLDER = unpacked("tests/text/golden")

SENTENCES = [
    "A photo of a cat, and a photo of two dogs.", "Ein Foto von einer Katze und zwei Hunden über dem Fluß.",
    "Une photo d'un chat et de deux chiens, l'été dernier.", "Una foto di un gatto e di due cani: perché no?",
    "Фотография кошки и двух собак.", "Φωτογραφία μιας γάτας και δύο ΣΚΎΛΩΝ.", "猫と二匹の犬の写真です。", "一张猫和两只狗的照片。",
    "고양이 한 마리와 개 두 마리의 사진입니다.", "صورة لقطة وكلبين", "תמונה של חתול ושני כלבים", "एक बिल्ली और दो कुत्तों की तस्वीर",
    "ภาพถ่ายของแมวและสุนัขสองตัว", "I don't know; they've said it's 1234.5 km, I'll go.", "kernel kernel abc def qkv Debian gnome",
]
EDGES = [
    "", " ", "   ", "\n", "\t\t", "a", " a", "a ", "  a  b  ", "\u0000", "a\u0000b", "\u0001\u0002", "\r\n\r\n", "\u00a0", "\u3000a\u3000",
    "e\u0301", "\u00e9", "\u1e69\u0323", "\u0301", "\u1100\u1161\u11a8", "\ud55c\uae00", "\ufb01", "\ufdfa", "\u0130", "\u03a3\u03a3", "\u1e9e", "\u01c5",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\u200b\u200e\ufeff", "\u0e33", "\u0915\u094d\u0937",
    "<|startoftext|>a<|endoftext|>", "<|endoftext|><|endoftext|>", "<mask>", " <mask> ", "a <mask>b", "</s>", "<s>a</s>", "<unk>",
    "<unk> a", "\u2581", "\u2581a\u2581\u2581b", "a</w>b", "<0x41>", "don't DON'T it's we'll", "qkv qkvx xqkv qkv.", "   Debian", "abc def abcdef",
    "1234567890", "\u0661\u0662\u00bd\u2167", "!!!???...", "#hash ##hash", "x" * 70, "ab" * 100, "\u732b" * 60, "\u180e\u2028\u2029\x85\x1c",
]
BROKEN = [b"\xff", b"a\xffb", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\x80\x80a",
          b"\xf0\x9f\x98\xff\xe2\x82a"]
RULES = """FF21\t41
FF41\t61
FB01\t66 69
65 301\tE9
A0\t20
3000\t20
9\t20
A\t20
D\t20
1\t
200B\t20
132\t49 4A
1E9B 323\t1E69
"""
CASES = ["clip", "clip_slow", "gpt2", "llama3", "siglip", "siglip_model", "siglip_json", "t5_json", "gemma", "gemma_json",
         "llama2", "unigram_bytes", "suffix", "steps", "more_steps", "byte_normalizer"]
MORE = ["bert", "bert_cased", "bert_slow", "bert_options", "marian", "t5_slow", "xlm_slow", "roberta", "roberta_slow", "qwen2", "qwen2_slow",
        "llama_json"]
MORE_TEXTS = [
    "[MASK]", "a [MASK] b", " [SEP] a", "<mask> a", "a <mask>", ">>ita<< A photo.", ">>xyz<<", ">>deu<<a cat", ">>a",
    ">> b <<c", "<<", "</s> a</s>b </s>", "<unk>a<pad>", "x<extra_id_0> y <extra_id_99><extra_id_100>", "a photo , of a cat .",
    "don't, isn't, I've we're it's I'm; do not", "he said ' hi ' . n ' t", "e\u0301\u0323 \u1e69 U\u0308", "\U00020000\U0002b820\U0002b920",
    "x" * 100, "x" * 101, "x" * 21, "ab" * 49 + "c", "so\u00adft\u200b \u0085", "qkv Debian qkvx Debians", "caf\u00e9 \u732b\u72ac",
    "<|im_start|>user\nhi<|im_end|>\n", "1 2 3,4.5 10\u00b2", "\ufffd\ufeffa", "kernel a\u3000 KERNEL", "\u0130stanbul \u03a3\u039f\u03a3 Stra\u1e9ee",
    "a\nb\r\n\tc  d", "##ing ## #", "[UNK] [CLS][PAD]", "snow\u2603man \U0001f600!", "\u00c9T\u00c9", "perch\u00e9 no?",
]


def compact(folder):
    for path in folder.glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False, separators=(",", ":")))


def write_golden(name, lines, texts):
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    folder = verify.make_folder(name, lines, FOLDER)
    compact(folder)
    original = verify.CASES[name][2](folder)
    # tokenizers and transformers take no invalid UTF-8; Python's replacement of it is ours.
    any_bytes = verify.CASES[name][3]
    ids = original([text if any_bytes else text.decode("utf-8", "replace") for text in texts])
    rows = ",\n".join(json.dumps(list(map(int, row)), separators=(",", ":")) for row in ids)
    (folder / "ids.json").write_text("[" + rows + "]\n")
    if name in MORE:
        decode = verify.decoder_of(name, folder)
        rows = [{"text": text, "ids": list(map(int, ids)), "decoded": decode(ids, True), "decoded_special": decode(ids, False)}
                for text, ids in zip(MORE_TEXTS, original(MORE_TEXTS))]
        if name == "marian":
            target = verify.target_of(folder)
            for row in rows:
                row["target_ids"] = target(row["text"])
        (folder / "more.json").write_text("[" + ",\n".join(json.dumps(row) for row in rows) + "]\n")


def write_trained(texts):
    tokenizer = verify.Tokenizer(verify.models.BPE())
    tokenizer.pre_tokenizer = verify.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = verify.decoders.ByteLevel()
    trainer = verify.trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=["<pad>", "</s>"],
                                         initial_alphabet=verify.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([text.decode("utf-8", "replace") for text in texts], trainer)
    tokenizer.post_processor = verify.processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B:1 </s>:1",
                                                                    special_tokens=[("</s>", 1)])
    (FOLDER / "trained").mkdir(exist_ok=True)
    tokenizer.save(str(FOLDER / "trained/tokenizer.json"))
    compact(FOLDER / "trained")


def main():
    documents = [line for path in sorted((ROOT / "docs").glob("*.md")) for line in path.read_text().split("\n") if line]
    rng = random.Random(7)
    lines = SENTENCES * 8 + documents[:700]
    rules = FOLDER / "rules.tsv"
    rules.write_text(RULES)
    verify.SIZE_LIMIT = 640
    verify.RULES = {"normalization_rule_tsv": str(rules), "hard_vocab_limit": False}
    names = sys.argv[1:]
    if names:
        texts = [bytes.fromhex(text) for text in json.loads((HERE / "texts.json").read_text())]
    else:
        texts = EDGES + SENTENCES + [verify.random_text(rng, SENTENCES) for _ in range(60)]
        texts = [text.encode() for text in texts] + BROKEN
        (HERE / "texts.json").write_text(json.dumps([text.hex() for text in texts], indent=0) + "\n")
    for name in names or CASES + MORE + ["trained"]:
        if name == "trained":
            write_trained(texts)
        else:
            write_golden(name, lines, texts)
    rules.unlink()
    pack()


if __name__ == "__main__":
    main()
