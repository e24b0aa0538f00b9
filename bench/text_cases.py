"""Shared by the comparisons on texts (texts.py, decoding.py): models with random weights, inputs, contenders, the table."""

import os
import re
import statistics
import sys
from pathlib import Path

import common

sys.path.insert(0, str(common.TOOLS))

PEERS = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "pytorch": "PyTorch",
    "ctranslate2": "CTranslate2",
    "transformers": "transformers",
}


def save_random(model, folder):
    """Weights of variance 1/K for K inputs, as in a trained model."""
    import torch

    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and "embed" not in name and "wte" not in name and "shared" not in name:
            torch.nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
    model.save_pretrained(folder)


def minilm(folder):
    """The geometry of all-MiniLM-L6-v2 with a WordPiece vocabulary of this repository's documentation."""
    import torchvision_stub  # noqa: F401  before transformers
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertModel

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(sentences(1000), vocab_size=8000)
    config = BertConfig(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                        intermediate_size=1536, max_position_embeddings=512)  # fmt: skip
    save_random(BertModel(config, add_pooling_layer=False), folder)
    from tokenizers.processors import BertProcessing

    ids = {token: tokenizer.token_to_id(token) for token in ("[SEP]", "[CLS]")}
    tokenizer.post_processor = BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    tokenizer.save(str(folder / "tokenizer.json"))
    common.write_json(folder / "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])  # fmt: skip
    common.write_json(folder / "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})


def gpt2(folder):
    import torchvision_stub  # noqa: F401  before transformers
    from transformers import GPT2Config, GPT2LMHeadModel

    save_random(GPT2LMHeadModel(GPT2Config()), folder)


def marian(folder):
    """Marian's base: 6 and 6 layers of width 512, a vocabulary of 60,000."""
    import torchvision_stub  # noqa: F401  before transformers
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(vocab_size=60000, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
                          decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048,
                          activation_function="swish", static_position_embeddings=True, scale_embedding=True,
                          pad_token_id=59999, eos_token_id=0, decoder_start_token_id=59999, forced_eos_token_id=None,
                          max_position_embeddings=512, num_beams=1)  # fmt: skip
    model = MarianMTModel(config)
    model.generation_config.max_length = 512
    model.generation_config.num_beams = 1
    save_random(model, folder)


def sentences(count):
    """Sentences of this repository's documentation, again from the beginning if there are too few."""
    found = []
    for path in [common.ROOT / "README.md", *sorted((common.ROOT / "docs").glob("*.md"))]:
        text = re.sub(r"```.*?```|\|.*\|", " ", path.read_text(), flags=re.S if path.suffix == "" else 0)
        for sentence in re.split(r"(?<=[.:?!])\s+|\n\s*\n", text):
            sentence = " ".join(sentence.split())
            if len(sentence) >= 8:
                found.append(sentence)
    return [found[i % len(found)] for i in range(count)]


def save_ids(folder, vocabulary, batch, tokens):
    import torch
    from safetensors.torch import save_file

    ids = torch.randint(5, vocabulary - 5, (batch, tokens), generator=torch.Generator().manual_seed(1))
    save_file({"ids": ids}, folder / "ids.safetensors")


class Case:
    """Some work in one precision, by qkv and by peers, in turns."""

    def __init__(self, title, work, precision, peers, flags, rounds):
        self.title, self.work, self.precision, self.peers = title, work, precision, peers
        self.flags, self.rounds = flags, rounds  # flags: of qkv bench

    def start(self, options, folder):
        """({program: Contender}, {program: why not})"""
        running, left_out = {}, {}
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "TOKENIZERS_PARALLELISM": "true"}
        for program in ["qkv", *self.peers]:
            common.progress(f"{self.title}: starting {program}")
            if program == "qkv":
                command = [options.qkv, "bench", "-m", folder / "model", "--threads", options.threads,
                           "--dtype", self.precision, "--stdin", *self.flags]  # fmt: skip
            else:
                command = [sys.executable, common.ROOT / "bench/text_peer.py", program, self.work, self.precision,
                           folder, options.threads]  # fmt: skip
            log = folder / f"{program}-{self.work}-{self.precision}.log"
            with open(log, "w") as log_file:
                contender = common.Contender(program, command, environment, log_file)
            try:
                if program == "qkv":
                    contender.ask()
                elif contender.line() != "ready":
                    raise RuntimeError(f"{program} did not say that it is ready")
                running[program] = contender
            except (RuntimeError, BrokenPipeError, ValueError):
                contender.close()
                left_out[program] = common.last_words(log)
        return running, left_out

    def measure(self, options, folder):
        """{"title", "work", "precision", "times": {program: ms}, "left_out"}"""
        running, left_out = self.start(options, folder)
        rounds = options.rounds or self.rounds
        try:
            common.take_turns(list(running.values()), rounds, 1, self.title)
        finally:
            for contender in running.values():
                contender.close()
        if "qkv" not in running:
            sys.exit(f"{self.title}: qkv: {left_out['qkv']}")
        return {"title": self.title, "work": self.work, "precision": self.precision, "rounds": rounds,
                "times": {program: c.times for program, c in running.items()}, "left_out": left_out}  # fmt: skip


def ratio(row, program, kind):
    """How many times faster qkv is than the program."""
    return kind(row["times"][program]) / kind(row["times"]["qkv"])


def print_table(rows):
    print(f"{'work':<44} {'program':<14} {'best, ms':>9} {'median':>9}  qkv is faster: best, median")
    for row in rows:
        for program, times in row["times"].items():
            by = "" if program == "qkv" else f"  {ratio(row, program, min):.2f}×, {ratio(row, program, statistics.median):.2f}×"
            print(f"{row['title']:<44} {PEERS.get(program, 'qkv'):<14} {min(times):9.2f} {statistics.median(times):9.2f}{by}")
        for program, why in row["left_out"].items():
            print(f"{row['title']:<44} {PEERS[program]:<14} left out: {why}")


def busy():
    """True if other programs keep the machine from a fair measurement."""
    return os.getloadavg()[0] > 0.5 * common.CORES


def finish(options, rows, **more):
    """Prints the table, and writes all times."""
    machine = common.machine(options.threads)
    print_table(rows)
    common.write_json(options.json, {"machine": machine, "busy": options.busy, "rows": rows, **more})
    print(f"{machine['processor']} ({machine['family']}), {options.threads} threads, qkv {machine['commit']}, "
          f"{machine['date']}{'; the machine was busy with other work' if options.busy else ''}")  # fmt: skip


def add_options(parser, name):
    add = parser.add_argument
    add("--rounds", type=int, help="timed passes of each (default: by the work)")
    add("--threads", type=int, default=common.CORES, help="of each contender (default: all cores)")
    add("--qkv", type=Path, default=common.ROOT / "build/release/qkv", metavar="PROGRAM")
    add("--peers", nargs="*", metavar="PEER", help="only these (default: all)")
    add("--works", nargs="+", metavar="WORK", help="only these (default: all)")
    add("--json", type=Path, default=common.result(name), metavar="FILE", help="all times go there")


def parse(parser):
    options = parser.parse_args()
    common.require_program(options.qkv)
    options.busy = busy()
    return options


def chosen(options, cases):
    cases = [case for case in cases if not options.works or case.work in options.works]
    for case in cases:
        if options.peers is not None:
            case.peers = [peer for peer in case.peers if peer in options.peers]
    return cases
