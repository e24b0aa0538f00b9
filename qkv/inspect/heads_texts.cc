#include "qkv/inspect/heads_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"

namespace qkv::inspect {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

int64_t QueriesOf(const AttentionPart& part, const TextIds& text) {
  return std::ssize(part.kind == PartKind::kEncoder || text.target.empty() ? text.ids : text.target);
}
int64_t KeysOf(const AttentionPart& part, const TextIds& text) {
  return part.is_cross() ? std::ssize(text.ids) : QueriesOf(part, text);
}

// TextSums over the queries of one head.
struct TextSums {
  HeadAttention sum;
  double from_diagonal = 0, uniform_from_diagonal = 0;
  int64_t queries = 0;

  HeadAttention Mean(bool cross) const {
    const auto mean = [&](double total) { return queries > 0 ? total / static_cast<double>(queries) : kUndefined; };
    HeadAttention head{.entropy = mean(sum.entropy),
                       .distance = kUndefined,
                       .near = kUndefined,
                       .self = kUndefined,
                       .class_token = kUndefined,
                       .registers = kUndefined,
                       .first = kUndefined,
                       .last = kUndefined,
                       .diagonal = kUndefined};
    if (cross) {
      head.last = mean(sum.last);
      if (uniform_from_diagonal > 0) head.diagonal = 1 - from_diagonal / uniform_from_diagonal;
    } else {
      head.distance = mean(sum.distance), head.near = mean(sum.near);
      head.self = mean(sum.self), head.first = mean(sum.first);
    }
    return head;
  }
};

// Adds a query's attention to the first `keys` tokens, all that it sees.
void AddSelf(const float* row, int64_t query, int64_t keys, TextSums& sums) {
  for (int64_t j = 0; j < keys; ++j) {
    const double a = row[j];
    const int64_t away = std::abs(j - query);
    if (a > 0) sums.sum.entropy -= a * std::log(a);
    sums.sum.distance += a * static_cast<double>(away);
    if (away <= 1) sums.sum.near += a;
  }
  sums.sum.self += row[query], sums.sum.first += row[0];
  ++sums.queries;
}

// Adds one of T queries of cross-attention to N tokens.
void AddCross(const float* row, int64_t query, int64_t T, int64_t N, TextSums& sums) {
  for (int64_t j = 0; j < N; ++j) {
    const double a = row[j];
    if (a > 0) sums.sum.entropy -= a * std::log(a);
    if (T < 2 || N < 2) continue;  // without a diagonal
    const double away = std::abs(static_cast<double>(query) / static_cast<double>(T - 1) -
                                 static_cast<double>(j) / static_cast<double>(N - 1));
    sums.from_diagonal += a * away, sums.uniform_from_diagonal += away / static_cast<double>(N);
  }
  sums.sum.last += row[N - 1];
  ++sums.queries;
}

void AddQueryOfText(const AttentionPart& part, const float* row, int64_t query, int64_t T, int64_t N, TextSums& sums) {
  if (part.is_cross()) {
    AddCross(row, query, T, N, sums);
  } else {
    AddSelf(row, query, part.causal() ? query + 1 : N, sums);
  }
}

// The tokens that logits are split on: as many as the median text has, of the texts that have as many.
struct SplitSize {
  int64_t texts = 0, tokens = 0;
};

SplitSize SizeOfSplit(const AttentionPart& part, std::span<const TextIds> texts) {
  if (part.is_cross() || !part.scores_are_bilinear() || !part.has_queries() || texts.size() < 2) return {};
  std::vector<int64_t> lengths;
  for (const TextIds& text : texts) lengths.push_back(QueriesOf(part, text));
  std::ranges::sort(lengths);
  const int64_t median = lengths[(lengths.size() - 1) / 2];
  const auto as_long = std::ssize(lengths) - (std::ranges::lower_bound(lengths, median) - lengths.begin());
  return median > 1 && as_long > 1 ? SplitSize{as_long, median} : SplitSize{};
}

// One part on its way through the texts.
class PartRun {
 public:
  PartRun(const AttentionPart& part, std::span<const TextIds> texts)
      : part_(part), depth_(part.config->depth), heads_(part.attention().heads), split_(SizeOfSplit(part, texts)) {
    sums_.resize(static_cast<size_t>(depth_ * heads_));
    hidden_.resize(static_cast<size_t>(depth_));
    if (!splits()) return;
    int64_t longest = 0;
    for (const TextIds& text : texts) longest = std::max(longest, QueriesOf(part, text));
    RequireMemory(static_cast<double>(depth_ * part.config->block.width) *
                      static_cast<double>(sizeof(float) * longest + sizeof(double) * split_.tokens),
                  fmt::format("inspect: the tokens of {} blocks", depth_));
    for (int64_t block = 0; block < depth_; ++block) {
      const AttentionWeights weights = ReadAttention(part, block);
      norms_.push_back({.norm = weights.norm, .norm_is_stream = weights.norm_is_stream, .eps = weights.eps});
      means_.emplace_back(Shape{split_.tokens, part.config->block.width});
    }
  }

  bool splits() const { return split_.texts > 0; }

  // Requests the blocks' input tokens, if logits are split.
  std::vector<model::Outputs<float>::Hidden> Hidden(const TextIds& text) {
    std::vector<model::Outputs<float>::Hidden> requests;
    for (int64_t block = 0; block < depth_ && splits(); ++block) {
      Tensor<float>& tokens = hidden_[static_cast<size_t>(block)];
      tokens.Reuse({1, QueriesOf(part_, text), part_.config->block.width});
      requests.push_back({block, tokens});
    }
    return requests;
  }

  std::vector<model::Outputs<float>::Attention> Attention(const TextIds& text) {
    std::vector<model::Outputs<float>::Attention> requests;
    const int64_t T = QueriesOf(part_, text), N = KeysOf(part_, text);
    for (int64_t block = 0; block < depth_; ++block) {
      const auto add = [this, block, T, N](int64_t row, View<const float> weights) {  // [1, H, rows, N]
        ParallelTasks(heads_, [&](int64_t h, int) {
          for (int64_t i = 0; i < weights.dim(2); ++i) {
            AddQueryOfText(part_, weights.at(0, h, i), row + i, T, N, sums_[static_cast<size_t>(block * heads_ + h)]);
          }
        });
      };
      requests.push_back({block, {.row_end = T, .visit = add}});
    }
    AddUniform(T, N);
    return requests;
  }

  void AddMeans(const TextIds& text) {
    ForSplitTokens(text, [&](size_t block, const Tensor<double>& tokens) {
      for (int64_t i = 0; i < tokens.size(); ++i) {
        means_[block][i] += tokens[i] / static_cast<double>(split_.texts);
      }
    });
  }

  void AddShares(const TextIds& text) {
    if (!splits()) return;
    for (size_t block = shares_.size(); block < norms_.size(); ++block) {
      shares_.emplace_back(ReadAttention(part_, static_cast<int64_t>(block)), means_[block], part_.causal());
    }
    ForSplitTokens(text, [&](size_t block, const Tensor<double>& tokens) { shares_[block].Add(tokens, scratch_); });
  }

  TokenStatistics Finish(int64_t texts) const {
    TokenStatistics statistics{.images = texts,
                               .tokens = uniform_.queries,
                               .split_texts = split_.texts,
                               .split_tokens = split_.tokens,
                               .uniform = uniform_.Mean(part_.is_cross())};
    for (const TextSums& head : sums_) statistics.attention.push_back(head.Mean(part_.is_cross()));
    for (const LogitSplit& block : shares_) std::ranges::copy(block.Shares(), std::back_inserter(statistics.logits));
    return statistics;
  }

 private:
  void AddUniform(int64_t T, int64_t N) {
    std::vector<float> row(static_cast<size_t>(N));
    for (int64_t i = 0; i < T; ++i) {
      const int64_t keys = part_.causal() ? i + 1 : N;
      std::fill_n(row.data(), keys, 1 / static_cast<float>(keys));
      AddQueryOfText(part_, row.data(), i, T, N, uniform_);
    }
  }

  // use(block, the first tokens of the block's input, as they are split), of a text that has as many.
  template <typename F>
  void ForSplitTokens(const TextIds& text, F&& use) {
    if (!splits() || QueriesOf(part_, text) < split_.tokens) return;
    for (size_t block = 0; block < norms_.size(); ++block) {
      Tensor<float> first({1, split_.tokens, part_.config->block.width});
      std::copy_n(hidden_[block].data(), first.size(), first.data());
      use(block, SplitTokens(norms_[block], first));
    }
  }

  const AttentionPart& part_;
  int64_t depth_, heads_;
  SplitSize split_;
  std::vector<TextSums> sums_;  // [L·H]
  TextSums uniform_;
  std::vector<AttentionWeights> norms_;  // of each block, if logits are split: its norm alone
  std::vector<Tensor<double>> means_;    // likewise, [N, D]
  std::vector<Tensor<float>> hidden_;    // of each block, [1, T, D] of one text
  std::vector<LogitSplit> shares_;
  LogitScratch scratch_;
};

// All parts, one text at a time.
class TextRun {
 public:
  TextRun(std::span<const AttentionPart> parts, const model::TextModel& model, std::span<const TextIds> texts)
      : parts_(parts), model_(model) {
    for (const AttentionPart& part : parts) runs_.emplace_back(part, texts);
  }

  bool splits() const { return std::ranges::any_of(runs_, &PartRun::splits); }
  std::vector<PartRun>& runs() { return runs_; }

  void Pass(const TextIds& text, bool with_attention) {
    model::TextOutputs outputs;
    const bool pair = model_.has_encoder() && model_.has_decoder();
    for (size_t i = 0; i < runs_.size(); ++i) {
      const bool of_source = pair && parts_[i].kind == PartKind::kEncoder;
      (of_source ? outputs.encoder_hidden : outputs.hidden) =
          Joined(of_source ? outputs.encoder_hidden : outputs.hidden, runs_[i].Hidden(text));
      if (!with_attention) continue;
      auto& attention = parts_[i].is_cross() ? outputs.cross_attention
                        : of_source          ? outputs.encoder_attention
                                             : outputs.attention;
      attention = runs_[i].Attention(text);
    }
    model_.Forward({.ids = ViewOf(text.ids), .decoder_ids = ViewOf(text.target)}, workspace_, outputs);
  }

 private:
  using HiddenRequests = std::vector<model::Outputs<float>::Hidden>;
  static HiddenRequests Joined(HiddenRequests a, const HiddenRequests& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  static View<const int32_t> ViewOf(const std::vector<int32_t>& ids) {
    return ids.empty() ? View<const int32_t>() : View<const int32_t>(ids.data(), {1, std::ssize(ids)});
  }

  std::span<const AttentionPart> parts_;
  const model::TextModel& model_;
  std::vector<PartRun> runs_;
  model::TextWorkspace workspace_;
};

}  // namespace

int64_t TextSteps(std::span<const AttentionPart> parts, std::span<const TextIds> texts) {
  const bool splits =
      std::ranges::any_of(parts, [&](const AttentionPart& part) { return SizeOfSplit(part, texts).texts > 0; });
  return std::ssize(texts) * (splits ? 2 : 1);
}

std::vector<TokenStatistics> MeasureTexts(std::span<const AttentionPart> parts, const model::TextModel& model,
                                          std::span<const TextIds> texts, const std::function<void()>& advance) {
  Require(!texts.empty(), "inspect heads: expected a text, got none");
  TextRun run(parts, model, texts);
  if (run.splits()) {
    for (const TextIds& text : texts) {
      run.Pass(text, /*with_attention=*/false);
      for (PartRun& part : run.runs()) part.AddMeans(text);
      advance();
    }
  }
  for (const TextIds& text : texts) {
    run.Pass(text, /*with_attention=*/true);
    for (PartRun& part : run.runs()) part.AddShares(text);
    advance();
  }
  std::vector<TokenStatistics> statistics;
  for (const PartRun& part : run.runs()) statistics.push_back(part.Finish(std::ssize(texts)));
  return statistics;
}

}  // namespace qkv::inspect
