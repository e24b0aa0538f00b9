// The table of configuration keys, and the presets.
#include <array>

#include "qkv/core/error.h"
#include "qkv/train/run/config.h"

namespace qkv::train {
namespace {

using C = TrainConfig;

constexpr std::string_view kStart = "Start", kModel = "Model", kImages = "Images", kSequences = "Sequences",
                           kPairs = "Pairs", kAugment = "Augmentation", kSteps = "Steps", kRegular = "Regularisation",
                           kMachine = "Machine and records";
constexpr int64_t kMany = int64_t{1} << 40;

const std::array kKeys = {
    Key{kStart, "preset", &C::preset, "Defaults for the keys not given", kPresets},
    Key{kStart, "model", &C::model, "Checkpoint to start from, in any layout; for images: new head, resized positions"},
    Key{kStart, "init", &C::init, "Initial weights; mimetic: W_Q W_K near I, W_V W_O near -I (Trockman, Kolter 2023)",
        "trunc-normal|mimetic"},
    Key{kStart, "seed", &C::seed, "Seed of all random numbers; same seed, threads and machine: same bits", {}, 0, 1e15},
    Key{kStart,
        "val-fraction",
        &C::val_fraction,
        "Part of the data held out for validation if the data has no such part",
        {},
        0.001,
        0.9},

    Key{kModel,
        "image-size",
        &C::image_size,
        "Size of the model's input; from a model on, what its preprocessing gives",
        {},
        1,
        4096},
    Key{kModel, "patch-size", &C::patch_size, "Size of a patch", {}, 1, 512},
    Key{kModel, "channels", &C::channels, "Channels of an image; 1: grey, 3: colour", {}, 1, 3},
    Key{kModel, "width", &C::width, "D, features of a token", {}, 1, 16384},
    Key{kModel, "depth", &C::depth, "L, number of blocks", {}, 1, 256},
    Key{kModel, "heads", &C::heads, "H, attention heads; must divide width unless head-width is given", {}, 1, 1024},
    Key{kModel, "mlp-ratio", &C::mlp_ratio, "Hidden width of the MLP, as a multiple of width", {}, 0.01, 64},
    Key{kModel, "mlp", &C::mlp, "swiglu: gated, two thirds as wide for equally many parameters", "plain|swiglu"},
    Key{kModel, "activation", &C::activation, "Activation of the MLP; swiglu has silu in place of gelu",
        "gelu|gelu_tanh|quick_gelu|relu|silu|tanh"},
    Key{kModel, "attention", &C::attention, "Kind of attention (docs/kinds.md)",
        "separate|shared|unified|shared_kv|merged|low_rank|symmetric|gaussian|positional|differential"},
    Key{kModel,
        "rank",
        &C::rank,
        "Width of a head's queries and keys; for low_rank, symmetric and positional",
        {},
        0,
        4096},
    Key{kModel, "qkv-bias", &C::qkv_bias, "Biases on queries, keys and values"},
    Key{kModel, "qk-norm", &C::qk_norm, "LayerNorm on queries and keys"},
    Key{kModel, "class-token", &C::class_token, "Adds a class token"},
    Key{kModel, "registers", &C::registers, "Number of register tokens", {}, 0, 256},
    Key{kModel, "layer-scale", &C::layer_scale, "Initial value of LayerScale; 0: no LayerScale", {}, 0, 10},
    Key{kModel, "pool", &C::pool, "Pooling before the classifier; token: the class token, map: attention pooling",
        "token|avg|max|avgmax|map"},

    Key{kImages,
        "mean",
        &C::mean,
        "Mean subtracted from pixels in 0 to 1; one number, or one per channel",
        {},
        -10,
        10},
    Key{kImages,
        "std",
        &C::std,
        "Standard deviation that then divides them; one number, or one per channel",
        {},
        1e-3,
        100},
    Key{kImages, "interpolation", &C::interpolation, "Filter for resizing",
        "nearest|box|bilinear|hamming|bicubic|lanczos"},
    Key{kImages, "crop-pct", &C::crop_pct, "Part of the shorter edge that is kept in evaluation", {}, 0.05, 1},
    Key{kImages, "crop-mode", &C::crop_mode, "How images of another shape are fitted in evaluation",
        "center|squash|border"},
    Key{kImages, "background", &C::background,
        "dark: images with a bright border are inverted, in training and later by the model", "any|dark"},
    Key{kImages,
        "cache",
        &C::cache,
        "Where decoded images are kept: memory, nowhere, or a folder; auto: memory, or the user's cache if they are "
        "large",
        {},
        0,
        0,
        true},

    Key{kSequences,
        "length",
        &C::length,
        "Tokens per sequence; for texts: bytes of context; for pairs: most tokens a side",
        {},
        2,
        65536},
    Key{kSequences,
        "vocabulary",
        &C::vocabulary,
        "Number of different tokens; 256 for texts; for pairs: most tokens that are learned",
        {},
        2,
        65536},
    Key{kSequences, "positions", &C::positions, "Position encoding", "none|learned|sinusoidal|rotary"},
    Key{kSequences, "rotary-base", &C::rotary_base, "Base of the wavelengths of rotary positions", {}, 1, 1e9},
    Key{kSequences, "causal", &C::causal, "A token sees only itself and the tokens before it"},
    Key{kSequences, "norm", &C::norm, "LayerNorm or RMSNorm", "layer|rms"},
    Key{kSequences, "norm-place", &C::norm_place, "before: x + f(norm x); after: norm(x + f(x)), without a final norm",
        "before|after"},
    Key{kSequences, "head-width", &C::head_width, "E, features of a head; 0: width / heads", {}, 0, 4096},
    Key{kSequences,
        "key-heads",
        &C::key_heads,
        "G, heads of keys and values (grouped-query attention); divides heads; 0: as many as heads. For separate, "
        "shared_kv and low_rank",
        {},
        0,
        1024},
    Key{kSequences,
        "window",
        &C::window,
        "A token sees itself and up to this many tokens on each side (with causal only before it); 0: all",
        {},
        0,
        65536},
    Key{kSequences, "sinks", &C::sinks,
        "A learned score per head that takes weight from the tokens and has no value (attention sinks)"},

    Key{kPairs, "tokenizer", &C::tokenizer,
        "Folder of a tokenizer with an end and a padding token; none: byte-level BPE is learned from the pairs"},
    Key{kPairs, "valid", &C::valid, "File of pairs for validation, instead of a part of the data"},
    Key{kPairs, "decoder-depth", &C::decoder_depth, "Blocks of the decoder; 0: as many as the encoder's", {}, 0, 256},
    Key{kPairs, "cross-attention", &C::cross_attention, "Kind of the decoder's attention to the encoder",
        "separate|shared|unified|shared_kv|merged|low_rank|symmetric|differential"},
    Key{kPairs,
        "valid-lines",
        &C::valid_lines,
        "Lines that each evaluation translates, one beam, for BLEU; 0: none",
        {},
        0,
        1e6},

    Key{kAugment, "crop", &C::crop,
        "resized: random resized crop; padded: random shift by up to pad; none: as in evaluation",
        "resized|padded|none"},
    Key{kAugment, "scale", &C::scale, "Smallest part of the image's area in a resized crop", {}, 0.01, 1},
    Key{kAugment, "pad", &C::pad, "Greatest shift of a padded crop, in pixels", {}, 0, 512},
    Key{kAugment, "flip", &C::flip, "Probability of a horizontal flip", {}, 0, 1},
    Key{kAugment, "randaugment", &C::randaugment, "Operations of RandAugment per image; 0: off", {}, 0, 16},
    Key{kAugment, "magnitude", &C::magnitude, "Strength of RandAugment's operations", {}, 0, 10},
    Key{kAugment, "jitter", &C::jitter, "Greatest change of brightness, contrast and saturation", {}, 0, 1},
    Key{kAugment, "erase", &C::erase, "Probability of erasing a random rectangle", {}, 0, 1},
    Key{kAugment, "mixup", &C::mixup, "Alpha of mixup; 0: off", {}, 0, 100},
    Key{kAugment, "cutmix", &C::cutmix, "Alpha of cutmix; 0: off", {}, 0, 100},

    Key{kSteps, "opt", &C::opt, "Optimiser", "adamw|sgd"},
    Key{kSteps, "lr", &C::lr, "Peak learning rate", {}, 1e-9, 100},
    Key{kSteps, "min-lr", &C::min_lr, "Final learning rate of the cosine schedule", {}, 0, 100},
    Key{kSteps, "sched", &C::sched, "Learning-rate schedule", "cosine|inverse-sqrt|one-cycle|constant"},
    Key{kSteps,
        "epochs",
        &C::epochs,
        "Passes over the images, the text or the pairs; for tasks 100 steps each",
        {},
        1,
        1e6,
        true},
    Key{kSteps,
        "steps",
        &C::steps,
        "Number of optimiser steps, instead of epochs; 0: as epochs says",
        {},
        0,
        kMany,
        true},
    Key{kSteps,
        "minutes",
        &C::minutes,
        "Minutes that the run takes, instead of epochs and steps: it has as many steps as fit; 0: as steps says",
        {},
        0,
        1e6,
        true},
    Key{kSteps,
        "warmup-epochs",
        &C::warmup_epochs,
        "Epochs in which the learning rate rises; at most half of the run",
        {},
        0,
        1e5},
    Key{kSteps,
        "batch",
        &C::batch,
        "Images or sequences per batch; for pairs: tokens of both sides, padding included",
        {},
        1,
        65536},
    Key{kSteps, "accumulate", &C::accumulate, "Batches whose gradients are summed in one step", {}, 1, 4096},
    Key{kSteps,
        "weight-decay",
        &C::weight_decay,
        "Weight decay; none for biases, norms, tokens and positions",
        {},
        0,
        10},
    Key{kSteps, "beta1", &C::beta1, "AdamW's decay of the mean of gradients", {}, 0, 0.999999},
    Key{kSteps, "beta2", &C::beta2, "AdamW's decay of the mean of squared gradients", {}, 0, 0.999999},
    Key{kSteps, "momentum", &C::momentum, "Momentum of sgd", {}, 0, 0.999999},
    Key{kSteps,
        "clip-grad",
        &C::clip_grad,
        "Greatest norm of a step's gradient; larger ones are scaled down; 0: off",
        {},
        0,
        1e6},

    Key{kRegular, "smoothing", &C::smoothing, "Label smoothing", {}, 0, 0.99},
    Key{kRegular, "dropout", &C::dropout, "Dropout of the outputs of attention and MLP", {}, 0, 0.99},
    Key{kRegular, "attention-dropout", &C::attention_dropout, "Dropout of attention weights", {}, 0, 0.99},
    Key{kRegular,
        "drop-path",
        &C::drop_path,
        "Stochastic depth: probability in the last block; falls linearly to 0 in the first",
        {},
        0,
        0.99},
    Key{kRegular,
        "ema",
        &C::ema,
        "Decay of the moving average of the weights, which is evaluated and written; 0: none",
        {},
        0,
        0.999999},
    Key{kRegular,
        "patience",
        &C::patience,
        "Evaluations without improvement after which the run stops; 0: never",
        {},
        0,
        1e6,
        true},

    Key{kMachine, "precision", &C::precision, "Precision of products; weights and sums stay fp32", "fp32|bf16"},
    Key{kMachine,
        "checkpointing",
        &C::checkpointing,
        "Recompute activations in the backward pass instead of storing them",
        {},
        0,
        0,
        true},
    Key{kMachine,
        "threads",
        &C::threads,
        "Threads; 0: all cores. Another number rounds sums differently",
        {},
        0,
        1024,
        true},
    Key{kMachine, "eval-epochs", &C::eval_epochs, "Epochs between evaluations", {}, 1, 1e6},
    Key{kMachine,
        "eval-steps",
        &C::eval_steps,
        "Steps between evaluations, instead of epochs; 0: as eval-epochs says",
        {},
        0,
        kMany},
    Key{kMachine,
        "save-steps",
        &C::save_steps,
        "Steps between additional saves; 0: saves only after evaluations",
        {},
        0,
        kMany,
        true},
    Key{kMachine, "log-steps", &C::log_steps, "Steps between lines of the log", {}, 1, kMany, true},
    Key{kMachine, "tensorboard", &C::tensorboard, "Write event files for TensorBoard", {}, 0, 0, true},
    Key{kMachine, "maps", &C::maps,
        "Draw attention maps at each evaluation: of so many validation images, or of a file or folder"},
};

// Settings for ViTs of 224 x 224 from scratch, after DeiT (Touvron et al. 2021), with fewer epochs.
const Settings kDeit = {
    {"image-size", "224"},
    {"patch-size", "16"},
    {"depth", "12"},
    {"mean", "0.485,0.456,0.406"},
    {"std", "0.229,0.224,0.225"},
    {"crop-pct", "0.9"},
    {"crop", "resized"},
    {"scale", "0.08"},
    {"flip", "0.5"},
    {"erase", "0.25"},
    {"randaugment", "2"},
    {"magnitude", "9"},
    {"mixup", "0.8"},
    {"cutmix", "1"},
    {"epochs", "100"},
    {"warmup-epochs", "5"},
    {"batch", "128"},
    {"lr", "5e-4"},
    {"weight-decay", "0.05"},
    {"ema", "0.9998"},
};

Settings With(Settings base, const Settings& more) {
  for (const auto& [key, value] : more) base[key] = value;
  return base;
}

}  // namespace

std::span<const Key> Keys() { return kKeys; }

Settings PresetSettings(std::string_view preset) {
  // 0.45 M parameters. MNIST's mean and deviation, bright strokes on dark; shifts of two pixels, no flips.
  if (preset == "vit-digits") {
    return {{"image-size", "28"}, {"patch-size", "4"},   {"channels", "1"},     {"width", "96"},   {"depth", "4"},
            {"heads", "4"},       {"mean", "0.1307"},    {"std", "0.3081"},     {"crop-pct", "1"}, {"crop", "padded"},
            {"pad", "2"},         {"flip", "0"},         {"epochs", "30"},      {"batch", "128"},  {"lr", "1e-3"},
            {"ema", "0.999"},     {"drop-path", "0.05"}, {"background", "dark"}};
  }
  // 2.7 M parameters. Mimetic initialisation helps most on small data sets.
  if (preset == "vit-cifar") {
    return {{"image-size", "32"},
            {"patch-size", "4"},
            {"width", "192"},
            {"depth", "6"},
            {"heads", "3"},
            {"mean", "0.4914,0.4822,0.4465"},
            {"std", "0.247,0.2435,0.2616"},
            {"crop-pct", "1"},
            {"crop", "padded"},
            {"pad", "4"},
            {"flip", "0.5"},
            {"randaugment", "2"},
            {"magnitude", "9"},
            {"mixup", "0.2"},
            {"cutmix", "1"},
            {"init", "mimetic"},
            {"epochs", "80"},
            {"warmup-epochs", "4"},
            {"batch", "128"},
            {"lr", "1e-3"},
            {"ema", "0.9995"},
            {"drop-path", "0.1"}};
  }
  if (preset == "vit-tiny") return With(kDeit, {{"width", "192"}, {"heads", "3"}});
  if (preset == "vit-small") return With(kDeit, {{"width", "384"}, {"heads", "6"}, {"drop-path", "0.1"}});
  // Small learning rate and few epochs, to stay near the trained weights.
  if (preset == "fine-tune") {
    return {{"epochs", "10"}, {"warmup-epochs", "1"}, {"batch", "32"},      {"lr", "1e-4"},
            {"scale", "0.5"}, {"flip", "0.5"},        {"smoothing", "0.1"}, {"drop-path", "0.1"}};
  }
  // 0.2 M parameters with full attention, for tasks of a few tokens: half a minute on one core.
  if (preset == "seq-task") {
    return {{"length", "16"}, {"vocabulary", "16"}, {"width", "64"},         {"depth", "2"},
            {"heads", "4"},   {"epochs", "20"},     {"warmup-epochs", "1"},  {"batch", "64"},
            {"lr", "2e-3"},   {"smoothing", "0"},   {"weight-decay", "0.01"}};
  }
  // 0.8 M parameters that predict the next byte, for texts of some hundred kilobytes to a few megabytes.
  if (preset == "seq-text") {
    return {{"length", "128"},      {"vocabulary", "256"}, {"positions", "rotary"}, {"causal", "true"},
            {"width", "128"},       {"depth", "4"},        {"heads", "4"},          {"epochs", "10"},
            {"warmup-epochs", "1"}, {"batch", "32"},       {"lr", "2e-3"},          {"beta2", "0.99"},
            {"smoothing", "0"},     {"dropout", "0.1"},    {"weight-decay", "0.1"}};
  }
  // About 8 M parameters: a third of Transformer-base's width and half of its depth (Vaswani et al. 2017), for some
  // thousand to some hundred thousand pairs.
  if (preset == "seq-pairs") {
    return {{"length", "256"},
            {"vocabulary", "8192"},
            {"width", "256"},
            {"depth", "3"},
            {"heads", "4"},
            {"activation", "relu"},
            {"positions", "sinusoidal"},
            {"norm-place", "after"},
            {"epochs", "20"},
            {"warmup-epochs", "1"},
            {"batch", "4096"},
            {"lr", "1e-3"},
            {"beta2", "0.98"},
            {"smoothing", "0.1"},
            {"dropout", "0.1"},
            {"weight-decay", "0.01"}};
  }
  Fail("preset: expected one of {}, got \"{}\"", kPresets, preset);
}

bool IsForSequences(std::string_view preset) { return preset.starts_with("seq-"); }
bool IsForPairs(std::string_view preset) { return preset == "seq-pairs"; }

std::string_view PresetFor(int64_t height, int64_t width, int channels) {
  const int64_t side = std::max(height, width);
  if (side <= 32 && channels == 1) return "vit-digits";
  return side <= 64 ? "vit-cifar" : "vit-tiny";
}

}  // namespace qkv::train
