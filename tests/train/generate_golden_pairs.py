"""Writes tests/train/golden/pairs.safetensors: a small MarianMTModel of transformers in training.

    python tests/train/generate_golden_pairs.py

Needs the environment of tools/reference_env.sh. Weights and gradients have qkv's names, the parts of one product
joined: "weights/encoder.blocks.0.attn.qkv.weight". A batch of padded texts, its logits, the loss with label smoothing
and all gradients of the first step, and the losses of the steps, each in float32 and, with the suffix .float64, in
float64.
"""
import copy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import torch
import torch.nn.functional as F
import torchvision_stub  # noqa: F401  before transformers
import training
import transformers

FILE = Path(__file__).resolve().parent / "golden" / "pairs.safetensors"
V, D, PAD, END, STEPS, SMOOTHING = 19, 16, 2, 0, 12, 0.1
CONFIG = dict(vocab_size=V, d_model=D, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
              decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=20, max_position_embeddings=12,
              activation_function="relu", scale_embedding=True, pad_token_id=PAD, eos_token_id=END,
              decoder_start_token_id=PAD, forced_eos_token_id=END, dropout=0.0, attention_dropout=0.0,
              activation_dropout=0.0)
RATE = 5e-3
SOURCE_LENGTHS, TARGET_LENGTHS = (7, 4, 6), (5, 6, 2)


def names(model):
    """qkv's name of each tensor, and the parameters that are joined in it."""
    table = {"token_embed.weight": ["model.shared.weight"]}
    for side, layers in (("encoder", 1), ("decoder", 2)):
        for layer in range(layers):
            ours, theirs = f"{side}.blocks.{layer}.", f"model.{side}.layers.{layer}."
            for kind in ("weight", "bias"):
                table[f"{ours}norm1.{kind}"] = [f"{theirs}self_attn_layer_norm.{kind}"]
                table[f"{ours}attn.qkv.{kind}"] = [f"{theirs}self_attn.{p}_proj.{kind}" for p in "qkv"]
                table[f"{ours}attn.proj.{kind}"] = [f"{theirs}self_attn.out_proj.{kind}"]
                if side == "decoder":
                    table[f"{ours}norm_cross.{kind}"] = [f"{theirs}encoder_attn_layer_norm.{kind}"]
                    table[f"{ours}cross_attn.q.{kind}"] = [f"{theirs}encoder_attn.q_proj.{kind}"]
                    table[f"{ours}cross_attn.kv.{kind}"] = [f"{theirs}encoder_attn.{p}_proj.{kind}" for p in "kv"]
                    table[f"{ours}cross_attn.proj.{kind}"] = [f"{theirs}encoder_attn.out_proj.{kind}"]
                table[f"{ours}norm2.{kind}"] = [f"{theirs}final_layer_norm.{kind}"]
                table[f"{ours}mlp.fc1.{kind}"] = [f"{theirs}fc1.{kind}"]
                table[f"{ours}mlp.fc2.{kind}"] = [f"{theirs}fc2.{kind}"]
    return table


def exact_positions(model):
    for module in model.modules():
        if type(module).__name__ == "MarianSinusoidalPositionalEmbedding":
            length, width = module.weight.shape
            angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
            exact = torch.cat((angles.sin(), angles.cos()), 1)
            assert (module.weight - exact).abs().max() < 1e-6
            module.weight = torch.nn.Parameter(exact.to(model.dtype), requires_grad=False)
    return model


def batch():
    generator = torch.Generator().manual_seed(5)
    source = torch.full((3, max(SOURCE_LENGTHS)), PAD)
    labels = torch.full((3, max(TARGET_LENGTHS)), -100)
    for row, (n, m) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS)):
        source[row, : n - 1] = torch.randint(3, V, (n - 1,), generator=generator)
        labels[row, : m - 1] = torch.randint(3, V, (m - 1,), generator=generator)
        source[row, n - 1] = labels[row, m - 1] = END
    target = torch.full_like(labels, PAD)
    target[:, 1:] = labels[:, :-1]
    target[target == -100] = PAD
    return source, target, labels


def train(model, table, dtype):
    model = exact_positions(copy.deepcopy(model).to(dtype)).train()
    parameters = dict(model.named_parameters())
    decays = [parameters[t] for ours, theirs in table.items() for t in theirs
              if ours.endswith(".weight") and "norm" not in ours and "token" not in ours]
    others = [parameters[t] for ours, theirs in table.items() for t in theirs
              if not ours.endswith(".weight") or "norm" in ours or "token" in ours]
    source, target, labels = batch()
    mask = torch.zeros_like(source)
    for row, n in enumerate(SOURCE_LENGTHS):
        mask[row, :n] = 1

    def loss_of():
        logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
        return logits, F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING)

    def first_of(logits):
        first = {f"gradients/{ours}": torch.cat([parameters[t].grad for t in theirs]) for ours, theirs in table.items()}
        return first | {"logits": logits * (labels != -100)[:, :, None]}

    return training.train(decays, others, RATE, STEPS, loss_of, first_of)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(11)
    model = transformers.MarianMTModel(transformers.MarianConfig(**CONFIG))
    model.set_attn_implementation("eager")
    # The first token that the decoder reads is the padding token; PyTorch's embeddings would leave out its gradient.
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    table = names(model)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for theirs in sorted({t for parts in table.values() for t in parts}):
            p, norm = parameters[theirs], "norm" in theirs
            p.copy_((1.0 if norm and theirs.endswith("weight") else 0.0)
                    + torch.randn_like(p) * (0.1 if p.dim() < 2 else 0.25))
    source, target, labels = batch()
    golden = {f"weights/{ours}": torch.cat([parameters[t].detach() for t in theirs]) for ours, theirs in table.items()}
    golden |= {"source": source.float(), "target": target.float(), "labels": labels.float(),
               "source_lengths": torch.tensor(SOURCE_LENGTHS).float(),
               "target_lengths": torch.tensor(TARGET_LENGTHS).float()}
    single = train(model, table, torch.float32)
    softmax = F.softmax
    F.softmax = lambda x, dim, dtype=None, **kwargs: softmax(x, dim, **kwargs)  # nothing in float32
    double = train(model, table, torch.float64)
    F.softmax = softmax
    training.write(FILE, golden, single, double, 0.8, transformers=transformers.__version__)


if __name__ == "__main__":
    main()
