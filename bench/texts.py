"""Times embedding texts in qkv and in its peers, interleaved, and checks that the vectors agree.

    python bench/texts.py [--model FOLDER] [--works embed sentences] [--precisions fp32 int8] [--rounds N]

Works: a batch of 32 texts of 128 tokens; 1,000 sentences of mixed length, from text to vectors. Peers are ONNX Runtime
(fused by its transformer optimizer; int8 by dynamic quantisation), OpenVINO (int8 by NNCF, calibrated on the sentences)
and PyTorch (int8 by dynamic quantisation). The model has MiniLM's geometry and random weights, or is that of --model,
a folder as sentence-transformers saves it. Needs transformers; see tools/reference_env.sh.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import common
import text_cases

SENTENCES = 1000
COSINE_FLOORS = {"fp32": 0.9999, "int8": 0.9}


def least_cosine(options, folder, program, precision):
    """Of the sentences' vectors with qkv's in fp32."""
    import numpy as np

    own = folder / "qkv.npy"
    if not own.exists():
        common.output([options.qkv, "embed", "-m", folder / "model", "--text", folder / "sentences.txt", "-o", own])
    theirs = np.load(folder / f"{program}-{precision}.npy")
    return float((np.load(own) * theirs).sum(-1).min())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="default: random weights in MiniLM's geometry")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "int8"], choices=["fp32", "int8"], metavar="P")
    text_cases.add_options(parser, "texts.json")
    options = text_cases.parse(parser)
    rows, wrong = [], []
    with tempfile.TemporaryDirectory(prefix="qkv-bench-") as temporary:
        folder = Path(temporary)
        if options.model:
            (folder / "model").symlink_to(options.model.resolve())
        else:
            (folder / "model").mkdir()
            text_cases.minilm(folder / "model")
        text_cases.save_ids(folder, 8000, 32, 128)
        common.write(folder / "sentences.txt", "\n".join(text_cases.sentences(SENTENCES)) + "\n")
        peers, cases = ["onnxruntime", "openvino", "pytorch"], []
        for precision in options.precisions:
            cases.append(text_cases.Case(f"32 texts of 128 tokens, {precision}", "embed", precision, list(peers),
                                         ["--work", "embed", "--batch", 32, "--tokens", 128], 12))  # fmt: skip
            cases.append(text_cases.Case(f"{SENTENCES} sentences, {precision}", "sentences", precision, list(peers),
                                         ["--work", "embed", folder / "sentences.txt"], 5))  # fmt: skip
        for case in text_cases.chosen(options, cases):
            rows.append(case.measure(options, folder))
            if case.work != "sentences":
                continue
            for program in rows[-1]["times"]:
                if program != "qkv":
                    cosine = least_cosine(options, folder, program, case.precision)
                    rows[-1].setdefault("least_cosine", {})[program] = cosine
                    if cosine < COSINE_FLOORS[case.precision]:
                        wrong.append(f"{case.title}: a vector of {program} has a cosine of {cosine:.5f} with qkv's")
    text_cases.finish(options, rows)
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
