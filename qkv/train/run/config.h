// What a training run is told: one table of keys, which the configuration file, the command line and the documentation
// share, and the presets. Not here: what is done with it (run.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace qkv::train {

using Extents = std::pair<int64_t, int64_t>;  // height, width

struct TrainConfig {
  // Where it begins
  std::string preset;  // whose values stand below those that were given
  std::string model;   // checkpoint whose weights training continues from; empty: new ones
  std::string init = "trunc-normal";
  int64_t seed = 0;
  double val_fraction = 0.1;

  // The model (with `model`: that of the checkpoint, but for the image's size)
  Extents image_size = {224, 224}, patch_size = {16, 16};
  int64_t channels = 3;
  int64_t width = 192, depth = 12, heads = 3;
  double mlp_ratio = 4;
  std::string mlp = "plain", activation = "gelu";
  std::string attention = "separate";
  int64_t rank = 0;
  bool qkv_bias = true, qk_norm = false, class_token = true;
  int64_t registers = 0;
  double layer_scale = 0;
  std::string pool = "token";

  // How images become pixels, and what is done to those of training
  std::vector<double> mean = {0.5}, std = {0.5};  // one for all channels, or one each
  std::string interpolation = "bicubic", crop_mode = "center";
  double crop_pct = 0.9;
  std::string background = "any";
  std::string crop = "resized";
  double scale = 0.08;
  int64_t pad = 0;
  double flip = 0.5, erase = 0, jitter = 0;
  int64_t randaugment = 0;
  double magnitude = 9;
  double mixup = 0, cutmix = 0;
  std::string cache = "auto";

  // What sequences are, and where their tokens stand
  int64_t length = 16, vocabulary = 16;
  std::string positions = "learned";
  double rotary_base = 10000;
  bool causal = false;
  std::string norm = "layer", norm_place = "before";
  int64_t head_width = 0, key_heads = 0, window = 0;

  // Steps
  std::string opt = "adamw", sched = "cosine";
  double lr = 1e-3, min_lr = 1e-5, weight_decay = 0.05;
  double beta1 = 0.9, beta2 = 0.999, momentum = 0.9;
  double clip_grad = 1;
  int64_t epochs = 30, steps = 0;
  double warmup_epochs = 2;
  int64_t batch = 128, accumulate = 1;

  // Against overfitting
  double smoothing = 0.1, dropout = 0, attention_dropout = 0, drop_path = 0;
  double ema = 0;
  int64_t patience = 0;

  // The machine, and what is kept
  std::string precision = "fp32";
  bool checkpointing = false;
  int64_t threads = 0;
  int64_t eval_epochs = 1, eval_steps = 0, save_steps = 0, log_steps = 20;
  bool tensorboard = true;
  std::string maps;  // for who observes the run: training draws nothing
};

/// One key of the configuration: `name` in the file, `--name` on the command line.
struct Key {
  std::string_view group, name;
  std::variant<bool TrainConfig::*, int64_t TrainConfig::*, double TrainConfig::*, std::string TrainConfig::*,
               Extents TrainConfig::*, std::vector<double> TrainConfig::*>
      member;
  std::string_view help;
  std::string_view choices = {};  // "a|b|c" for one of these words
  double low = 0, high = 0;       // bounds of numbers, both allowed; none where they are equal
  bool later = false;             // may change when a run is resumed: the result of its steps so far stays the same
};

/// All of them, group by group.
std::span<const Key> Keys();
/// Throws Error that names the nearest key there is.
const Key& FindKey(std::string_view name);
bool IsSwitch(const Key& key);
/// The words that it may be, where it is one of some.
std::vector<std::string_view> ChoicesOf(const Key& key);

/// What was given, key by key, not yet understood.
using Settings = std::map<std::string, std::string, std::less<>>;

/// `below`, but for what stands above it.
Settings Over(Settings below, const Settings& above);

/// Sets a key. Throws Error that begins with `where` and says what is expected.
void Set(const Key& key, std::string_view text, std::string_view where, TrainConfig* config);
/// As Set would read it.
std::string ValueOf(const Key& key, const TrainConfig& config);

/// A YAML or JSON file: one table of keys and plain values (sizes and means may be lists); "_" counts as "-".
/// Throws Error with the file, the line where there is one, and for an unknown key the nearest one.
Settings ReadSettings(const std::filesystem::path& file);
/// The same of its text; `where` begins the errors.
Settings ParseSettings(std::string_view text, const std::string& where);

inline constexpr std::string_view kPresets = "vit-digits|vit-cifar|vit-tiny|vit-small|fine-tune|seq-task|seq-text";
/// What a preset sets. Throws Error when there is none of that name.
Settings PresetSettings(std::string_view preset);
/// Whether it is for sequences; else it is for images.
bool IsForSequences(std::string_view preset);
/// The preset that suits images of this size and kind.
std::string_view PresetFor(int64_t height, int64_t width, int channels);

/// The preset that `given` names, and what is given above it; with "model" and without a preset: fine-tune's.
/// Throws Error for a value out of bounds, or keys that contradict each other, the preset's data or the model.
TrainConfig Resolve(const Settings& given);

/// Every key with its value, in YAML, as ReadSettings takes it; what a checkpoint decides (`model`) is left out, and
/// what is for images where the preset is for sequences, or the other way.
std::string ToYaml(const TrainConfig& config);

/// What is wrong with a run's config.yaml before a key of it is read, or nothing: ToYaml's first line tells it from any
/// other file. Throws Error when it cannot be read.
std::string WhyNoRunSettings(const std::filesystem::path& file);
/// The config.yaml of a run. Throws Error as ReadSettings, where WhyNoRunSettings says so, and for a missing key: it
/// has them all, so one that was emptied or cut off is never taken for the defaults.
Settings ReadRunSettings(const std::filesystem::path& file);
/// The same of its text.
Settings ParseRunSettings(std::string_view text, const std::string& where);

/// Throws Error that names the keys in which the two differ although a resumed run may not change them.
void RequireSameRun(const TrainConfig& before, const TrainConfig& now);

}  // namespace qkv::train
