#include "qkv/text/rouge.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "qkv/core/error.h"
#include "qkv/text/porter_stemmer.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

double Harmonic(int64_t both, size_t hypothesis, size_t reference) {
  const double precision = static_cast<double>(both) / static_cast<double>(std::max<size_t>(hypothesis, 1));
  const double recall = static_cast<double>(both) / static_cast<double>(std::max<size_t>(reference, 1));
  return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

std::unordered_map<std::string, int64_t> CountRougeGrams(const std::vector<std::string>& words, size_t n) {
  std::unordered_map<std::string, int64_t> counts;
  for (size_t i = 0; i + n <= words.size(); ++i) {
    std::string gram;
    for (size_t j = i; j < i + n; ++j) gram.append(words[j]).append(1, ' ');
    ++counts[std::move(gram)];
  }
  return counts;
}

double GramScore(const std::vector<std::string>& hypothesis, const std::vector<std::string>& reference, size_t n) {
  const auto right = CountRougeGrams(reference, n);
  int64_t both = 0;
  for (const auto& [gram, count] : CountRougeGrams(hypothesis, n)) {
    if (const auto found = right.find(gram); found != right.end()) both += std::min(count, found->second);
  }
  const auto grams = [n](const std::vector<std::string>& words) { return words.size() < n ? 0 : words.size() + 1 - n; };
  return Harmonic(both, grams(hypothesis), grams(reference));
}

// The length of the longest common subsequence.
int64_t CommonLength(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<int64_t> row(b.size() + 1);  // of the words of a so far, and the first j of b
  for (const std::string& word : a) {
    int64_t diagonal = 0;
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t above = row[j];
      row[j] = word == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> RougeTokens(std::string_view text, bool stem) {
  const std::string lower = Lower(ReplaceInvalidUtf8(text));
  std::vector<std::string> words;
  std::string word;
  const auto finish = [&] {
    if (word.empty()) return;
    words.push_back(stem && word.size() > 3 ? PorterStem(word) : word);
    word.clear();
  };
  for (const char c : lower) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
    } else {
      finish();
    }
  }
  finish();
  return words;
}

RougeScore Rouge(std::string_view hypothesis, std::string_view reference, bool stem) {
  const std::vector<std::string> written = RougeTokens(hypothesis, stem), right = RougeTokens(reference, stem);
  return {.rouge1 = GramScore(written, right, 1),
          .rouge2 = GramScore(written, right, 2),
          .rouge_l = Harmonic(CommonLength(right, written), written.size(), right.size())};
}

RougeScore MeanRouge(std::span<const std::string> hypotheses, std::span<const std::string> references, bool stem) {
  Require(hypotheses.size() == references.size(), "ROUGE: {} hypotheses and {} references, expected equally many",
          hypotheses.size(), references.size());
  RougeScore mean;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const RougeScore one = Rouge(hypotheses[i], references[i], stem);
    mean.rouge1 += one.rouge1, mean.rouge2 += one.rouge2, mean.rouge_l += one.rouge_l;
  }
  const auto lines = static_cast<double>(std::max<size_t>(1, hypotheses.size()));
  mean.rouge1 /= lines, mean.rouge2 /= lines, mean.rouge_l /= lines;
  return mean;
}

}  // namespace qkv::text
