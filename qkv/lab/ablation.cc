#include "qkv/lab/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/model/tensor_table.h"
#include "qkv/train/start.h"

namespace qkv::lab {
namespace {

// All runs have the same data, weights that are new, and the seeds that the comparison gives them.
constexpr std::array<std::string_view, 4> kNotOfOneArm = {"seed", "model", "preset", "val-fraction"};

std::string_view TakeUntil(std::string_view& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return taken;
}

// The rank that the kind needs and nobody gave, or 0.
int64_t MissingRank(std::string_view kind, const train::Settings& shared, const Arm& arm) {
  if ((kind != "low_rank" && kind != "symmetric") || arm.settings.contains("rank")) return 0;
  train::Settings plain = train::Over(shared, arm.settings);
  plain.insert_or_assign("attention", "separate");
  plain.erase("rank");
  const train::TrainConfig config = train::Resolve(plain);
  const int64_t head_width = config.width / config.heads;
  return kind == "low_rank" ? std::max<int64_t>(1, head_width / 2) : head_width;
}

model::VitConfig ModelOf(const train::TrainConfig& config, const std::vector<std::string>& classes) {
  return train::NewModel(config, classes).description.config;
}

// The MLP's width over the model's with which a model of `config` has about as many parameters as `wanted` says.
double EqualRatio(train::TrainConfig config, int64_t wanted, const std::vector<std::string>& classes) {
  // A half more, since the ratio's product with the width is rounded down.
  const auto ratio = [&](int64_t hidden) {
    return (static_cast<double>(hidden) + 0.5) / static_cast<double>(config.width);
  };
  const auto count = [&](int64_t hidden) {
    config.mlp_ratio = ratio(hidden);
    return model::Parameters(ModelOf(config, classes));
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

Arm ParseArm(std::string_view text, const train::Settings& shared) {
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
  set("attention", kind);
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

train::TrainConfig ConfigOf(const train::Settings& shared, const Arm& arm, const Arm& first, Budget budget,
                            int64_t seed, const std::vector<std::string>& classes, int64_t images) {
  train::Settings own = train::Over(shared, arm.settings);
  own.insert_or_assign("seed", fmt::format("{}", seed));
  train::TrainConfig config = train::Resolve(own);
  const model::VitConfig here = ModelOf(config, classes);
  if (budget == Budget::kSteps || arm.name == first.name) return config;
  const model::VitConfig there = ModelOf(train::Resolve(train::Over(shared, first.settings)), classes);
  if (budget == Budget::kParameters) {
    config.mlp_ratio = EqualRatio(config, model::Parameters(there), classes);
    return config;
  }
  const int64_t a_step = config.batch * config.accumulate;
  const int64_t steps = config.steps > 0 ? config.steps : config.epochs * std::max<int64_t>(1, images / a_step);
  config.steps =
      std::max<int64_t>(1, std::llround(static_cast<double>(steps) * model::Flops(there) / model::Flops(here)));
  return config;
}

}  // namespace qkv::lab
