// BLEU (Papineni et al. 2002) of a corpus with one reference a line, equal to sacrebleu's (Post 2018) by its defaults:
// tokenizer 13a, mixed case, exponential smoothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace qkv::text {

struct BleuScore {
  static constexpr int kOrders = 4;  // n-grams of 1 to 4 words
  /// sacrebleu's name of these settings.
  static constexpr const char* kSignature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0";

  double score = 0;                                 // 0 to 100
  std::array<int64_t, kOrders> correct{}, total{};  // n-grams of the hypotheses: those in the references, and all
  std::array<double, kOrders> precisions{};         // in percent, smoothed
  double brevity = 1;                               // penalty of short hypotheses
  int64_t length = 0, reference_length = 0;         // words
};

/// hypotheses[i] is a translation of the text whose right one is references[i]. Throws Error if their numbers differ.
BleuScore CorpusBleu(std::span<const std::string> hypotheses, std::span<const std::string> references);

}  // namespace qkv::text
