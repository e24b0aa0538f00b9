"""Writes tests/text/golden/metrics.json: pairs of texts and what PyPI's sacrebleu and rouge-score make of them.

    python tests/text/golden/generate_metrics.py

Needs sacrebleu 2.6.0 and rouge-score 0.1.2. The texts are random: words of many scripts, numbers, punctuation, marks,
spaces of all kinds, and changed copies of them, so that n-grams match. Of English words Porter's stems are there too.
"""
import json
import random
from pathlib import Path

from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer
from sacrebleu.metrics import BLEU, CHRF

HERE = Path(__file__).resolve().parent
LINES = 220

WORDS = """the a of and cat dogs running ran easily happily relational conditional rationalization organizers hopefulness
communism activate angularity effective bowdlerize probate cease controlling rolled generalizations oscillators agreed
plastered motoring conflated troubled sized hopping tanned falling hissing fizzed failing filing happy sky skies dying
news flies dies died spied tied analogously vietnamization predication operator feudalism decisiveness callousness
formality sensitivity sensibility triplicate formative formalize electricity electrical goodness revival allowance
inference airliner gyroscopic adjustable defensible irritant replacement adjustment dependent adoption homologous
geology theology fully radically yyyy toy syzygy proceed exceed innings canning howe don't it's U.S.A. e.g. 3.14
1,000,000 2-3 12-month 50% $5 C++ x=y <b> &amp; &quot;quoted&quot; &lt;i&gt; <skipped> a/b {x} [y] (z) a.b, ... ,, .5 5.
Straße über façade naïve Ελλάδα ΣΟΦΟΣ мир Привет שלום مرحبا हिन्दी 日本語 テキスト 中文。 한국어 🙂 e\u0301 İstanbul \u212Aelvin ǅ ﬁn""".split()
BLANKS = [" "] * 20 + ["  ", "\u00a0", "\u3000", "\t", "\u2009", "\x1f", "\u2028"]
MARKS = [".", ",", "!", "?", ";", ":", "-", "—", "…", "。", "'", '"', "«", "»"]


def text(rng):
    count = rng.choice([0, 1, 2, 3, 5, 8, 13, 20]) if rng.random() < 0.3 else rng.randint(4, 16)
    out = ""
    for i in range(count):
        word = rng.choice(WORDS)
        if rng.random() < 0.1:
            word = word.upper() if rng.random() < 0.5 else word.capitalize()
        out += (rng.choice(BLANKS) if i else "") + word + (rng.choice(MARKS) if rng.random() < 0.25 else "")
    return out + (rng.choice(["\n", " ", "\u00a0"]) if rng.random() < 0.1 else "")


def changed(line, rng):
    words = line.split(" ")
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(words))
        kind = rng.random()
        if kind < 0.4:
            words[at] = rng.choice(WORDS)
        elif kind < 0.7:
            words.insert(at, rng.choice(WORDS))
        elif len(words) > 1:
            words.pop(at)
        rng.random() < 0.2 and rng.shuffle(words)
    return " ".join(words)


def scores(hypotheses, references):
    bleu, result = BLEU().corpus_score(hypotheses, [references]), {}
    result["bleu"] = {"score": bleu.score, "correct": bleu.counts, "total": bleu.totals, "precisions": bleu.precisions,
                      "brevity": bleu.bp, "length": bleu.sys_len, "reference_length": bleu.ref_len}
    result["chrf"] = CHRF().corpus_score(hypotheses, [references]).score
    for stem in (False, True):
        scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stem)
        lines = [scorer.score(reference, hypothesis) for hypothesis, reference in zip(hypotheses, references)]
        result["rouge_stemmed" if stem else "rouge"] = [[line[kind].fmeasure for kind in ("rouge1", "rouge2", "rougeL")]
                                                       for line in lines]
    return result


def main():
    rng = random.Random(7)
    references = [text(rng) for _ in range(LINES)]
    hypotheses = [changed(line, rng) if rng.random() < 0.9 else text(rng) for line in references]
    stemmer = PorterStemmer()
    english = sorted({w.lower() for w in WORDS if w.isascii() and w.isalpha()})
    endings = ["s", "es", "ed", "ing", "ly", "ness", "ational", "ization", "fully", "logy", "ies", "ied", "eed", "y",
               "ability", "ement", "ion", "sion", "ll", "e", "alli", "bli"]
    stems = {}
    for word in english:
        for form in [word] + [word + ending for ending in rng.sample(endings, 7)]:
            stems[form] = stemmer.stem(form)
    corpora = {"all": (0, LINES), "few": (0, 5), "one": (7, 8)}
    golden = {"hypotheses": hypotheses, "references": references, "stems": stems,
              "corpora": [{"begin": a, "end": b, **scores(hypotheses[a:b], references[a:b])} for a, b in corpora.values()],
              # Corpora of a few words: nothing matches, fewer words than orders, no hypothesis at all.
              "small": [{"hypotheses": h, "references": r, **scores(h, r)} for h, r in (
                  (["a b c"], ["d e f g"]), (["the cat"], ["the cat"]), ([""], ["the cat"]), (["the cat sat on it"], [""]),
                  (["the the the the the"], ["the cat the"]), (["мир"], ["миру мир"]))]}
    (HERE / "metrics.json").write_text(json.dumps(golden, ensure_ascii=True, indent=0) + "\n")
    print(golden["corpora"][0]["bleu"]["score"], golden["corpora"][0]["chrf"], len(stems))


if __name__ == "__main__":
    main()
