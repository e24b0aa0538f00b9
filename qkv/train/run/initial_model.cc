#include "qkv/train/run/initial_model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/families/families.h"
#include "qkv/model/layout/positions.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/layout/translation.h"

namespace qkv::train {
namespace {

using model::Description;
using model::Pool;
using model::VitConfig;

bool PoolsPatches(Pool pool) { return pool == Pool::kMean || pool == Pool::kMax || pool == Pool::kMeanMax; }

// The block configuration except for the MLP's width.
nn::BlockConfig MakeBlockConfig(const TrainConfig& config) {
  const bool gated = config.mlp == "swiglu";
  nn::BlockConfig block;
  block.width = config.width;
  block.attention.heads = config.heads;
  block.attention.head_width = config.width / config.heads;
  block.attention.kind = *model::FindAttentionKind(config.attention);
  block.attention.qk_width = config.rank;
  block.attention.bias = config.qkv_bias;
  block.attention.qk_norm = config.qk_norm;
  block.mlp.gate = gated ? simd::Gate::kFirst : simd::Gate::kNone;
  block.mlp.activation = *model::FindActivation(gated && config.activation == "gelu" ? "silu" : config.activation);
  block.layer_scale = config.layer_scale > 0;
  return block;
}

// The shape that timm's VisionTransformer has with the same arguments.
VitConfig MakeVitConfig(const TrainConfig& config, int64_t classes) {
  VitConfig c;
  c.family = model::Family::kTimm;
  c.architecture = "vision_transformer";
  std::tie(c.image_height, c.image_width) = config.image_size;
  std::tie(c.patch_height, c.patch_width) = config.patch_size;
  c.channels = config.channels;
  c.block = MakeBlockConfig(config);
  c.depth = config.depth;
  c.map_mlp_width = c.block.mlp.width = model::HiddenWidth(config.width, config.mlp_ratio);
  if (c.block.mlp.gate != simd::Gate::kNone) {
    constexpr int64_t kLine = 16;  // elements of a cache line
    c.block.mlp.width = std::max(kLine, c.block.mlp.width * 2 / 3 / kLine * kLine);
    c.map_mlp_width = 2 * c.block.mlp.width;
  }
  c.class_token = config.class_token;
  c.registers = config.registers;
  c.position_prefix = c.prefix();
  c.pool = *model::FindPool(config.pool);
  c.fc_norm = PoolsPatches(c.pool);
  c.final_norm = !c.fc_norm;
  c.classes = classes;
  model::Validate(c);
  return c;
}

// timm's evaluation preprocessing, see model/config/preprocess_config.h.
io::Json PreprocessJson(const TrainConfig& config) {
  const auto per_channel = [&](const std::vector<double>& values) {
    return values.size() == 1 ? std::vector<double>(static_cast<size_t>(config.channels), values[0]) : values;
  };
  return {{"input_size", {config.channels, config.image_size.first, config.image_size.second}},
          {"interpolation", config.interpolation},
          {"crop_pct", config.crop_pct},
          {"crop_mode", config.crop_mode},
          {"mean", per_channel(config.mean)},
          {"std", per_channel(config.std)}};
}

void SetBackground(const Description& description, io::Json* config) {
  if (description.dark_background) (*config)["qkv_background"] = "dark";
}

// Writes the model in timm's format, with qkv's entry for its kind of attention, and parses it again, so that writer
// and parser agree.
InitialModel MakeTimmModel(Description description) {
  const VitConfig wanted = description.config;
  Require(!wanted.has_relative_biases(),
          "train: {} has biases of scores by relative position, which only inference has; start from another model",
          wanted.architecture);
  // If timm cannot run this attention, qkv reads "qkv_attention" before any tensor.
  const bool timm_has_it = model::HasKind(model::Family::kTimm, wanted.block.attention.kind);
  if (!timm_has_it) description.config = model::AsSeparate(wanted);
  model::Translation translation = model::Translate(description, model::Family::kTimm);
  model::SetOwnKeys(wanted, &translation.config);
  SetBackground(description, &translation.config);
  if (description.dark_background) {
    translation.notes.push_back("timm will not invert images of a bright background, as qkv does for this model");
  }
  if (!timm_has_it && !model::SeparationObstruction(wanted).empty()) {
    translation.notes.push_back(
        fmt::format("timm will not load it: it has no {} attention", model::Name(wanted.block.attention.kind)));
  }
  InitialModel start;
  start.config = translation.config.dump(2) + "\n";
  start.description = model::Describe(translation.config, {}, io::SafeTensors());
  start.notes = std::move(translation.notes);
  const std::vector<std::string> differences = model::Differences(wanted, start.description.config);
  Require(differences.empty(), "train: timm's config.json cannot say this model: {} would differ",
          fmt::join(differences, ", "));
  return start;
}

// The arguments of vit-pytorch's constructor, plus qkv's own entries.
InitialModel MakeVitPytorchModel(Description description) {
  io::Json json = model::Translate(description, model::Family::kVitPytorch).config;
  model::SetOwnKeys(description.config, &json);
  SetBackground(description, &json);
  return {json.dump(2) + "\n", std::move(description), {}};
}

// tables: [n, prefix + grid, D] of the checkpoint, resized to those of the target, whose prefix may be longer.
void CopyPlaces(const Tensor<float>& from, int64_t from_prefix, const VitConfig& source, int64_t to_prefix,
                const VitConfig& target, View<float> to) {
  const int64_t features = to.dim(2), from_grid = source.patches(), to_grid = target.patches();
  Require(from.dim(0) == to.dim(0) && from.dim(2) == features && from_prefix <= to_prefix,
          "train: positions {} cannot become {}", from.shape(), to.shape());
  for (int64_t table = 0; table < to.dim(0); ++table) {
    const float* in = from.view().at(table);
    float* out = to.at(table);
    std::fill_n(out, to_prefix * features, 0.f);
    std::copy_n(in, from_prefix * features, out);
    model::ResampleGrid(View<const float>(in + from_prefix * features, {from_grid, features}), source.grid_height(),
                        source.grid_width(), source.interpolation, target.grid_height(), target.grid_width(),
                        View<float>(out + to_prefix * features, {to_grid, features}));
  }
}

// The source's class of the same name for each class, or -1.
std::vector<int64_t> RowsOfClasses(const Description& source, const std::vector<std::string>& classes) {
  std::vector<int64_t> rows;
  for (const std::string& name : classes) {
    const auto found = std::ranges::find(source.labels, name);
    rows.push_back(found == source.labels.end() ? -1 : found - source.labels.begin());
  }
  return rows;
}

// Rows of a classifier, [C, D] or [C], unless it reads other features.
void CopyRows(const Tensor<float>& from, const std::vector<int64_t>& rows, const Shape& shape, View<float> to) {
  const int64_t features = shape.rank() > 1 ? shape[1] : 1;
  if (from.empty() || from.shape().rank() != shape.rank() || (shape.rank() > 1 && from.dim(1) != features)) return;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= from.dim(0)) continue;
    std::copy_n(from.data() + rows[i] * features, features, to.data() + static_cast<int64_t>(i) * features);
  }
}

// Another input size; rotary positions keep the grid that they were made for.
void SetImageSize(VitConfig* c, std::pair<int64_t, int64_t> size) {
  if (c->rotary_grid_height == 0) c->rotary_grid_height = c->grid_height(), c->rotary_grid_width = c->grid_width();
  std::tie(c->image_height, c->image_width) = size;
  model::Validate(*c);
}

bool IsClassifier(const Slot& slot) { return slot.name.starts_with("head.") || slot.name.starts_with("head_dist."); }

}  // namespace

InitialModel NewModel(const TrainConfig& config, const std::vector<std::string>& classes) {
  Description description;
  description.config = MakeVitConfig(config, static_cast<int64_t>(classes.size()));
  description.labels = classes;
  description.preprocess_json = PreprocessJson(config);
  description.preprocess = model::PreprocessFromTimm(io::Fields(description.preprocess_json, "pretrained_cfg"));
  description.dark_background = config.background == "dark";
  return MakeTimmModel(std::move(description));
}

InitialModel ContinuedModel(const model::Checkpoint& checkpoint, const TrainConfig& config,
                            const std::vector<std::string>& classes) {
  Description description = checkpoint.description;
  VitConfig& c = description.config;
  std::vector<std::string> notes;
  // Published DINOv2 stores positions for 518 pixels, and its preprocessing makes images of 224.
  const VitConfig input = model::InputConfig(description);
  if (config.image_size.first > 0) {
    SetImageSize(&c, config.image_size);
    description.preprocess = model::PreprocessForSize(description, c.image_height, c.image_width);
    if (c.family != model::Family::kHuggingFace) {
      description.preprocess_json["input_size"] = {c.channels, c.image_height, c.image_width};
    }
  } else if (input.image_height != c.image_height || input.image_width != c.image_width) {
    notes.push_back(
        fmt::format("images of {}x{} as the model's preprocessing makes them, not the {}x{} of its "
                    "positions (--image-size takes another size)",
                    input.image_height, input.image_width, c.image_height, c.image_width));
    SetImageSize(&c, {input.image_height, input.image_width});
  }
  const std::vector<int64_t> rows = RowsOfClasses(description, classes);
  const auto kept = std::ranges::count_if(rows, [](int64_t row) { return row >= 0; });
  c.classes = static_cast<int64_t>(classes.size());
  description.labels = classes;
  // Layers between the tokens and the old classifier are dropped if timm cannot describe them.
  c.distillation_head = c.distillation_token;
  c.pooler_width = c.projection_width = 0;
  description.text.reset();
  description.decoder.reset();
  if (c.pool == Pool::kTokenAndMean) c.pool = Pool::kToken;
  InitialModel start = c.family == model::Family::kVitPytorch ? MakeVitPytorchModel(std::move(description))
                                                              : MakeTimmModel(std::move(description));
  start.notes.insert(start.notes.begin(), notes.begin(), notes.end());
  if (kept > 0) {
    start.notes.push_back(fmt::format(
        "the model has {} of these {} classes: the classifier begins with its rows of them", kept, classes.size()));
  }
  return start;
}

SequenceData SequencesForTraining(const std::string& data, const TrainConfig& config) {
  // Tasks are endless; an epoch is only the interval between evaluations.
  constexpr int64_t kStepsOfAnEpoch = 100;
  Require(IsForSequences(config.preset), "train: preset {} is for images, not for {}", config.preset, data);
  const auto seed = static_cast<uint64_t>(config.seed);
  if (const std::optional<Task> task = ParseTask(data)) {
    return TaskForTraining({.task = *task, .length = config.length, .vocabulary = config.vocabulary},
                           kStepsOfAnEpoch * config.batch * config.accumulate, seed);
  }
  return TextForTraining(Text(data), config.length, config.val_fraction, seed);
}

model::SequenceConfig NewSequenceModel(const TrainConfig& config, const SequenceData& data) {
  Require(config.vocabulary == data.vocabulary, "train: a vocabulary of {}, but {} has {} tokens", config.vocabulary,
          data.summary, data.vocabulary);
  model::SequenceConfig c;
  c.vocabulary = c.outputs = data.vocabulary;
  c.length = data.length;
  c.meaning = data.text ? model::TokenMeaning::kByte : model::TokenMeaning::kNumber;
  c.block = MakeBlockConfig(config);
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  c.block.mlp.width = model::HiddenWidth(config.width, gated ? config.mlp_ratio * 2 / 3 : config.mlp_ratio);
  c.depth = config.depth;
  c.block.norm.kind = *model::FindNormKind(config.norm);
  c.block.norm_place = *model::FindNormPlace(config.norm_place);
  c.final_norm = c.block.norm_place == nn::NormPlace::kBefore;
  nn::AttentionConfig& attention = c.block.attention;
  if (config.head_width > 0) attention.head_width = config.head_width;
  attention.key_heads = config.key_heads;
  if (config.window > 0) attention.window_left = attention.window_right = config.window;
  attention.sinks = config.sinks;
  c.positions = *model::FindSequencePositions(config.positions);
  c.rotary_base = config.rotary_base;
  c.causal = config.causal;
  model::Validate(c);
  RequireFit(c, data, "train");
  return c;
}

void RequireFit(const model::SequenceConfig& config, const SequenceData& data, std::string_view where) {
  Require(config.vocabulary == data.vocabulary && config.outputs == data.vocabulary,
          "{}: a model of {} tokens and {} answers cannot take {} (of {} tokens)", where, config.vocabulary,
          config.outputs, data.summary, data.vocabulary);
  Require(data.length <= config.length, "{}: a sequence model of {} tokens cannot take {} (of {})", where,
          config.length, data.summary, data.length);
  Require(!data.text || config.causal, "{}: a model that is not causal sees the bytes that it is to predict", where);
}

void CopyWeights(const model::Checkpoint& checkpoint, const VitConfig& target, const ParameterLayout& layout,
                 const std::vector<std::string>& classes, View<float> weights) {
  const VitConfig& source = checkpoint.description.config;
  const std::vector<int64_t> rows = RowsOfClasses(checkpoint.description, classes);
  // Another grid may have as many places.
  const bool same_grid = source.grid_height() == target.grid_height() && source.grid_width() == target.grid_width();
  for (const Slot& slot : layout.slots()) {
    const View<float> to = layout.At(slot.name, weights);
    const Tensor<float> from = model::ReadTensor<float>(checkpoint, slot.name);
    if (IsClassifier(slot)) {
      CopyRows(from, rows, slot.shape, to);
      continue;
    }
    Require(!from.empty(), "train: {} has no tensor {}", checkpoint.source, slot.name);
    const bool has_places = slot.role == model::Role::kPosition && slot.shape.rank() == 3;
    if (from.shape() == slot.shape && (same_grid || !has_places)) {
      std::copy_n(from.data(), from.size(), to.data());
    } else if (has_places) {
      const bool embedding = slot.name == "pos_embed";
      CopyPlaces(from, embedding ? source.position_prefix : source.prefix(), source,
                 embedding ? target.position_prefix : target.prefix(), target, to);
    } else {
      Fail("train: tensor {} of {} is {}, expected {}", slot.name, checkpoint.source, from.shape(), slot.shape);
    }
  }
}

}  // namespace qkv::train
