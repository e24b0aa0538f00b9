#include "qkv/text/bleu.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/text/metric_tokens.h"

namespace qkv::text {
namespace {

using WordGrams = std::unordered_map<std::string, int64_t>;

// How often each n-gram is there; words have no blanks.
WordGrams CountWordGrams(const std::vector<std::string>& words, size_t n) {
  WordGrams counts;
  for (size_t i = 0; i + n <= words.size(); ++i) {
    std::string gram;
    for (size_t j = i; j < i + n; ++j) gram.append(words[j]).append(1, ' ');
    ++counts[std::move(gram)];
  }
  return counts;
}

// Computes the score from counts and lengths, with the smoothing of mteval-v13a: the k-th order without a match counts
// 2⁻ᵏ of one.
void ScoreBleu(BleuScore* s) {
  const auto length = static_cast<double>(s->length), reference = static_cast<double>(s->reference_length);
  if (s->length < s->reference_length) s->brevity = s->length > 0 ? std::exp(1 - reference / length) : 0;
  if (std::ranges::all_of(s->correct, [](int64_t count) { return count == 0; })) return;
  double smoothing = 1, logarithms = 0;
  for (size_t n = 0; n < s->total.size(); ++n) {
    if (s->total[n] == 0) return;  // no hypothesis has so many words: the score is 0
    const auto total = static_cast<double>(s->total[n]);
    if (s->correct[n] == 0) smoothing *= 2;
    s->precisions[n] =
        s->correct[n] == 0 ? 100 / (smoothing * total) : 100 * static_cast<double>(s->correct[n]) / total;
    logarithms += std::log(s->precisions[n]);
  }
  s->score = s->brevity * std::exp(logarithms / BleuScore::kOrders);
}

}  // namespace

BleuScore CorpusBleu(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  Require(hypotheses.size() == references.size(), "BLEU: {} hypotheses and {} references, expected equally many",
          hypotheses.size(), references.size());
  BleuScore s;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const std::vector<std::string> hypothesis = Tokenize13a(hypotheses[i]), reference = Tokenize13a(references[i]);
    s.length += std::ssize(hypothesis), s.reference_length += std::ssize(reference);
    for (size_t n = 1; n <= s.total.size(); ++n) {
      const WordGrams right = CountWordGrams(reference, n);
      for (const auto& [gram, count] : CountWordGrams(hypothesis, n)) {
        s.total[n - 1] += count;
        if (const auto found = right.find(gram); found != right.end()) {
          s.correct[n - 1] += std::min(count, found->second);
        }
      }
    }
  }
  ScoreBleu(&s);
  return s;
}

}  // namespace qkv::text
