#include "qkv/lab/cross_heads.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include "qkv/core/error.h"

namespace qkv::lab {
namespace {

// Lines of a batch, all of whose weights are in memory.
constexpr int64_t kLinesTogether = 8;

// Without letters and digits; other scripts' characters count as letters.
bool IsPunctuation(const std::string& text) {
  bool any = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isspace(byte)) continue;
    if (byte >= 0x80 || std::isalnum(byte)) return false;
    any = true;
  }
  return any;
}

// Whether each id is punctuation: unknown, no, yes.
class PunctuationTable {
 public:
  PunctuationTable(const text::Tokenizer& tokenizer, int64_t vocabulary)
      : tokenizer_(tokenizer), known_(static_cast<size_t>(vocabulary), 0) {}
  bool operator()(int32_t id) {
    char& known = known_[static_cast<size_t>(id)];
    if (known == 0) known = IsPunctuation(tokenizer_.Decode(std::span(&id, 1))) ? 2 : 1;
    return known == 2;
  }

 private:
  const text::Tokenizer& tokenizer_;
  std::vector<char> known_;
};

// Adds one row of weights over a source's tokens.
void AddRow(const float* row, std::span<const int32_t> source, double centre, PunctuationTable& is_punctuation,
            CrossHead* head) {
  const auto N = static_cast<int64_t>(source.size());
  double entropy = 0;
  for (int64_t j = 0; j < N; ++j) {
    if (row[j] > 0) entropy -= static_cast<double>(row[j]) * std::log2(static_cast<double>(row[j]));
  }
  const int64_t greatest = std::max_element(row, row + N) - row;
  const double distance = std::abs(static_cast<double>(greatest) - centre);
  head->entropy += entropy, head->uniform += std::log2(static_cast<double>(N));
  head->distance += distance;
  head->diagonal += distance <= kOnDiagonal;
  head->end += greatest == N - 1;
  head->punctuation += greatest < N - 1 && is_punctuation(source[static_cast<size_t>(greatest)]);
}

}  // namespace

std::vector<CrossHead> MeasureCrossHeads(const model::TextModel& model, const train::PairSet& set,
                                         const train::PairTokenizer& tokenizer) {
  const model::SequenceConfig& decoder = model.decoder().config();
  Require(model.has_encoder() && decoder.block.cross.has_value() && set.size() > 0,
          "cross-attention: expected an encoder-decoder, and a pair of texts at least");
  const int64_t H = decoder.block.cross->heads, depth = decoder.depth;
  std::vector<CrossHead> heads;
  for (int64_t at = 0; at < depth * H; ++at) heads.push_back({.block = at / H, .head = at % H});
  PunctuationTable is_punctuation(tokenizer.tokenizer, model.encoder().config().vocabulary);
  std::vector<int64_t> order(static_cast<size_t>(set.size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, {}, [&](int64_t line) { return set.source.length(line); });
  train::PairBatch batch;
  model::TextWorkspace workspace;
  int64_t tokens = 0;
  for (int64_t begin = 0; begin < set.size(); begin += kLinesTogether) {
    const int64_t B = std::min(kLinesTogether, set.size() - begin);
    FillPairBatch(set, std::span(order).subspan(static_cast<size_t>(begin), static_cast<size_t>(B)), tokenizer.tokens,
                  &batch);
    const int64_t N = batch.source.dim(1), T = batch.target.dim(1);
    Tensor<bool> mask({B, N});
    for (int64_t b = 0; b < B; ++b) std::fill_n(mask.view().row(b), batch.source_lengths[b], true);
    std::vector<Tensor<float>> weights;
    model::TextOutputs outputs;
    for (int64_t block = 0; block < depth; ++block) {
      weights.emplace_back(Shape{B, H, T, N});
      outputs.cross_attention.push_back({block, {0, T, weights.back()}});
    }
    model.Forward({.ids = batch.source, .mask = mask, .decoder_ids = batch.target}, workspace, outputs);
    for (int64_t b = 0; b < B; ++b) {
      const int64_t length = batch.source_lengths[b], targets = batch.target_lengths[b];
      const std::span<const int32_t> source(batch.source.view().row(b), static_cast<size_t>(length));
      const double slope = targets > 1 ? static_cast<double>(length - 1) / static_cast<double>(targets - 1) : 0;
      tokens += targets;
      for (CrossHead& head : heads) {
        for (int64_t t = 0; t < targets; ++t) {
          AddRow(weights[static_cast<size_t>(head.block)].view().at(b, head.head, t), source,
                 slope * static_cast<double>(t), is_punctuation, &head);
        }
      }
    }
  }
  for (CrossHead& head : heads) {
    for (double CrossHead::*mean : {&CrossHead::entropy, &CrossHead::uniform, &CrossHead::distance,
                                    &CrossHead::diagonal, &CrossHead::end, &CrossHead::punctuation}) {
      head.*mean /= static_cast<double>(tokens);
    }
  }
  return heads;
}

}  // namespace qkv::lab
