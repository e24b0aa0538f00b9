#include "qkv/lab/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/train/run/initial_model.h"

namespace qkv::lab {
namespace {

// Keys that all runs share, or that the comparison sets itself.
constexpr std::array<std::string_view, 10> kNotOfOneArm = {
    "seed", "model", "preset", "val-fraction", "length", "vocabulary", "tokenizer", "valid", "valid-lines", "minutes"};

std::string_view TakeUntil(std::string_view& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return taken;
}

// The default rank if the kind needs one and none is given, else 0.
int64_t MissingRank(std::string_view kind, const train::Settings& shared, const Arm& arm) {
  if ((kind != "low_rank" && kind != "symmetric") || arm.settings.contains("rank")) return 0;
  train::Settings plain = train::MergeSettings(shared, arm.settings);
  plain.insert_or_assign("attention", "separate");
  plain.erase("cross-attention");
  plain.erase("rank");
  const train::TrainConfig config = train::Resolve(plain);
  const int64_t head_width = config.width / config.heads;
  return kind == "low_rank" ? std::max<int64_t>(1, head_width / 2) : head_width;
}

// Rounded, at least 1.
int64_t MeanLength(const train::TokenTexts& texts) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < texts.size(); ++i) tokens += texts.length(i);
  return std::max<int64_t>(1, (tokens + texts.size() / 2) / std::max<int64_t>(1, texts.size()));
}

template <typename Config>
Cost ComputeCost(const Config& model) {
  return {model::Parameters(model), model::Flops(model)};
}

Cost ComputeCost(const train::TrainConfig& config, const AblationData& data) {
  if (data.images) return ComputeCost(train::NewModel(config, data.images->classes).description.config);
  if (data.pairs) return PairCost(train::NewPair(config, *data.pairs), *data.pairs);
  return ComputeCost(train::NewSequenceModel(config, train::SequencesForTraining(data.given, config)));
}

int64_t StepsPerEpoch(const train::TrainConfig& config, const AblationData& data) {
  if (data.pairs) {
    const train::PairBatches batches(data.pairs->train, config.batch, static_cast<uint64_t>(config.seed));
    return std::max<int64_t>(1, batches.size() / config.accumulate);
  }
  const int64_t epoch =
      data.images ? data.images->train.size() : train::SequencesForTraining(data.given, config).train->size();
  return std::max<int64_t>(1, epoch / (config.batch * config.accumulate));
}

// The MLP ratio at which a model of `config` has about `wanted` parameters.
double EqualRatio(train::TrainConfig config, int64_t wanted, const AblationData& data) {
  // Half a unit more, since ratio × width is rounded down.
  const auto ratio = [&](int64_t hidden) {
    return (static_cast<double>(hidden) + 0.5) / static_cast<double>(config.width);
  };
  const auto count = [&](int64_t hidden) {
    config.mlp_ratio = ratio(hidden);
    return ComputeCost(config, data).parameters;
  };
  int64_t low = 1, high = 2;
  while (count(high) < wanted) low = high, high *= 2;
  Require(count(low) <= wanted, "ablation: no MLP is narrow enough for {} to have only {} parameters", config.attention,
          wanted);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (count(middle) < wanted ? low : high) = middle;
  }
  return ratio(count(high) - wanted < wanted - count(low) ? high : low);
}

}  // namespace

std::string_view Name(Varied varied) {
  switch (varied) {
    case Varied::kLayers:
      return "attention";
    case Varied::kCross:
      return "cross-attention";
    case Varied::kBoth:
      return "both";
  }
  return "?";
}

Cost PairCost(const train::PairConfig& model, const train::PairData& data) {
  train::PairConfig average = model;
  average.encoder.length = MeanLength(data.train.source);
  average.decoder.length = MeanLength(data.train.target);
  return {train::PairNetwork<float>(model).layout().size(),
          model::Flops(average.encoder) + model::Flops(average.decoder)};
}

Arm ParseArm(std::string_view text, const train::Settings& shared, Varied varied) {
  Arm arm{.name = std::string(text), .settings = {}};
  const auto set = [&](std::string_view key, std::string_view value) {
    Require(std::ranges::find(kNotOfOneArm, key) == kNotOfOneArm.end(),
            "ablation: '{}': {} must be the same in all runs that are compared", text, key);
    Require(!arm.settings.contains(key), "ablation: '{}': {} is there twice", text, key);
    train::TrainConfig ignored;
    train::Set(train::FindKey(key), value, fmt::format("ablation: '{}'", text), &ignored);
    arm.settings.emplace(key, value);
  };
  std::string_view rest = text;
  const std::string_view kind = TakeUntil(rest, ':');
  Require(!kind.empty(), "ablation: '{}', expected a kind of attention", text);
  if (varied != Varied::kCross) set("attention", kind);
  if (varied != Varied::kLayers) set("cross-attention", kind);
  while (!rest.empty()) {
    std::string_view value = TakeUntil(rest, ':');
    const std::string_view key = TakeUntil(value, '=');
    Require(!value.empty(), "ablation: '{}' in '{}', expected KEY=VALUE", key, text);
    set(key, value);
  }
  if (const int64_t rank = MissingRank(kind, shared, arm); rank > 0) {
    set("rank", fmt::format("{}", rank));
    arm.name += fmt::format(":rank={}", rank);
  }
  return arm;
}

train::TrainConfig MakeConfig(const train::Settings& shared, const Arm& arm, const Arm& first, Budget budget,
                              int64_t seed, const AblationData& data) {
  train::Settings own = train::MergeSettings(shared, arm.settings);
  own.insert_or_assign("seed", fmt::format("{}", seed));
  train::TrainConfig config = train::Resolve(own);
  const Cost here = ComputeCost(config, data);
  if (budget == Budget::kSteps || arm.name == first.name) return config;
  const Cost there = ComputeCost(train::Resolve(train::MergeSettings(shared, first.settings)), data);
  if (budget == Budget::kParameters) {
    config.mlp_ratio = EqualRatio(config, there.parameters, data);
    return config;
  }
  const int64_t steps = config.steps > 0 ? config.steps : config.epochs * StepsPerEpoch(config, data);
  config.steps = std::max<int64_t>(1, std::llround(static_cast<double>(steps) * there.flops / here.flops));
  return config;
}

}  // namespace qkv::lab
