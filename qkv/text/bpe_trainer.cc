#include "qkv/text/bpe_trainer.h"

#include <algorithm>
#include <span>

#include "qkv/core/error.h"
#include "qkv/text/byte_level.h"
#include "qkv/text/pre_tokenizers.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

constexpr int64_t kMaxTrainedTokens = int64_t{1} << 24;
constexpr size_t kMaxWordBytes = size_t{1} << 28;
constexpr uint32_t kEnd = UINT32_MAX;

// Words as lists of symbols, and how often each pair of neighbours is there.
class PairMerger {
 public:
  using Pair = std::pair<int32_t, int32_t>;
  struct Candidate {
    int64_t count;  // when it was put into the queue
    Pair pair;
    std::vector<uint32_t> places;  // symbols on the left
  };

  explicit PairMerger(size_t symbols) { symbols_.reserve(symbols); }

  // Symbols of a word that is there `count` times.
  void AddWord(std::span<const int32_t> ids, int64_t count) {
    const auto word = static_cast<uint32_t>(counts_.size());
    counts_.push_back(count);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto here = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({ids[i], i > 0 ? here - 1 : kEnd, i + 1 < ids.size() ? here + 1 : kEnd, word});
      if (i > 0) Change(Pair(ids[i - 1], ids[i]), here - 1, count);
    }
  }

  // Pairs that have become more frequent since the last call.
  std::vector<Candidate> TakeCandidates() {
    std::vector<Candidate> candidates;
    for (const uint32_t index : grown_) {
      Entry& entry = entries_[index];
      entry.listed = false;
      if (entry.count > 0) candidates.push_back({entry.count, entry.pair, std::move(entry.places)});
      entry.places = {};
    }
    grown_.clear();
    return candidates;
  }

  int64_t Count(const Pair& pair) const { return entries_[index_.at(KeyOf(pair))].count; }

  // The original counts the merged pair itself no less: a pair that comes back has its old count too.
  void Merge(Candidate candidate, int32_t merged) {
    const auto [left, right] = candidate.pair;
    std::sort(candidate.places.begin(), candidate.places.end());  // of "aaa" the first two
    for (const uint32_t place : candidate.places) {
      Symbol& symbol = symbols_[place];
      if (symbol.id != left || symbol.next == kEnd || symbols_[symbol.next].id != right) continue;
      Symbol& second = symbols_[symbol.next];
      const int64_t count = counts_[symbol.word];
      if (symbol.previous != kEnd) {
        const int32_t before = symbols_[symbol.previous].id;
        Change({before, left}, kEnd, -count);
        Change({before, merged}, symbol.previous, count);
      }
      symbol.id = merged;
      symbol.next = second.next;
      second.id = -1;
      if (symbol.next != kEnd) {
        Symbol& after = symbols_[symbol.next];
        after.previous = place;
        Change({right, after.id}, kEnd, -count);
        Change({merged, after.id}, place, count);
      }
    }
  }

 private:
  struct Symbol {
    int32_t id;  // -1: merged into the one before
    uint32_t previous, next, word;
  };
  struct Entry {
    Pair pair;
    int64_t count = 0;
    std::vector<uint32_t> places;  // since the pair was put into the queue
    bool listed = false;
  };

  static uint64_t KeyOf(const Pair& pair) {
    return static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 | static_cast<uint32_t>(pair.second);
  }

  void Change(const Pair& pair, uint32_t place, int64_t count) {
    const auto [found, is_new] = index_.try_emplace(KeyOf(pair), static_cast<uint32_t>(entries_.size()));
    if (is_new) entries_.push_back({pair});
    Entry& entry = entries_[found->second];
    entry.count += count;
    if (count <= 0) return;
    entry.places.push_back(place);
    if (!entry.listed) grown_.push_back(found->second);
    entry.listed = true;
  }

  struct HashKey {
    size_t operator()(uint64_t key) const {
      key *= 0x9e3779b97f4a7c15;
      return key ^ key >> 29;
    }
  };

  std::vector<Symbol> symbols_;
  std::vector<int64_t> counts_;  // of words
  std::vector<Entry> entries_;
  std::unordered_map<uint64_t, uint32_t, HashKey> index_;  // of entries, by pair
  std::vector<uint32_t> grown_;
};

struct IsLater {
  bool operator()(const PairMerger::Candidate& a, const PairMerger::Candidate& b) const {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

// Tokens and their ids.
struct TokenTable {
  std::vector<std::string> tokens;
  std::unordered_map<std::string, int32_t> ids;

  int32_t Add(const std::string& token) {
    const auto [found, is_new] = ids.try_emplace(token, static_cast<int32_t>(tokens.size()));
    if (is_new) tokens.push_back(token);
    return found->second;
  }
};

// A pair that was merged twice counts from its last time on, as in the original, which keeps ranks by pair.
std::vector<std::pair<int32_t, int32_t>> WithoutRepeats(std::vector<std::pair<int32_t, int32_t>> merges) {
  std::unordered_map<uint64_t, size_t> last;
  const auto key_of = [](const std::pair<int32_t, int32_t>& merge) {
    return static_cast<uint64_t>(static_cast<uint32_t>(merge.first)) << 32 | static_cast<uint32_t>(merge.second);
  };
  for (size_t i = 0; i < merges.size(); ++i) last[key_of(merges[i])] = i;
  size_t kept = 0;
  for (size_t i = 0; i < merges.size(); ++i) {
    if (last[key_of(merges[i])] == i) merges[kept++] = merges[i];
  }
  merges.resize(kept);
  return merges;
}

// The characters that stand for the bytes, by their code point.
std::vector<std::string> ByteCharacters() {
  std::vector<std::string> characters(256);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    AppendByteCharacters(std::string_view(&c, 1), &characters[static_cast<size_t>(byte)]);
  }
  std::sort(characters.begin(), characters.end());  // UTF-8 sorts as code points do
  return characters;
}

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainerOptions options)
    : options_(std::move(options)), split_(ByteLevel(options_.add_prefix_space, /*use_pattern=*/true)) {
  const auto least = static_cast<int64_t>(options_.special_tokens.size()) + 256;
  Require(options_.vocabulary_size >= least && options_.vocabulary_size <= kMaxTrainedTokens,
          "BPE training: expected a vocabulary of {} (special tokens and bytes) to {} tokens, got {}", least,
          kMaxTrainedTokens, options_.vocabulary_size);
  for (const std::string& token : options_.special_tokens) {
    Require(!token.empty() && IsValidUtf8(token), "BPE training: expected special tokens that are not empty, in UTF-8");
  }
}

void BpeTrainer::Add(std::string_view text) {
  if (text.empty()) return;
  Pieces pieces;
  pieces.text = IsValidUtf8(text) ? std::string(text) : ReplaceInvalidUtf8(text);
  pieces.ranges.push_back({0, pieces.text.size()});
  pieces.at_start = true;
  split_(pieces);
  for (const Pieces::Range& range : pieces.ranges) {
    const auto [word, is_new] = words_.try_emplace(std::string(pieces[range]), 0);
    ++word->second;
    if (!is_new) continue;
    bytes_ += word->first.size();
    Require(bytes_ <= kMaxWordBytes,
            "BPE training: expected different words of at most {} bytes in all; give fewer texts", kMaxWordBytes);
  }
}

TrainedBpe BpeTrainer::Train() const {
  TokenTable table;
  for (const std::string& token : options_.special_tokens) table.Add(token);
  TrainedBpe result;
  result.special_tokens = static_cast<int64_t>(table.tokens.size());
  result.add_prefix_space = options_.add_prefix_space;
  for (const std::string& character : ByteCharacters()) table.Add(character);

  PairMerger merger(bytes_);
  std::vector<int32_t> ids;
  for (const auto& [word, count] : words_) {
    ids.clear();
    for (size_t at = 0; at < word.size();) {
      const size_t end = CharacterEnd(word, at);
      ids.push_back(table.ids.at(word.substr(at, end - at)));
      at = end;
    }
    merger.AddWord(ids, count);
  }
  std::vector<PairMerger::Candidate> queue = merger.TakeCandidates();
  std::make_heap(queue.begin(), queue.end(), IsLater());
  const auto push = [&](PairMerger::Candidate candidate) {
    queue.push_back(std::move(candidate));
    std::push_heap(queue.begin(), queue.end(), IsLater());
  };
  while (static_cast<int64_t>(table.tokens.size()) < options_.vocabulary_size && !queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), IsLater());
    PairMerger::Candidate top = std::move(queue.back());
    queue.pop_back();
    if (const int64_t count = merger.Count(top.pair); count != top.count) {
      top.count = count;
      push(std::move(top));
      continue;
    }
    if (top.count < 1 || top.count < options_.min_frequency) break;
    const int32_t merged = table.Add(table.tokens[static_cast<size_t>(top.pair.first)] +
                                     table.tokens[static_cast<size_t>(top.pair.second)]);
    result.merges.push_back(top.pair);
    merger.Merge(std::move(top), merged);
    for (PairMerger::Candidate& candidate : merger.TakeCandidates()) push(std::move(candidate));
  }
  result.merges = WithoutRepeats(std::move(result.merges));
  result.tokens = std::move(table.tokens);
  return result;
}

}  // namespace qkv::text
