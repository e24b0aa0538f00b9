"""Writes text.tar: small text models by transformers with random weights, and what they answer.

    python tests/golden/text/generate.py [CASE...]     all of them, or the named ones
    python tests/golden/text/generate.py --train build/release/qkv marian_trained

The model of marian_trained is one that `qkv train` made of pairs of texts; transformers opens it as it is. --train makes
it again.

Needs the environment of tools/reference_env.sh. Each folder has the model as transformers saves it and
expected.safetensors, whose names are those of `qkv run`:

    input_ids [B,N]   attention_mask [B,N]   token_type_ids [B,N], if any   decoder_input_ids [B,T], of a pair
    tokens [B,N|T,D]  pooled [B,D], if any   encoder_tokens [B,N,D]         logits [B,N|T,V]
    attention.0..L-1  encoder_attention.0..  cross_attention.0..L-1         [B,H,N|T,N]

Outputs of padded tokens are set to zero: they mean nothing. Each output stands there twice, `name` in float32 and
`name.float64`, as in tests/golden. Decoders also have what `generate` gives, one row a text, ended rows padded with -1:

    generated.greedy   generated.beam, of 4 beams with length_penalty 0.8   generated.options, see OPTIONS
"""
import contextlib
import copy
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/golden")]
import torch
import torch.nn.functional as F
import torchvision_stub  # noqa: F401  before transformers
import transformers
from pack import pack, unpacked
from safetensors.torch import load_file, save_file

FOLDER = unpacked("tests/golden/text")
LIMIT = 1 << 19  # bytes a folder
# Beam search with everything that restricts it.
OPTIONS = dict(num_beams=3, no_repeat_ngram_size=2, min_length=6, length_penalty=1.3, repetition_penalty=1.2)

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


@dataclass
class Case:
    name: str
    kind: str  # class of transformers
    args: dict  # of its configuration
    binary: bool = False  # pytorch_model.bin instead of model.safetensors
    rename: dict = field(default_factory=dict)  # parts of tensor names, as older versions wrote them
    types: int = 0  # types of tokens
    lengths: tuple = (9, 6)  # of the texts
    targets: int = 7  # tokens of a pair's decoder
    trained: bool = False  # by qkv, see train()


BERT = dict(vocab_size=60, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
            max_position_embeddings=16)
LLAMA = dict(vocab_size=60, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=40, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
T5 = dict(vocab_size=60, d_model=24, d_kv=10, d_ff=40, num_layers=2, num_heads=3, pad_token_id=0, eos_token_id=1,
          decoder_start_token_id=0, relative_attention_num_buckets=8, relative_attention_max_distance=10)
MARIAN = dict(vocab_size=60, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3,
              decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=32, max_position_embeddings=48,
              activation_function="swish", scale_embedding=True, pad_token_id=59, eos_token_id=0,
              decoder_start_token_id=59, forced_eos_token_id=0)

CASES = {
    case.name: case
    for case in (
        Case("bert", "BertModel", BERT, types=2),
        Case("bert_masked", "BertForMaskedLM", BERT, types=2),
        Case("bert_old_names", "BertModel", {**BERT, "hidden_act": "gelu_new"}, binary=True, types=2,
             rename={"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}),
        Case("roberta", "RobertaModel", {**BERT, "type_vocab_size": 1, "max_position_embeddings": 18}),
        Case("distilbert", "DistilBertModel",
             dict(vocab_size=60, dim=24, n_layers=2, n_heads=3, hidden_dim=40, max_position_embeddings=16)),
        Case("gpt2", "GPT2LMHeadModel",
             dict(vocab_size=60, n_embd=24, n_layer=2, n_head=3, n_positions=32, bos_token_id=0, eos_token_id=0)),
        Case("gpt2_binary", "GPT2LMHeadModel",
             dict(vocab_size=60, n_embd=24, n_layer=2, n_head=3, n_positions=32, n_inner=30, bos_token_id=0,
                  eos_token_id=0), binary=True),
        Case("llama", "LlamaForCausalLM", LLAMA),
        Case("llama_tied", "LlamaForCausalLM",
             {**LLAMA, "tie_word_embeddings": True, "head_dim": 8, "attention_bias": True, "rope_theta": 500.0}),
        Case("llama_scaled", "LlamaForCausalLM",
             {**LLAMA, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0,
                                           "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                           "original_max_position_embeddings": 16}}),
        Case("llama_linear", "LlamaForCausalLM",
             {**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}),
        Case("qwen2", "Qwen2ForCausalLM", LLAMA),
        Case("qwen3", "Qwen3ForCausalLM", {**LLAMA, "head_dim": 8, "tie_word_embeddings": True}),
        Case("t5", "T5ForConditionalGeneration", {**T5, "feed_forward_proj": "relu"}),
        Case("t5_gated", "T5ForConditionalGeneration",
             {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
        Case("t5_encoder", "T5EncoderModel", {**T5, "feed_forward_proj": "gated-gelu"}),
        Case("marian", "MarianMTModel", MARIAN, binary=True),
        Case("marian_trained", "MarianMTModel", {}, trained=True),
        Case("marian_safetensors", "MarianMTModel", {**MARIAN, "activation_function": "relu", "scale_embedding": False}),
    )
}


def seed_of(name):
    return zlib.crc32(name.encode())


@torch.no_grad()
def randomize(model, generator):
    """Weights that let no mistake hide: nothing is zero or one, and attention is far from uniform."""
    norms = {f"{prefix}.weight" for prefix, module in model.named_modules() if type(module).__name__.endswith("Norm")}
    for name, p in sorted(model.named_parameters()):
        noise = torch.randn(p.shape, generator=generator)
        if name.endswith("embed_positions.weight"):
            continue  # computed
        if name in norms:
            p.copy_(1 + 0.25 * noise)
        elif p.dim() < 2:
            p.copy_(0.2 * noise)
        elif "relative_attention_bias" in name:
            p.copy_(noise)
        elif "embed" in name or "wte" in name or "wpe" in name or "shared" in name:
            p.copy_(0.4 * noise)
        elif name.endswith("Attention.q.weight"):  # T5 does not scale scores
            p.copy_(noise * 1.6 / max(p.shape) ** 0.5 / model.config.d_kv**0.5)
        else:
            p.copy_(noise * 1.6 / max(p.shape) ** 0.5)
    for name, buffer in model.named_buffers():
        if name.endswith("final_logits_bias"):
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))


def train(case, program):
    """Words of a small language and their translations, in the opposite order."""
    words = [("rot", "red"), ("blau", "blue"), ("Haus", "house"), ("Baum", "tree"), ("alt", "old"), ("und", "and")]
    rng, folder = random.Random(3), FOLDER / case.name
    with tempfile.TemporaryDirectory() as temporary:
        pairs, run = Path(temporary) / "pairs.tsv", Path(temporary) / "run"
        lines = []
        for _ in range(400):
            chosen = [rng.choice(words) for _ in range(rng.randint(2, 4))]
            lines.append(" ".join(a for a, _ in chosen) + "\t" + " ".join(b for _, b in reversed(chosen)) + "\n")
        pairs.write_text("".join(lines))
        subprocess.run([program, "train", pairs, "-o", run, "--width", "24", "--depth", "1", "--decoder-depth", "2",
                        "--heads", "3", "--mlp-ratio", "2", "--vocabulary", "280", "--length", "24", "--batch", "400",
                        "--steps", "150", "--lr", "5e-3", "--threads", "1", "--activation", "silu"], check=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                     "tokenizer_config.json"):
            shutil.copyfile(run / name, folder / name)


def build(case):
    cls = getattr(transformers, case.kind)
    if case.trained:
        return cls.from_pretrained(FOLDER / case.name, attn_implementation="eager").eval()
    torch.manual_seed(seed_of(case.name))
    model = cls(cls.config_class(**case.args))
    model.set_attn_implementation("eager")
    randomize(model, torch.Generator().manual_seed(seed_of(case.name)))
    return model.eval()


def save(case, model, folder):
    if case.trained:
        return
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    if not case.binary and not case.rename:
        return
    tensors = load_file(folder / "model.safetensors")
    for old, new in case.rename.items():
        tensors = {name.replace(old, new): value for name, value in tensors.items()}
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")


def inputs(case, model):
    generator = torch.Generator().manual_seed(seed_of(case.name) + 1)
    vocabulary, B, N = model.config.vocab_size, len(case.lengths), max(case.lengths)
    ids = torch.randint(3, vocabulary - 1, (B, N), generator=generator)
    mask = torch.ones(B, N, dtype=torch.int64)
    for row, length in enumerate(case.lengths):
        mask[row, length:] = 0
    pad = model.config.pad_token_id
    ids[mask == 0] = pad if pad is not None else 0
    given = {"input_ids": ids, "attention_mask": mask}
    if case.types:
        given["token_type_ids"] = (torch.arange(N) >= N // 2).long().expand(B, N).contiguous() % case.types
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.randint(3, vocabulary - 1, (B, case.targets), generator=generator)
    return given


@torch.no_grad()
def run(model, given):
    out = model(**given, output_attentions=True, output_hidden_states=True, return_dict=True)
    answers = {}
    pair = model.config.is_encoder_decoder
    hidden = out.decoder_hidden_states if pair else getattr(out, "hidden_states")
    last = getattr(out, "last_hidden_state", None)
    answers["tokens"] = last if last is not None else hidden[-1]
    if getattr(out, "pooler_output", None) is not None:
        answers["pooled"] = out.pooler_output
    if pair:
        answers["encoder_tokens"] = out.encoder_last_hidden_state
        kinds = {"attention": out.decoder_attentions, "encoder_attention": out.encoder_attentions,
                 "cross_attention": out.cross_attentions}
    else:
        kinds = {"attention": out.attentions}
    if hasattr(out, "logits") and not type(model).__name__.endswith("ForMaskedLM"):
        answers["logits"] = out.logits
    for kind, weights in kinds.items():
        for layer, w in enumerate(weights):
            answers[f"{kind}.{layer}"] = w
    # Rows of padded tokens mean nothing.
    shown = given["attention_mask"].bool()
    for name, value in answers.items():
        if name == "pooled" or (pair and name in ("tokens", "logits")) or name.startswith("cross_"):
            continue
        if pair and name.startswith("attention."):
            continue
        at = shown[:, None, :, None] if "attention" in name else shown[:, :, None]
        answers[name] = value * at
    return {name: value.contiguous() for name, value in answers.items()}


@torch.no_grad()
def generate(model, given):
    """What `generate` writes for each text alone: a decoder of prompts of several lengths pads on the left."""
    results = {}
    settings = {"greedy": {}, "beam": dict(num_beams=4, length_penalty=0.8), "options": OPTIONS}
    for name, options in settings.items():
        rows = []
        for row in range(len(given["input_ids"])):
            length = int(given["attention_mask"][row].sum())
            ids = given["input_ids"][row : row + 1, :length]
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12,
                                 **{"num_beams": 1, **options})[0]
            rows.append(out if model.config.is_encoder_decoder else out[length:])
        width = max(len(row) for row in rows)
        table = torch.full((len(rows), width), -1, dtype=torch.int64)
        for row, tokens in enumerate(rows):
            table[row, : len(tokens)] = tokens
        results[f"generated.{name}"] = table
    return results


@contextlib.contextmanager
def nothing_in_float32():
    """The library drops to float32 inside a float64 model in softmaxes, RMSNorms and rotary angles. Not here."""
    softmax, to = F.softmax, torch.Tensor.to

    def to_double(tensor, *args, **kwargs):
        args = tuple(torch.float64 if arg is torch.float32 else arg for arg in args)
        if kwargs.get("dtype") is torch.float32:
            kwargs["dtype"] = torch.float64
        return to(tensor, *args, **kwargs)

    F.softmax = lambda x, dim, dtype=None, **kwargs: softmax(x, dim, **kwargs)
    torch.Tensor.to = to_double
    try:
        yield
    finally:
        F.softmax, torch.Tensor.to = softmax, to


def frequencies(config):
    """Of rotary positions, in float64: Llama's, scaled for Llama 3 as its rope_parameters say."""
    rope, E = config.rope_parameters, config.head_dim if getattr(config, "head_dim", None) else (
        config.hidden_size // config.num_attention_heads)
    inverse = rope["rope_theta"] ** (-torch.arange(0, E, 2, dtype=torch.float64) / E)
    if rope["rope_type"] == "linear":
        return inverse / rope["factor"]
    if rope["rope_type"] == "default":
        return inverse
    wavelengths, low, high = 2 * math.pi / inverse, rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = ((rope["original_max_position_embeddings"] / wavelengths - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * inverse / rope["factor"] + smooth * inverse


def in_double(model):
    double = copy.deepcopy(model).double()
    for module in double.modules():
        if hasattr(module, "inv_freq"):
            single = module.inv_freq.double()
            module.inv_freq = frequencies(model.config)
            assert (single - module.inv_freq).abs().max() < 1e-6 * single.abs().max()
        if type(module).__name__ == "MarianSinusoidalPositionalEmbedding":
            length, D = module.weight.shape
            angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
            exact = torch.cat((angles.sin(), angles.cos()), 1)
            assert (module.weight - exact).abs().max() < 1e-6
            module.weight = torch.nn.Parameter(exact, requires_grad=False)
        if type(module).__name__ == "TrOCRSinusoidalPositionalEmbedding":
            length, D = module.weights.shape
            angles = torch.arange(length)[:, None] * 10000.0 ** (
                -torch.arange(D // 2, dtype=torch.float64) / (D // 2 - 1))
            exact = torch.cat((angles.sin(), angles.cos()), 1)
            exact[module.padding_idx] = 0
            assert (module.weights - exact).abs().max() < 1e-5
            module.weights = exact
    return double


def answers(model, given):
    tensors = dict(given)
    single = run(model, given)
    with nothing_in_float32():
        double = run(in_double(model), given)
    for name, value in single.items():
        tensors[name] = value
        tensors[f"{name}.float64"] = double[name]
    if model.can_generate() and not type(model).__name__.endswith("ForMaskedLM"):
        tensors.update(generate(model, given))
    return tensors


def check(case, tensors):
    """A golden that tests nothing is worse than none."""
    for name, value in tensors.items():
        assert value.isfinite().all(), f"{case.name}: {name} is not finite"
        if f"{name}.float64" in tensors:
            double = tensors[f"{name}.float64"]
            gap = (value - double).abs().max() / double.abs().max()
            assert 0 < gap < 2e-5, f"{case.name}: {name} differs by {gap} between precisions"
        if "attention." in name and not name.endswith("float64"):
            assert value.max() > 2 / value.shape[-1], f"{case.name}: {name} is close to uniform"


def make(case):
    folder = FOLDER / case.name
    model = build(case)
    save(case, model, folder)
    given = inputs(case, model)
    tensors = answers(model, given)
    check(case, tensors)
    if not case.rename:
        again = run(type(model).from_pretrained(folder, attn_implementation="eager").eval(), given)
        for name, value in again.items():
            assert torch.equal(value, tensors[name]), f"{case.name}: {name} is not what the folder gives"
    save_file(tensors, folder / "expected.safetensors")
    size = sum(f.stat().st_size for f in folder.iterdir())
    assert size <= LIMIT, f"{case.name}: {size} bytes"
    shapes = {name: list(value.shape) for name, value in tensors.items() if name in ("tokens", "logits")}
    print(f"{case.name:20} {size >> 10:5} KiB  {json.dumps(shapes)}", flush=True)


def main():
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--train"]:
        _, program = sys.argv.pop(1), sys.argv.pop(1)
        for case in CASES.values():
            if case.trained:
                train(case, program)
    unknown = set(sys.argv[1:]) - CASES.keys()
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}\nknown: {', '.join(CASES)}")
    for name in sys.argv[1:] or CASES:
        make(CASES[name])
    pack()


if __name__ == "__main__":
    main()
