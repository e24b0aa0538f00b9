// Configuration of a training run: one table of keys, shared by the configuration file, the command line and the
// documentation, and the presets. Not here: the run itself (image_run.h).
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
  // Start of the run
  std::string preset;  // source of every value that is not given
  std::string model;   // checkpoint to continue from; empty: new weights
  std::string init = "trunc-normal";
  int64_t seed = 0;
  double val_fraction = 0.1;

  // The model (with `model`, taken from the checkpoint except for the image size)
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

  // Preprocessing, and augmentation in training
  std::vector<double> mean = {0.5}, std = {0.5};  // one for all channels, or one per channel
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

  // Sequences and their positions
  int64_t length = 16, vocabulary = 16;
  std::string positions = "learned";
  double rotary_base = 10000;
  bool causal = false;
  std::string norm = "layer", norm_place = "before";
  int64_t head_width = 0, key_heads = 0, window = 0;
  bool sinks = false;

  // Pairs of texts
  std::string tokenizer, valid;  // a folder, a file; empty: learned, or a part of the data
  int64_t decoder_depth = 0;     // 0: as depth
  std::string cross_attention = "separate";
  int64_t valid_lines = 500;  // that are translated at each evaluation

  // Steps
  std::string opt = "adamw", sched = "cosine";
  double lr = 1e-3, min_lr = 1e-5, weight_decay = 0.05;
  double beta1 = 0.9, beta2 = 0.999, momentum = 0.9;
  double clip_grad = 1;
  int64_t epochs = 30, steps = 0;
  double minutes = 0;
  double warmup_epochs = 2;
  int64_t batch = 128, accumulate = 1;

  // Regularisation
  double smoothing = 0.1, dropout = 0, attention_dropout = 0, drop_path = 0;
  double ema = 0;
  int64_t patience = 0;

  // Machine and output
  std::string precision = "fp32";
  bool checkpointing = false;
  int64_t threads = 0;
  int64_t eval_epochs = 1, eval_steps = 0, save_steps = 0, log_steps = 0;
  bool tensorboard = true;
  std::string maps;  // for the observer of the run: training draws nothing
};

/// One key of the configuration: `name` in the file, `--name` on the command line.
struct Key {
  std::string_view group, name;
  std::variant<bool TrainConfig::*, int64_t TrainConfig::*, double TrainConfig::*, std::string TrainConfig::*,
               Extents TrainConfig::*, std::vector<double> TrainConfig::*>
      member;
  std::string_view help;
  std::string_view choices = {};  // "a|b|c" if the value is one of these words
  double low = 0, high = 0;       // inclusive bounds of numbers; equal: no bounds
  bool later = false;             // may change on resume, as it does not affect the steps already taken
};

/// All keys, group by group.
std::span<const Key> Keys();
/// Throws Error that names the nearest existing key.
const Key& FindKey(std::string_view name);
bool IsSwitch(const Key& key);
/// The allowed words, if the key has `choices`.
std::vector<std::string_view> ListChoices(const Key& key);

/// Given values by key, not yet parsed.
using Settings = std::map<std::string, std::string, std::less<>>;

/// Merges two settings; `above` takes precedence. So does its way of saying when a run ends: epochs or steps there
/// stand above minutes and steps below.
Settings MergeSettings(Settings below, const Settings& above);

/// Parses `text` and sets a key. Throws Error, prefixed with `where`, that says what is expected.
void Set(const Key& key, std::string_view text, std::string_view where, TrainConfig* config);
/// The value as text that Set accepts.
std::string FormatValue(const Key& key, const TrainConfig& config);

/// Reads a YAML or JSON file: one table of keys and scalars (sizes and means may be lists); "_" counts as "-". Throws
/// Error with the file, the line if known, and for an unknown key the nearest one.
Settings ReadSettings(const std::filesystem::path& file);
/// The same for text; `where` is the prefix of errors.
Settings ParseSettings(std::string_view text, const std::string& where);

inline constexpr std::string_view kPresets =
    "vit-digits|vit-cifar|vit-tiny|vit-small|fine-tune|seq-task|seq-text|seq-pairs";
/// The values of a preset. Throws Error if the name is unknown.
Settings PresetSettings(std::string_view preset);
/// True if the preset is for sequences (pairs among them), false if it is for images.
bool IsForSequences(std::string_view preset);
/// True if the preset is for pairs of texts.
bool IsForPairs(std::string_view preset);
/// The recommended preset for images of this size and number of channels.
std::string_view PresetFor(int64_t height, int64_t width, int channels);

/// Merges `given` over the preset that it names; with "model" and no preset, over fine-tune. Throws Error for a value
/// out of bounds, and for keys that contradict each other, the preset's kind of data, or the model.
TrainConfig Resolve(const Settings& given);

/// Writes every key with its value as YAML that ReadSettings accepts. Omits keys that a checkpoint decides (`model`),
/// and keys for the other kind of data (images or sequences).
std::string ToYaml(const TrainConfig& config);

/// Says why the file is not a run's config.yaml, or nothing if it is: a run's file begins with ToYaml's first line.
/// Throws Error if the file cannot be read.
std::string RunSettingsProblem(const std::filesystem::path& file);
/// Reads a run's config.yaml. Throws Error as ReadSettings, if RunSettingsProblem gives a reason, and for a missing
/// key: a complete file has all keys, so an emptied or truncated one is never mistaken for the defaults.
Settings ReadRunSettings(const std::filesystem::path& file);
/// The same for text.
Settings ParseRunSettings(std::string_view text, const std::string& where);

/// Throws Error that names the changed keys if a resumed run may not change them. fixed: keys that may not change here,
/// though Key::later.
void RequireSameRun(const TrainConfig& before, const TrainConfig& now, std::span<const std::string_view> fixed = {});

}  // namespace qkv::train
