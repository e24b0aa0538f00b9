// The table of configuration keys, and the presets.
#include <array>

#include "qkv/core/error.h"
#include "qkv/train/run/config.h"

namespace qkv::train {
namespace {

using C = TrainConfig;

constexpr std::string_view kStart = "Start", kModel = "Model", kImages = "Images", kSequences = "Sequences",
                           kAugment = "Augmentation", kSteps = "Steps", kRegular = "Regularisation",
                           kMachine = "Machine and records";
constexpr int64_t kMany = int64_t{1} << 40;

const std::array kKeys = {
    Key{kStart, "preset", &C::preset, "Values below those that are given", kPresets},
    Key{kStart, "model", &C::model, "Checkpoint to train on from, in any layout: new head, resized positions"},
    Key{kStart, "init", &C::init, "How weights begin; mimetic: W_Q W_K near I, W_V W_O near -I (Trockman, Kolter 2023)",
        "trunc-normal|mimetic"},
    Key{kStart, "seed", &C::seed, "Of everything random: same seed, threads and machine, same bits", {}, 0, 1e15},
    Key{kStart,
        "val-fraction",
        &C::val_fraction,
        "Part of the data held back where none is there to validate on",
        {},
        0.001,
        0.9},

    Key{kModel, "image-size", &C::image_size, "Size that images are brought to", {}, 1, 4096},
    Key{kModel, "patch-size", &C::patch_size, "Size of a patch", {}, 1, 512},
    Key{kModel, "channels", &C::channels, "1: grey, 3: colour", {}, 1, 3},
    Key{kModel, "width", &C::width, "D, features of a token", {}, 1, 16384},
    Key{kModel, "depth", &C::depth, "L, blocks", {}, 1, 256},
    Key{kModel, "heads", &C::heads, "H, heads of attention; they divide the width", {}, 1, 1024},
    Key{kModel, "mlp-ratio", &C::mlp_ratio, "Hidden width of the MLP, in widths", {}, 0.01, 64},
    Key{kModel, "mlp", &C::mlp, "swiglu: gated, two thirds as wide for the same parameters", "plain|swiglu"},
    Key{kModel, "activation", &C::activation, "Of the MLP", "gelu|gelu_tanh|quick_gelu|relu|silu|tanh"},
    Key{kModel, "attention", &C::attention, "What scores and values are made of (docs/kinds.md)",
        "separate|shared|unified|shared_kv|merged|low_rank|symmetric|gaussian|positional"},
    Key{kModel,
        "rank",
        &C::rank,
        "Width of a head's queries and keys, for low_rank, symmetric, positional",
        {},
        0,
        4096},
    Key{kModel, "qkv-bias", &C::qkv_bias, "Biases on queries, keys and values"},
    Key{kModel, "qk-norm", &C::qk_norm, "LayerNorm on queries and keys"},
    Key{kModel, "class-token", &C::class_token, "A token that is there to be read"},
    Key{kModel, "registers", &C::registers, "Tokens that are there to be written on", {}, 0, 256},
    Key{kModel, "layer-scale", &C::layer_scale, "LayerScale of the branches begins here; 0: none", {}, 0, 10},
    Key{kModel, "pool", &C::pool, "What the classifier reads", "token|avg|max|avgmax|map"},

    Key{kImages, "mean", &C::mean, "Subtracted from pixels in 0 to 1; one for all channels or one each", {}, -10, 10},
    Key{kImages, "std", &C::std, "Then divided by", {}, 1e-3, 100},
    Key{kImages, "interpolation", &C::interpolation, "Filter of resizing",
        "nearest|box|bilinear|hamming|bicubic|lanczos"},
    Key{kImages, "crop-pct", &C::crop_pct, "Part of the shorter edge that is seen when evaluating", {}, 0.05, 1},
    Key{kImages, "crop-mode", &C::crop_mode, "How images of another shape are made to fit when evaluating",
        "center|squash|border"},
    Key{kImages, "background", &C::background, "dark: images with a bright border are inverted, now and by the model",
        "any|dark"},
    Key{kImages,
        "cache",
        &C::cache,
        "Where decoded images are kept: memory, nowhere, or a folder; auto: memory, or the user's cache when they are "
        "many",
        {},
        0,
        0,
        true},

    Key{kSequences, "length", &C::length, "Tokens of a sequence; of a text the bytes seen at once", {}, 2, 65536},
    Key{kSequences, "vocabulary", &C::vocabulary, "Different tokens; of a text 256", {}, 2, 65536},
    Key{kSequences, "positions", &C::positions, "How a token's place is told", "none|learned|sinusoidal|rotary"},
    Key{kSequences, "rotary-base", &C::rotary_base, "Base of the wavelengths of rotary positions", {}, 1, 1e9},
    Key{kSequences, "causal", &C::causal, "A token sees itself and those before it only"},
    Key{kSequences, "norm", &C::norm, "LayerNorm or RMSNorm", "layer|rms"},
    Key{kSequences, "norm-place", &C::norm_place, "Before attention and MLP, or after them and the residual",
        "before|after"},
    Key{kSequences, "head-width", &C::head_width, "E, features of a head; 0: width / heads", {}, 0, 4096},
    Key{kSequences,
        "key-heads",
        &C::key_heads,
        "Heads of keys and values, shared by groups of heads; 0: heads",
        {},
        0,
        1024},
    Key{kSequences, "window", &C::window, "A token sees so many tokens to each side; 0: all", {}, 0, 65536},

    Key{kAugment, "crop", &C::crop, "resized: random resized crop; padded: shifted by up to pad; none: as evaluated",
        "resized|padded|none"},
    Key{kAugment, "scale", &C::scale, "Least part of the area that a resized crop shows", {}, 0.01, 1},
    Key{kAugment, "pad", &C::pad, "Pixels around an image that is cropped padded", {}, 0, 512},
    Key{kAugment, "flip", &C::flip, "Probability of a mirrored image", {}, 0, 1},
    Key{kAugment, "randaugment", &C::randaugment, "Operations of RandAugment on an image; 0: off", {}, 0, 16},
    Key{kAugment, "magnitude", &C::magnitude, "How strong they are", {}, 0, 10},
    Key{kAugment, "jitter", &C::jitter, "Greatest change of brightness, contrast and saturation", {}, 0, 1},
    Key{kAugment, "erase", &C::erase, "Probability of an erased rectangle", {}, 0, 1},
    Key{kAugment, "mixup", &C::mixup, "Alpha of mixup; 0: off", {}, 0, 100},
    Key{kAugment, "cutmix", &C::cutmix, "Alpha of cutmix; 0: off", {}, 0, 100},

    Key{kSteps, "opt", &C::opt, "Optimiser", "adamw|sgd"},
    Key{kSteps, "lr", &C::lr, "Greatest learning rate", {}, 1e-9, 100},
    Key{kSteps, "min-lr", &C::min_lr, "Learning rate at the end", {}, 0, 100},
    Key{kSteps, "sched", &C::sched, "How it falls", "cosine|one-cycle|constant"},
    Key{kSteps, "epochs", &C::epochs, "Passes over the images, or the text; of a task 100 steps each", {}, 1, 1e6},
    Key{kSteps, "steps", &C::steps, "Steps of the optimiser in all, instead of epochs", {}, 0, kMany},
    Key{kSteps,
        "warmup-epochs",
        &C::warmup_epochs,
        "Epochs in which the learning rate rises; at most half of the run",
        {},
        0,
        1e5},
    Key{kSteps, "batch", &C::batch, "Images or sequences of a batch", {}, 1, 65536},
    Key{kSteps, "accumulate", &C::accumulate, "Batches whose gradients one step sums up", {}, 1, 4096},
    Key{kSteps, "weight-decay", &C::weight_decay, "Of weights; none of biases, norms, tokens and positions", {}, 0, 10},
    Key{kSteps, "beta1", &C::beta1, "AdamW's mean of gradients", {}, 0, 0.999999},
    Key{kSteps, "beta2", &C::beta2, "AdamW's mean of their squares", {}, 0, 0.999999},
    Key{kSteps, "momentum", &C::momentum, "Of sgd", {}, 0, 0.999999},
    Key{kSteps, "clip-grad", &C::clip_grad, "Greatest norm of a step's gradient; 0: any", {}, 0, 1e6},

    Key{kRegular, "smoothing", &C::smoothing, "Label smoothing", {}, 0, 0.99},
    Key{kRegular, "dropout", &C::dropout, "Of what leaves attention and MLP", {}, 0, 0.99},
    Key{kRegular, "attention-dropout", &C::attention_dropout, "Of attention weights", {}, 0, 0.99},
    Key{kRegular, "drop-path", &C::drop_path, "Stochastic depth: of the last block; less below it", {}, 0, 0.99},
    Key{kRegular,
        "ema",
        &C::ema,
        "Decay of the average of the weights, which is then evaluated and kept; 0: none",
        {},
        0,
        0.999999},
    Key{kRegular,
        "patience",
        &C::patience,
        "Evaluations without a better one after which it stops; 0: never",
        {},
        0,
        1e6,
        true},

    Key{kMachine, "precision", &C::precision, "Of products; weights and sums stay fp32", "fp32|bf16"},
    Key{kMachine,
        "checkpointing",
        &C::checkpointing,
        "Compute activations twice instead of keeping them",
        {},
        0,
        0,
        true},
    Key{kMachine,
        "threads",
        &C::threads,
        "Threads; 0: all cores. Another number rounds sums otherwise",
        {},
        0,
        1024,
        true},
    Key{kMachine, "eval-epochs", &C::eval_epochs, "Epochs from one evaluation to the next", {}, 1, 1e6},
    Key{kMachine,
        "eval-steps",
        &C::eval_steps,
        "Steps from one evaluation to the next, instead of epochs",
        {},
        0,
        kMany},
    Key{kMachine,
        "save-steps",
        &C::save_steps,
        "Save after so many steps too; 0: after each epoch only",
        {},
        0,
        kMany,
        true},
    Key{kMachine, "log-steps", &C::log_steps, "Steps from one line of the log to the next", {}, 1, kMany, true},
    Key{kMachine, "tensorboard", &C::tensorboard, "Write event files for TensorBoard", {}, 0, 0, true},
    Key{kMachine, "maps", &C::maps, "Draw where it looks: so many validation images, or those of a file or folder"},
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
  Fail("preset: expected one of {}, got \"{}\"", kPresets, preset);
}

bool IsForSequences(std::string_view preset) { return preset.starts_with("seq-"); }

std::string_view PresetFor(int64_t height, int64_t width, int channels) {
  const int64_t side = std::max(height, width);
  if (side <= 32 && channels == 1) return "vit-digits";
  return side <= 64 ? "vit-cifar" : "vit-tiny";
}

}  // namespace qkv::train
