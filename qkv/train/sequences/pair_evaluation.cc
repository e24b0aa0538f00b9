#include "qkv/train/sequences/pair_evaluation.h"

#include <algorithm>
#include <numeric>

#include "qkv/core/lines.h"
#include "qkv/core/parallel.h"
#include "qkv/model/sequence/pair_generation.h"

namespace qkv::train {
namespace {

// Logits of a batch, and its tokens: enough rows for the products, few enough for the caches.
constexpr int64_t kLogits = int64_t{1} << 22, kTokensOfBatch = 1024;

// Scratch memory of one thread.
struct PairLane {
  PairBatch batch;
  Tensor<bool> mask;
  Tensor<float> logits;
  model::TextWorkspace workspace;
};

}  // namespace

PairScore EvaluatePairs(const model::TextModel& model, const PairSet& set, const model::TextTokens& tokens,
                        const std::function<bool()>& stop, const nn::CrossWeights& cross) {
  const int64_t V = model.decoder().config().outputs;
  std::vector<int64_t> order(static_cast<size_t>(set.size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto length = [&](int64_t line) { return set.source.length(line) + set.target.length(line); };
  std::ranges::stable_sort(order, {}, length);
  std::vector<size_t> begin = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t rows = static_cast<int64_t>(i + 1 - begin.back()) * length(order[i]);
    if (i > begin.back() && (rows > kTokensOfBatch || rows * V > kLogits)) begin.push_back(i);
  }
  begin.push_back(order.size());
  const int64_t batches = std::ssize(begin) - 1;
  std::vector<LossSum> sums(static_cast<size_t>(batches));
  std::vector<PairLane> lanes(static_cast<size_t>(NumThreads()));
  ParallelTasks(batches, [&](int64_t task, int thread) {
    if (stop && stop()) return;
    const auto at = static_cast<size_t>(batches - 1 - task);
    PairLane& lane = lanes[static_cast<size_t>(thread)];
    FillPairBatch(set, std::span(order).subspan(begin[at], begin[at + 1] - begin[at]), tokens, &lane.batch);
    const int64_t B = lane.batch.size(), N = lane.batch.source.dim(1), M = lane.batch.target.dim(1);
    lane.mask.Reuse({B, N}), lane.logits.Reuse({B, M, V});
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t n = 0; n < N; ++n) lane.mask.view().row(b)[n] = n < lane.batch.source_lengths[b];
    }
    model.Forward({.ids = lane.batch.source.view(),
                   .mask = lane.mask.view(),
                   .decoder_ids = lane.batch.target.view(),
                   .cross = &cross},
                  lane.workspace, {.logits = lane.logits.view()});
    const View<float> rows = lane.logits.view().reshape({B * M, V});
    sums[at] = CrossEntropy<float>(rows, lane.batch.labels.span(), {}, rows);
  });
  PairScore score;
  for (const LossSum& sum : sums) score.tokens += sum;
  return score;
}

std::vector<std::string> TranslateTexts(const model::TextModel& model, std::span<const std::string> sources,
                                        const PairTokenizer& tokenizer, const model::GenerationSettings& settings,
                                        const std::function<bool()>& stop) {
  std::vector<std::vector<int32_t>> ids(sources.size());
  ParallelFor(std::ssize(sources), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      ids[i] = tokenizer.tokenizer.Encode(sources[i], {.add_special_tokens = false, .padding = text::Padding::kNone});
      ids[i].push_back(tokenizer.tokens.end);
    }
  });
  const std::vector<model::Generated> written =
      model::GenerateFromSources(model, ids, tokenizer.tokens.start, settings, 16, stop);
  std::vector<std::string> texts(written.size());
  ParallelFor(std::ssize(texts), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      texts[i] = Trim(tokenizer.target.Decode(written[i].tokens));
    }
  });
  return texts;
}

model::GenerationSettings GreedySettings(int64_t longest, const model::SequenceConfig& decoder,
                                         const model::TextTokens& tokens) {
  model::GenerationSettings settings;
  settings.max_tokens = std::min<int64_t>(2 * longest + 16, std::max<int64_t>(1, decoder.length - 1));
  settings.ends = {tokens.end};
  settings.suppressed = {tokens.padding};
  return settings;
}

}  // namespace qkv::train
