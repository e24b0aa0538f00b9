"""Times writing texts: decoding as a share of the memory bandwidth, prefilling and translating beside peers, interleaved.

    python bench/decoding.py [--works decode prefill greedy beams] [--rounds N]

decode: GPT-2's geometry (124M), batch 1, in each precision: the weights that a token reads, divided by its time and by
the bandwidth that the same process measures. prefill: 512 tokens of the same model, beside ONNX Runtime, OpenVINO and
PyTorch, which return no keys and values. greedy (batch 1) and beams (4 beams, batch 32): Marian's base geometry, 32
tokens read and 32 written, beside CTranslate2 (if it is installed) and transformers. Weights are random. Needs
transformers; see tools/reference_env.sh.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import common
import text_cases

PROMPT, SOURCE = 512, 32


def decode_shares(options, folder):
    """{precision: [share of the bandwidth in each turn]}, {precision: [ms a token]}"""
    shares, times = {}, {}
    for turn in range(options.rounds or 8):
        common.progress(f"decoding: turn {turn + 1}")
        lines = common.output([options.qkv, "bench", "-m", folder / "model", "--work", "decode", "--seconds", 3,
                               "--threads", options.threads, "--json"])  # fmt: skip
        for line in map(json.loads, lines.splitlines()):
            shares.setdefault(line["dtype"], []).append(line["of_memory"])
            times.setdefault(line["dtype"], []).append(line["best_ms"] / line["tokens"])
    common.progress("")
    return shares, times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    text_cases.add_options(parser, "decoding.json")
    options = text_cases.parse(parser)
    prefill = text_cases.Case(f"GPT-2 124M, prompt of {PROMPT}, fp32", "prefill", "fp32",
                              ["onnxruntime", "openvino", "pytorch"], ["--work", "prefill", "--tokens", PROMPT], 8)  # fmt: skip
    pairs = [
        text_cases.Case("Marian base, greedy, batch 1, fp32", "greedy", "fp32", ["ctranslate2", "transformers"],
                        ["--work", "greedy", "--tokens", SOURCE], 10),
        text_cases.Case("Marian base, 4 beams, batch 32, fp32", "beams", "fp32", ["ctranslate2", "transformers"],
                        ["--work", "beams", "--batch", 32, "--tokens", SOURCE], 4),
    ]  # fmt: skip
    rows, more = [], {}
    with tempfile.TemporaryDirectory(prefix="qkv-bench-") as temporary:
        decodes = not options.works or "decode" in options.works
        if decodes or text_cases.chosen(options, [prefill]):
            folder = Path(temporary) / "gpt2"
            (folder / "model").mkdir(parents=True)
            text_cases.gpt2(folder / "model")
            text_cases.save_ids(folder, 50000, 1, PROMPT)
            if decodes:
                more["decode_share"], more["decode_ms"] = decode_shares(options, folder)
            rows += [case.measure(options, folder) for case in text_cases.chosen(options, [prefill])]
        if text_cases.chosen(options, pairs):
            folder = Path(temporary) / "marian"
            (folder / "model").mkdir(parents=True)
            text_cases.marian(folder / "model")
            text_cases.save_ids(folder, 59000, 32, SOURCE)
            rows += [case.measure(options, folder) for case in text_cases.chosen(options, pairs)]
    for precision, shares in more.get("decode_share", {}).items():
        times = more["decode_ms"][precision]
        print(f"GPT-2 124M, decoding at batch 1, {precision}: {min(times):.2f} ms a token; share of the memory bandwidth "
              f"{max(shares):.2f} by best, {statistics.median(shares):.2f} by median of {len(shares)} turns")  # fmt: skip
    text_cases.finish(options, rows, **more)


if __name__ == "__main__":
    main()
