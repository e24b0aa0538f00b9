#include "qkv/app/texts/cross_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/core/text.h"

namespace qkv::app {
namespace {

// Removes the part until `end`, which goes too, from the text and returns it.
std::string_view TakePart(std::string_view& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

template <typename Number>
bool ReadWhole(std::string_view text, Number* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, *number);
  return !text.empty() && problem == std::errc() && stop == end;
}

}  // namespace

nn::CrossWeights ParseCrossWeights(std::string_view text, std::string_view option) {
  const auto require = [&](bool condition, std::string_view why) {
    Require(condition, "{}: {}; expected {}, got \"{}\"", option, why, kCrossRules, Printable(text, 60));
  };
  constexpr int64_t kMostHeads = 1 << 16;
  nn::CrossWeights weights;
  std::string_view rest = text;
  std::string_view numbers = TakePart(rest, ':');
  const bool has_heads = text.find(':') != text.npos, has_numbers = numbers.find('=') != numbers.npos;
  const std::string_view name = TakePart(numbers, '=');
  if (name == "hard" || name == "uniform") {
    weights.rule = name == "hard" ? nn::CrossRule::kHard : nn::CrossRule::kUniform;
    require(!has_numbers, "this rule has no number");
  } else if (name == "softmax") {
    require(ReadWhole(numbers, &weights.temperature), "softmax has a temperature");
    require(std::isfinite(weights.temperature) && weights.temperature > 0, "a temperature is above 0");
  } else if (name == "gaussian") {
    weights.rule = nn::CrossRule::kGaussian;
    if (has_numbers) {
      const bool has_slope = numbers.find(',') != numbers.npos;
      require(ReadWhole(TakePart(numbers, ','), &weights.bandwidth), "a bandwidth is a number");
      require(std::isfinite(weights.bandwidth) && weights.bandwidth > 0, "a bandwidth is above 0");
      double slope = 0;
      require(!has_slope || (ReadWhole(numbers, &slope) && std::isfinite(slope) && slope >= 0),
              "a slope is a number of 0 or more");
      if (has_slope) weights.slope = slope;
    }
  } else {
    require(false, "no such rule");
  }
  require(!has_heads || !rest.empty(), "heads are missing after the colon");
  while (!rest.empty()) {
    std::string_view head = TakePart(rest, ',');
    int64_t block = 0, number = 0;
    require(ReadWhole(TakePart(head, '.'), &block) && ReadWhole(head, &number) && block >= 0 && number >= 0,
            "a head is BLOCK.HEAD, both from 0");
    require(std::ssize(weights.heads) < kMostHeads, "there are too many heads");
    if (std::ranges::find(weights.heads, std::pair(block, number)) == weights.heads.end()) {
      weights.heads.emplace_back(block, number);
    }
  }
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();  // the model checks which heads there are
  weights.Validate(kAny, kAny);
  return weights;
}

std::string DescribeCrossWeights(const nn::CrossWeights& weights) {
  if (weights == nn::CrossWeights()) return "";
  std::string words = "cross-attention: ";
  switch (weights.rule) {
    case nn::CrossRule::kSoftmax:
      words += fmt::format("softmax of temperature {}", weights.temperature);
      break;
    case nn::CrossRule::kHard:
      words += "hard look-up";
      break;
    case nn::CrossRule::kUniform:
      words += "uniform weights";
      break;
    case nn::CrossRule::kGaussian:
      words += fmt::format("Gaussian of {} source tokens around {:.4g} per target token", weights.bandwidth,
                           weights.slope.value_or(1));
  }
  for (size_t i = 0; i < weights.heads.size(); ++i) {
    words += fmt::format("{}{}.{}", i == 0 ? " in heads " : ", ", weights.heads[i].first, weights.heads[i].second);
  }
  return words;
}

}  // namespace qkv::app
