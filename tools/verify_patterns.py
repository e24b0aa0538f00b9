"""Compares how `qkv tokenize` and PyPI's tokenizers split texts at random patterns of Oniguruma.

    python tools/verify_patterns.py [--qkv PROGRAM] [--count N] [--seed N] [--goldens FILE]

Patterns that both take must split every text alike. Prints the differences, how many patterns were compared, and for
those that qkv refuses how many had which reason; exit 1 if there is a difference. --goldens writes patterns, texts and
the matches of the original for tests/text/pattern_test.cc.
"""
import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["RUST_BACKTRACE"] = "0"
from tokenizers import Regex, Tokenizer, pre_tokenizers  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
# Characters that Unicode's classes, case and lines tell apart.
LETTERS = list("aabbcdeABCzéÉſkKσςⅧⓐªµ猫犬かカー中ㄅㅏب")
OTHERS = list("0129٣²½  \t\n\n\r\x0b\x85\u00a0\u3000\u2028.-_&[]^!'{}*\u0301\u200d\u180e😀👍🏽€+<")
CHARACTERS = LETTERS + OTHERS
PROPERTIES = ("L Lu Ll Lt Lm Lo M Mn Mc N Nd Nl No P Pd Po Pc S Sm Sc So Z Zs C Cc Cf Cn Letter uppercase_letter Han Hiragana "
              "Katakana Latin Greek Arabic Common Hani Alphabetic Alpha Alnum Upper Lower Punct Space Word Digit Any ASCII "
              "Emoji White_Space Ideographic Assigned Graph Print Blank Cntrl XDigit PosixPunct").split()
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()
# Patterns of reports, of published tokenizers, and of constructs that random ones rarely meet.
KNOWN = [
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\h+", "^a", "a$", "^", "$", r"(?m:.)+", r"(?m)a.b", "a{,3}", r"\b\w", r"\Ba",
    r"[[:alpha:]]+", r"[[:^alpha:]]+", r"[^[:alnum:][:space:]]", r"[\W_]+", r"[^\W\d_]+", r"[\w&&[^a-c]]+", r"a{2}+",
    r"a{1,2}?b", r"a{2}?", r"\u0061|\x{e9}", r"a(?i)b|c", r"(?<x>a|b)(c)?\k<x>", r"(a|b)\1", r"(?<=a|bc)d", r"(?<!\w)a",
    r"\R", r"\X", r"\Ga", r"a\Kb", r"(?x) a b # c", r"\p{^L}+", r"\P{^Lu}", r"(?>a+)b", r"a*+b", r"[]a]+", r"[a-c-e]+",
    r"(?:a|b)*?c", r"(?~a)", r"(?i)straße", r"(?i)[a-c]+", r"(?i:kσ)", r"\p{In_Arabic}", r"\y", r"(a\1)", r"(?W)\w"]


class Patterns:
    """Random patterns, most of which are valid."""

    def __init__(self, rng):
        self.rng = rng
        self.groups = 0

    def one(self):
        self.groups = 0
        return self.alternatives(3)

    def alternatives(self, depth):
        count = self.rng.choice([1, 1, 1, 1, 2, 2, 3])
        return "|".join(self.sequence(depth) for _ in range(count))

    def sequence(self, depth):
        return "".join(self.term(depth) for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3, 4])))

    def term(self, depth):
        roll = self.rng.random()
        if roll < 0.12:
            return self.rng.choice(["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G", r"\b", r"\K", "(?i)", "(?m)"])
        item = self.item(depth)
        while self.rng.random() < 0.35:
            item += self.rng.choice(["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{,2}", "{1,}",
                                     "{0,1}?", "{2}+", "{2}?", "{1,2}+"])
        return item

    def item(self, depth):
        roll = self.rng.random()
        if roll < 0.35 or depth == 0:
            return self.literal()
        if roll < 0.5:
            return self.set()
        if roll < 0.7:
            return self.brackets(2)
        if roll < 0.75:
            return self.rng.choice([".", r"\R", r"\N", r"\O", "(?m:.)"])
        if roll < 0.78 and self.groups:
            return "\\%d" % self.rng.randint(1, self.groups)
        head = self.rng.choice(["(", "(", "(?:", "(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!", "(?i:", "(?m:", "(?-i:",
                                "(?x: "])
        if head in ("(?<=", "(?<!"):
            return head + self.rng.choice([self.literal(), self.set(), self.literal() + "|" + self.set()]) + ")"
        self.groups += head == "("
        return head + self.alternatives(depth - 1) + ")"

    def literal(self):
        c = self.rng.choice(CHARACTERS)
        if c in ".[]^{}*+":
            return "\\" + c
        roll = self.rng.random()
        if roll < 0.05:
            return "\\x{%x}" % ord(c)
        if roll < 0.08 and ord(c) < 0x10000:
            return "\\u%04x" % ord(c)
        return c

    def set(self):
        roll = self.rng.random()
        if roll < 0.5:
            return "\\" + self.rng.choice("wWsSdDhH")
        return "\\%s{%s%s}" % (self.rng.choice("pppP"), self.rng.choice(["", "", "", "^"]), self.rng.choice(PROPERTIES))

    def brackets(self, depth):
        parts = [self.within(depth) for _ in range(self.rng.choice([1, 1, 1, 1, 1, 2, 2, 3]))]
        return "[" + self.rng.choice(["", "", "^"]) + "&&".join(parts) + "]"

    def within(self, depth):
        text = ""
        for _ in range(self.rng.choice([1, 1, 2, 2, 3])):
            roll = self.rng.random()
            if roll < 0.3:
                c = self.rng.choice(CHARACTERS)
                text += "\\" + c if c in "[]^-&" else c
            elif roll < 0.5:
                first, last = sorted(self.rng.choice(LETTERS) for _ in range(2))
                text += f"{first}-{last}"
            elif roll < 0.75:
                text += self.set()
            elif roll < 0.87:
                text += "[:%s%s:]" % (self.rng.choice(["", "", "^"]), self.rng.choice(POSIX))
            elif depth:
                text += self.brackets(depth - 1)
        return text + ("-" if self.rng.random() < 0.03 else "")


def random_texts(rng, count):
    texts = ["I'll see the 猫犬カー, isn't it?\r\n  2 blanks\n\n and½ ", "aab abba\nab\naabbcdé É-e\u0301 ²Ⅷⓐ_x 0129\n"]
    while len(texts) < count:
        texts.append("".join(rng.choice(CHARACTERS) for _ in range(rng.randint(1, 30))))
    return texts


def tokenizer_json(pattern, behaviour, invert):
    """Each byte is a token, which tells whether it ends a piece."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(letters + [letter + "</w>" for letter in letters])}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behaviour, "invert": invert}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    model = {"type": "BPE", "end_of_word_suffix": "</w>", "vocab": vocabulary, "merges": []}
    return json.dumps({"added_tokens": [], "model": model,
                       "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}})


def original_ids(tokenizer_file, texts):
    """None: the original takes no such pattern, or not these texts."""
    try:
        tokenizer = Tokenizer.from_str(tokenizer_file)
        return [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    except BaseException:  # a panic in Rust is one: too many steps
        return None


def qkv_ids(program, tokenizer_file, texts, work):
    """An error is a text."""
    (work / "tokenizer.json").write_text(tokenizer_file)
    (work / "texts").write_bytes("\0".join(texts).encode())
    result = subprocess.run(program + ["tokenize", "-m", str(work), "--null", str(work / "texts")], capture_output=True)
    if result.returncode:
        return result.stderr.decode()
    return [[int(id) for id in line.split()] for line in result.stdout.decode().split("\n")[:len(texts)]]


def reason(error):
    """What the error says without numbers, the place and the pattern's text."""
    text = error.strip().split('": ')[-1]
    found = re.search(r" at byte \d+ (.*)", text, re.S)
    return re.sub(r"\d+", "N", found[1] if found else text)[-100:]


def matches(pattern, texts):
    """Byte ranges of the matches that are not empty."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    rows = []
    for text in texts:
        at = [0]
        for c in text:
            at.append(at[-1] + len(c.encode()))
        rows.append([[at[begin], at[end]] for _, (begin, end) in split.pre_tokenize_str(text)])
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qkv", default=str(ROOT / "build/release/qkv"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--goldens", type=Path)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    patterns = Patterns(rng)
    texts = random_texts(rng, 24)
    work = Path(tempfile.mkdtemp())
    refused, compared, different, invalid, goldens = collections.Counter(), 0, 0, 0, []
    for pattern in KNOWN + [patterns.one() for _ in range(args.count)]:
        behaviour, invert = rng.choice([("Removed", True), ("Isolated", False), ("MergedWithNext", False)])
        file = tokenizer_json(pattern, behaviour, invert)
        wanted = original_ids(file, texts)
        if wanted is None:
            invalid += 1
            continue
        got = qkv_ids(args.qkv.split(), file, texts, work)
        if isinstance(got, str):
            refused[reason(got)] += 1
            continue
        compared += 1
        goldens.append(pattern)
        rows = [i for i in range(len(texts)) if wanted[i] != got[i]]
        if rows:
            different += 1
            print(f"different: {pattern!r}, {behaviour}, texts {[texts[i] for i in rows][:2]!r}", flush=True)
    print(f"{compared} patterns compared, {different} differ; {invalid} are not valid; qkv refuses {sum(refused.values())}:")
    for why, count in refused.most_common():
        print(f"{count:6} {why}")
    if args.goldens:
        few = texts[:4]
        found = {pattern: matches(pattern, few) for pattern in goldens}
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in found.items() if any(row[1]))
        args.goldens.write_text(f'{{"texts": {json.dumps(few)},\n"patterns": [\n{rows}\n]}}\n')
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
