// Pairs of texts, and the metrics of translations on them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/text/bleu.h"
#include "qkv/text/chrf.h"
#include "qkv/text/rouge.h"
#include "qkv/train/sequences/pair_texts.h"

namespace {

void RequireWithin(double value, double greatest) {
  if (!(value >= 0 && value <= greatest * (1 + 1e-9))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto texts = qkv::train::ParsePairs({reinterpret_cast<const char*>(data), size}, "pairs.tsv");
    RequireWithin(qkv::text::CorpusBleu(texts.sources, texts.targets).score, 100);
    RequireWithin(qkv::text::CorpusChrf(texts.sources, texts.targets), 100);
    for (const bool stem : {false, true}) {
      RequireWithin(qkv::text::MeanRouge(texts.sources, texts.targets, stem).rouge_l, 1);
    }
    if (texts.size() > 1) qkv::train::SplitPairs(texts, 0.5);
  } catch (const qkv::Error&) {
  }
  return 0;
}
