"""Trains the model of a run of `qkv train pairs.tsv` in PyTorch: python bench/pairs_peer.py RUN OUT [--device cuda]

RUN: a run, whose config.yaml, config.json and tokenizer are taken: the same architecture, data, steps and settings, batches
of as many tokens and of similar lengths, with transformers' MarianMTModel and torch's AdamW; the weights start by the same
rule with PyTorch's random numbers. OUT: a folder in Marian's layout; then

    qkv evaluate -m RUN test.tsv && qkv evaluate -m OUT test.tsv

compares both with the same decoder and metrics. transformers' own `generate` gives the same texts (tests/golden).
"""

import argparse
import math
import random
import shutil
import sys
import time
from pathlib import Path

from common import TOOLS

sys.path.insert(0, str(TOOLS))
import torchvision_stub  # noqa: E402, F401  before transformers
import torch  # noqa: E402
import yaml  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from transformers import MarianConfig, MarianMTModel  # noqa: E402

BUCKET = 4  # tokens; lengths are compared in steps of so many, as kBucket of qkv/train/sequences/pairs.cc
IGNORED = -100


def read_pairs(path, tokenizer, end, length):
    """Token ids of both sides, with the end token; without the lines that are too long."""
    lines = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8")]
    sides = [[encoding.ids + [end] for encoding in tokenizer.encode_batch(list(side), add_special_tokens=False)]
             for side in zip(*lines)]  # fmt: skip
    return [pair for pair in zip(*sides) if max(map(len, pair)) <= length]


def bucket(ids):
    return -(-len(ids) // BUCKET)


def make_batches(pairs, tokens):
    """Lines in the order of their lengths, as many in each as the padded tokens of both sides allow."""
    pairs = sorted(pairs, key=lambda pair: (bucket(pair[0]) + bucket(pair[1]), bucket(pair[1]), random.random()))
    batches, widest = [[]], [0, 0]
    for pair in pairs:
        wider = [max(w, bucket(ids)) for w, ids in zip(widest, pair)]
        if batches[-1] and (len(batches[-1]) + 1) * BUCKET * sum(wider) > tokens:
            batches.append([])
            wider = [bucket(ids) for ids in pair]
        batches[-1].append(pair)
        widest = wider
    random.shuffle(batches)
    return batches


def pad(rows, value, device):
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows], device=device)


def initialise(model):
    """Glorot and Bengio's deviation, tokens of 1 / √D: as qkv::train::PairNetwork::Initialise."""
    D = model.config.d_model
    for name, parameter in model.named_parameters():
        if "embed_positions" in name:
            continue
        if parameter.dim() < 2:
            torch.nn.init.constant_(parameter, 1 if "layer_norm.weight" in name or "layernorm.weight" in name else 0)
        else:
            of_mlp = ".fc" in name
            torch.nn.init.normal_(parameter, std=math.sqrt((2 if of_mlp else 1) / (sum(parameter.shape) if of_mlp else D)))


def learning_rate(config, step, steps, warmup):
    if step < warmup:
        return config["lr"] * (step + 1) / (warmup + 1)
    progress = min((step - warmup) / (steps - warmup), 1)
    return config["min-lr"] + (config["lr"] - config["min-lr"]) / 2 * (1 + math.cos(math.pi * progress))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="the training pairs; none is held out: the run has `valid`")
    parser.add_argument("--steps", type=int, help="instead of the run's")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    config = yaml.safe_load((arguments.run / "config.yaml").read_text())
    config["min-lr"], config["lr"] = float(config["min-lr"]), float(config["lr"])  # "1e-05" is a word for PyYAML
    if config["sched"] != "cosine" or config["opt"] != "adamw" or config["accumulate"] != 1 or not config["valid"] or any(
        config[key] for key in ("attention-dropout", "drop-path", "ema", "patience")
    ):
        sys.exit("expected a run with adamw, a cosine schedule, one batch a step, a file of validation pairs, and without "
                 "dropout of attention or paths, averages and patience")
    random.seed(config["seed"])
    torch.manual_seed(config["seed"])
    marian = MarianConfig.from_pretrained(arguments.run)
    marian.dropout = config["dropout"]
    marian.attention_dropout = marian.activation_dropout = 0.0
    model = MarianMTModel(marian)
    initialise(model)
    model.to(arguments.device).train()
    decayed = [p for n, p in model.named_parameters() if p.requires_grad and p.dim() > 1]
    rest = [p for n, p in model.named_parameters() if p.requires_grad and p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": config["weight-decay"]},
                                   {"params": rest, "weight_decay": 0}],
                                  betas=(config["beta1"], config["beta2"]), fused=True)  # fmt: skip

    tokenizer = Tokenizer.from_file(str(arguments.run / "tokenizer.json"))
    padding, start = marian.pad_token_id, marian.decoder_start_token_id
    pairs = read_pairs(arguments.data, tokenizer, marian.eos_token_id, config["length"])
    batches = make_batches(pairs, config["batch"])
    per_epoch = len(batches)
    steps = arguments.steps or config["steps"] or config["epochs"] * per_epoch
    warmup = min(int(config["warmup-epochs"] * per_epoch), steps // 2)
    print(f"{len(pairs)} lines, {per_epoch} batches an epoch, {steps} steps, {warmup} of them warm-up", flush=True)

    begin, total = time.monotonic(), 0.0
    for step in range(steps):
        if step % per_epoch == 0 and step > 0:
            batches = make_batches(pairs, config["batch"])
        batch = batches[step % per_epoch]
        source = pad([pair[0] for pair in batch], padding, arguments.device)
        labels = pad([pair[1] for pair in batch], IGNORED, arguments.device)
        read = pad([[start] + pair[1][:-1] for pair in batch], padding, arguments.device)
        mask = pad([[1] * len(pair[0]) for pair in batch], 0, arguments.device)
        logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=read).logits
        loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED,
                             label_smoothing=config["smoothing"])  # fmt: skip
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config["clip-grad"] or math.inf)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step, steps, warmup)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 100 == 99:
            seconds = time.monotonic() - begin
            print(f"step {step + 1}: loss {loss.item():.4f}, {1e3 * seconds / (step + 1):.1f} ms a step", flush=True)
            if seconds > arguments.seconds:
                break

    model.eval().save_pretrained(arguments.out)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(arguments.run / name, arguments.out / name)


if __name__ == "__main__":
    main()
