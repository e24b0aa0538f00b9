#include "qkv/train/sequences/pairs.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/model/layout/tokenizer_files.h"
#include "qkv/text/bpe_trainer.h"
#include "qkv/train/data/loader.h"
#include "qkv/train/network/loss.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// Lengths are counted in steps of so many tokens where texts of a batch are chosen: enough texts of a kind to mix.
constexpr int64_t kBucket = 4;
// Greatest size of a file of a tokenizer that a run copies.
constexpr size_t kMostTokenizerBytes = size_t{1} << 28;

int64_t BucketOf(int64_t length) { return (length + kBucket - 1) / kBucket; }

}  // namespace

PairSet EncodePairs(const PairTexts& texts, const PairTokenizer& tokenizer, int64_t length, int64_t most) {
  const int32_t end = tokenizer.tokens.end;
  constexpr int64_t kTogether = 256;
  PairSet set;
  // In pieces, so that the ids of few lines lie in vectors of their own.
  const int64_t piece = kTogether * NumThreads();
  std::vector<std::vector<int32_t>> sources(static_cast<size_t>(piece)), targets(static_cast<size_t>(piece));
  for (int64_t first = 0; first < texts.size(); first += piece) {
    const int64_t count = std::min(piece, texts.size() - first);
    ParallelFor(count, 16, [&](int64_t begin, int64_t stop) {
      for (int64_t i = begin; i < stop; ++i) {
        const auto at = static_cast<size_t>(i), line = static_cast<size_t>(first + i);
        const text::EncodeOptions plain{.add_special_tokens = false, .padding = text::Padding::kNone};
        sources[at] = tokenizer.tokenizer.Encode(texts.sources[line], plain), sources[at].push_back(end);
        targets[at] = tokenizer.target.Encode(texts.targets[line], plain), targets[at].push_back(end);
      }
    });
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      if (std::ssize(sources[at]) > length || std::ssize(targets[at]) > length) {
        ++set.left_out;
        continue;
      }
      set.source.Add(sources[at]), set.target.Add(targets[at]);
      set.lines.push_back(first + i);
      if (set.size() == most) return set;
    }
  }
  return set;
}

double SourceTokensPerTargetToken(const PairSet& set) {
  int64_t source = 0, target = 0;
  for (int64_t line = 0; line < set.size(); ++line)
    source += set.source.length(line), target += set.target.length(line);
  return target > 0 ? static_cast<double>(source) / static_cast<double>(target) : 1;
}

void FillPairBatch(const PairSet& set, std::span<const int64_t> lines, const model::TextTokens& tokens,
                   PairBatch* batch, std::span<const int64_t> padded) {
  int64_t N = 1, M = 1;
  for (const int64_t line : padded.empty() ? lines : padded) {
    N = std::max(N, set.source.length(line)), M = std::max(M, set.target.length(line));
  }
  const int64_t B = std::ssize(lines);
  batch->source.Reuse({B, N}), batch->target.Reuse({B, M}), batch->labels.Reuse({B, M});
  batch->source_lengths.Reuse({B}), batch->target_lengths.Reuse({B});
  std::ranges::fill(batch->source.span(), tokens.padding), std::ranges::fill(batch->target.span(), tokens.padding);
  std::ranges::fill(batch->labels.span(), kIgnoredLabel);
  for (int64_t b = 0; b < B; ++b) {
    const std::span<const int32_t> source = set.source[lines[static_cast<size_t>(b)]],
                                   target = set.target[lines[static_cast<size_t>(b)]];
    batch->source_lengths[b] = std::ssize(source), batch->target_lengths[b] = std::ssize(target);
    std::ranges::copy(source, batch->source.view().row(b));
    std::ranges::copy(target, batch->labels.view().row(b));
    int32_t* const read = batch->target.view().row(b);
    read[0] = tokens.start;
    std::ranges::copy(target.first(target.size() - 1), read + 1);
  }
}

PairBatches::PairBatches(const PairSet& set, int64_t tokens, uint64_t seed) : seed_(seed) {
  Require(set.size() > 0, "pairs: no line is short enough to train on");
  const auto key = [&](int64_t line) {
    const int64_t source = BucketOf(set.source.length(line)), target = BucketOf(set.target.length(line));
    return std::tuple(source + target, target, line);
  };
  order_.resize(static_cast<size_t>(set.size()));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  std::ranges::sort(order_, {}, key);
  bucket_of_.resize(order_.size()), bucket_end_.resize(order_.size());
  int64_t source = 0, target = 0;  // of the batch so far, in buckets
  for (size_t i = 0; i < order_.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto [sum, own_target, line] = key(order_[i]);
    const bool same = i > 0 && std::tuple(sum, own_target) ==
                                   std::tuple(std::get<0>(key(order_[i - 1])), std::get<1>(key(order_[i - 1])));
    bucket_of_[i] = same ? bucket_of_[i - 1] : at;
    const int64_t widest_source = std::max(source, sum - own_target), widest_target = std::max(target, own_target);
    const bool fits = !begin_.empty() && (at + 1 - begin_.back()) * kBucket * (widest_source + widest_target) <= tokens;
    if (fits) {
      source = widest_source, target = widest_target;
    } else {
      begin_.push_back(at);
      source = sum - own_target, target = own_target;
    }
  }
  begin_.push_back(set.size());
  for (size_t i = order_.size(); i-- > 0;) {
    const bool last = i + 1 == order_.size() || bucket_of_[i + 1] != bucket_of_[i];
    bucket_end_[i] = last ? static_cast<int64_t>(i + 1) : bucket_end_[i + 1];
  }
}

std::vector<int64_t> PairBatches::Lines(int64_t batch) const {
  const uint64_t epoch = MixSeed(seed_, static_cast<uint64_t>(batch / size()));
  const auto at = static_cast<size_t>(ShuffledIndex(epoch, size(), batch % size()));
  std::vector<int64_t> lines;
  for (int64_t place = begin_[at]; place < begin_[at + 1]; ++place) {
    const int64_t first = bucket_of_[static_cast<size_t>(place)], end = bucket_end_[static_cast<size_t>(place)];
    const uint64_t own = MixSeed(epoch, static_cast<uint64_t>(first) + 1);
    lines.push_back(order_[static_cast<size_t>(first + ShuffledIndex(own, end - first, place - first))]);
  }
  return lines;
}

PairTokenizer LearnTokenizer(const PairTexts& texts, int64_t vocabulary) {
  const text::BpeRoles roles{.begin = {},
                             .end = "</s>",
                             .padding = "<pad>",
                             .unknown = "<unk>",
                             .add_begin = false,
                             .add_end = true,
                             .model_max_length = {}};
  text::BpeTrainer trainer({.vocabulary_size = vocabulary,
                            .min_frequency = 2,
                            .special_tokens = {roles.end, roles.unknown, roles.padding},
                            .add_prefix_space = true});
  for (const auto* side : {&texts.sources, &texts.targets}) {
    for (const std::string& line : *side) trainer.Add(line);
  }
  const text::TrainedBpe bpe = trainer.Train();
  std::string json = text::TokenizerJson(bpe, roles);
  text::Tokenizer tokenizer = text::Tokenizer::FromJson(json, "tokenizer.json");
  const auto id = [&](const std::string& token) { return tokenizer.IdOf(token).value(); };
  const model::TextTokens tokens{.start = id(roles.padding), .end = id(roles.end), .padding = id(roles.padding)};
  return {tokenizer,
          tokenizer,
          {{"tokenizer.json", std::move(json)}, {"tokenizer_config.json", text::TokenizerConfigJson(roles)}},
          tokens};
}

PairTokenizer OpenTokenizer(const fs::path& folder, std::optional<model::TextTokens> tokens) {
  std::error_code error;
  Require(fs::is_directory(folder, error), "tokenizer: {} is no folder; expected one with tokenizer.json",
          folder.string());
  PairTokenizer opened{text::Tokenizer::Open(folder), text::Tokenizer::OpenTarget(folder), {}, {}};
  const text::SpecialIds& special = opened.tokenizer.special();
  if (tokens) {
    opened.tokens = *tokens;
  } else {
    Require(special.end && special.padding,
            "tokenizer: {} names no {} token; expected \"eos_token\" and \"pad_token\" in its tokenizer_config.json",
            folder.string(), special.end ? "padding" : "end");
    opened.tokens = {.start = *special.padding, .end = *special.end, .padding = *special.padding};
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (model::IsTokenizerFile(entry.path().filename().string()) && entry.is_regular_file(error)) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    opened.files.emplace_back(file.filename().string(), ReadFile(file, kMostTokenizerBytes));
  }
  return opened;
}

}  // namespace qkv::train
