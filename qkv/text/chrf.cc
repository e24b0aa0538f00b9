#include "qkv/text/chrf.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/text/metric_tokens.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

constexpr size_t kCharacterOrders = 6;
constexpr double kBeta = 2;

// n-grams of hypotheses and references, and those that are in both.
struct Matches {
  int64_t hypothesis = 0, reference = 0, both = 0;
};

// A text without white space, and where its characters begin; the last entry is the end.
struct Characters {
  explicit Characters(const std::string& given) {
    const std::string valid = ReplaceInvalidUtf8(given);
    for (const std::string_view word : SplitWords(valid)) text += word;
    for (size_t at = 0; at < text.size(); at = CharacterEnd(text, at)) begin.push_back(at);
    begin.push_back(text.size());
  }
  std::unordered_map<std::string_view, int64_t> Count(size_t n) const {
    std::unordered_map<std::string_view, int64_t> counts;
    for (size_t i = 0; i + n < begin.size(); ++i) {
      ++counts[std::string_view(text).substr(begin[i], begin[i + n] - begin[i])];
    }
    return counts;
  }

  std::string text;
  std::vector<size_t> begin;
};

}  // namespace

double CorpusChrf(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  Require(hypotheses.size() == references.size(), "chrF: {} hypotheses and {} references, expected equally many",
          hypotheses.size(), references.size());
  std::array<Matches, kCharacterOrders> orders;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const Characters hypothesis(hypotheses[i]), reference(references[i]);
    for (size_t n = 1; n <= kCharacterOrders; ++n) {
      const auto right = reference.Count(n);
      Matches& sum = orders[n - 1];
      for (const auto& [gram, count] : right) sum.reference += count;
      if (right.empty()) continue;  // nothing to hit: hypotheses do not count
      for (const auto& [gram, count] : hypothesis.Count(n)) {
        sum.hypothesis += count;
        if (const auto found = right.find(gram); found != right.end()) sum.both += std::min(count, found->second);
      }
    }
  }
  double precision = 0, recall = 0;
  int used = 0;
  for (const Matches& m : orders) {
    if (m.hypothesis == 0 || m.reference == 0) continue;
    precision += static_cast<double>(m.both) / static_cast<double>(m.hypothesis);
    recall += static_cast<double>(m.both) / static_cast<double>(m.reference);
    ++used;
  }
  if (used == 0 || precision + recall == 0) return 0;
  precision /= used, recall /= used;
  constexpr double kFactor = kBeta * kBeta;
  return 100 * ((1 + kFactor) * precision * recall) / (kFactor * precision + recall);
}

}  // namespace qkv::text
