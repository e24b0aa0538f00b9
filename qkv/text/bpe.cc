#include "qkv/text/bpe.h"

#include <algorithm>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"
#include "qkv/text/word_start.h"

namespace qkv::text {
namespace {

// Up to this many symbols, the best of all pairs is searched for at each merge; beyond, a heap is faster.
constexpr size_t kShortWord = 40;
constexpr size_t kMaxProbes = 4096;
// Steps of a look-up; longer searches, which hostile files cause, are counted too.
constexpr size_t kLookUpSteps = 16;
// Limit of the prefix and the suffix ("##", "</w>"), which look-ups of characters put around each.
constexpr size_t kMaxAffix = 32;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
uint64_t HashPair(uint64_t pair) {
  pair *= 0x9e3779b97f4a7c15;
  return pair ^ pair >> 29;
}

}  // namespace

BpeModel::BpeModel(Vocabulary vocabulary, BpeConfig config, std::string where)
    : SubwordModel(std::move(vocabulary)), config_(std::move(config)), where_(std::move(where)) {
  for (const std::string* affix : {&config_.continuing_prefix, &config_.end_suffix}) {
    Require(affix->size() <= kMaxAffix, "{}: expected a prefix and a suffix of subwords of at most {} bytes, got {}",
            where_, kMaxAffix, affix->size());
  }
  if (!config_.unknown.empty()) unknown_ = vocabulary_.Find(config_.unknown).value_or(-1);
  if (config_.byte_fallback) byte_tokens_ = ByteTokens(vocabulary_);
  std::string text;
  for (int place = 0; place < 4; ++place) {
    for (char32_t code = 0; code < kTabled; ++code) {
      text.clear();
      if (place < 2) text = config_.continuing_prefix;
      AppendUtf8(code, &text);
      if (place % 2 == 1) text += config_.end_suffix;
      characters_[static_cast<size_t>(place)][code] = vocabulary_.Find(text).value_or(-1);
    }
  }
}

void BpeModel::AddMerge(std::string_view left, std::string_view right) {
  const auto id_of = [&](std::string_view token) {
    const std::optional<int32_t> id = vocabulary_.Find(token);
    Require(id.has_value(), "{}: merge {} of \"{}\" and \"{}\" needs the token \"{}\", which is not in the vocabulary",
            where_, merges_.size() + 1, left, right, token);
    return *id;
  };
  Require(merges_.size() < std::numeric_limits<uint32_t>::max(), "{}: too many merges", where_);
  const int32_t left_id = id_of(left), right_id = id_of(right);
  std::string merged(left);
  merged.append(right.substr(std::min(right.size(), config_.continuing_prefix.size())));
  merges_.push_back({PairKey(left_id, right_id), static_cast<uint32_t>(merges_.size()), id_of(merged)});
}

void BpeModel::Finish() {
  size_t size = 16;
  while (size < 2 * merges_.size()) size *= 2;
  table_.assign(size, {0, 0, -1});
  metaspace_words_ = config_.continuing_prefix.empty() && config_.end_suffix.empty() && !config_.ignore_merges &&
                     vocabulary_.Find(kWordStart).has_value();
  for (const Merge& merge : merges_) {
    size_t slot = HashPair(merge.pair) & (size - 1);
    for (size_t probes = 0; table_[slot].id >= 0 && table_[slot].pair != merge.pair; slot = (slot + 1) & (size - 1)) {
      Require(++probes < kMaxProbes, "{}: expected merges whose hashes differ, got thousands of one hash", where_);
    }
    table_[slot] = merge;  // of equal pairs the last wins
    const std::string_view merged = *vocabulary_.TokenOf(merge.id);
    metaspace_words_ = metaspace_words_ && WordEnd(merged, 0) == merged.size();
  }
  std::vector<Merge>().swap(merges_);
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const uint64_t pair = PairKey(left, right);
  const size_t mask = table_.size() - 1;
  size_t probes = 0;
  for (size_t slot = HashPair(pair) & mask; table_[slot].id >= 0; slot = (slot + 1) & mask) {
    if (table_[slot].pair == pair) return &table_[slot];
    if (++probes % kLookUpSteps == 0) Spend(kLookUpSteps);
  }
  return nullptr;
}

int32_t BpeModel::CharacterId(std::string_view character, char32_t code, bool first, bool last) const {
  if (code < kTabled) return characters_[2 * size_t{first} + size_t{last}][code];
  const bool prefixed = !first && !config_.continuing_prefix.empty();
  const bool suffixed = last && !config_.end_suffix.empty();
  if (!prefixed && !suffixed) return vocabulary_.Find(character).value_or(-1);
  std::string text;
  if (prefixed) text = config_.continuing_prefix;
  text += character;
  if (suffixed) text += config_.end_suffix;
  return vocabulary_.Find(text).value_or(-1);
}

void BpeModel::MakeSymbols(std::string_view word, ModelWorkspace& workspace) const {
  auto& symbols = workspace.symbols;
  symbols.clear();
  const auto add = [&](int32_t id) { symbols.push_back({id, 0, 0, 0, 1, false}); };
  bool unknown = false;  // a token for unknown characters that is not added yet
  StepTally tally;
  for (size_t at = 0; at < word.size();) {
    const Character character = CharacterAt(word, at);
    const bool first = at == 0, last = character.end == word.size();
    const std::string_view text = word.substr(at, character.end - at);
    at = character.end;
    tally.Add(4);
    if (const int32_t id = CharacterId(text, character.code, first, last); id >= 0) {
      if (unknown) add(unknown_);
      unknown = false;
      add(id);
      continue;
    }
    if (config_.byte_fallback) {
      std::string bytes;
      if (!first) bytes = config_.continuing_prefix;
      bytes += text;
      tally.Add(bytes.size());
      if (last) bytes += config_.end_suffix;
      const auto id_of = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
      if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return id_of(byte) >= 0; })) {
        for (const char byte : bytes) add(id_of(byte));
        continue;
      }
    }
    if (config_.unknown.empty()) continue;
    Require(unknown_ >= 0,
            "{}: the text has a character outside of the vocabulary, and its token \"{}\" for these is "
            "not there either",
            where_, config_.unknown);
    if (unknown && !config_.fuse_unknown) add(unknown_);
    unknown = true;
  }
  if (unknown) add(unknown_);
  tally.Done();
}

void BpeModel::MergeShort(ModelWorkspace& workspace, std::vector<int32_t>* ids) const {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::array<int32_t, kShortWord> id;
  std::array<int32_t, kShortWord> merged;  // of symbol i and the next one
  std::array<uint32_t, kShortWord> rank;
  size_t count = workspace.symbols.size();
  for (size_t i = 0; i < count; ++i) id[i] = workspace.symbols[i].id;
  const auto look_up = [&](size_t i) {
    const Merge* merge = i + 1 < count ? FindMerge(id[i], id[i + 1]) : nullptr;
    rank[i] = merge != nullptr ? merge->rank : kNone;
    merged[i] = merge != nullptr ? merge->id : -1;
  };
  for (size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    const size_t best = static_cast<size_t>(std::min_element(rank.begin(), rank.begin() + count) - rank.begin());
    if (rank[best] == kNone) break;
    id[best] = merged[best];
    for (size_t i = best + 1; i + 1 < count; ++i) {
      id[i] = id[i + 1];
      rank[i] = rank[i + 1];
      merged[i] = merged[i + 1];
    }
    --count;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  ids->insert(ids->end(), id.begin(), id.begin() + count);
}

void BpeModel::MergeLong(ModelWorkspace& workspace, std::vector<int32_t>* ids) const {
  using Pair = ModelWorkspace::Pair;
  auto& symbols = workspace.symbols;
  auto& heap = workspace.heap;
  heap.clear();
  StepTally tally;
  const auto later = [](const Pair& a, const Pair& b) { return a.rank != b.rank ? a.rank > b.rank : a.left > b.left; };
  const auto pair_at = [&](int32_t left) -> const Merge* {
    tally.Add(kLookUpSteps);
    if (left < 0 || symbols[left].next < 0) return nullptr;
    return FindMerge(symbols[left].id, symbols[symbols[left].next].id);
  };
  Require(symbols.size() < size_t{1} << 31, "tokenizer: expected pieces of less than 2 GiB");
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
  }
  for (int32_t i = 0; i + 1 < count; ++i) {
    if (const Merge* merge = pair_at(i)) heap.push_back({static_cast<double>(merge->rank), i, merge->id, 0});
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Pair top = heap.back();
    heap.pop_back();
    tally.Add(kLookUpSteps);
    ModelWorkspace::Symbol& left = symbols[top.left];
    if (left.size == 0 || left.next < 0) continue;
    const Merge* merge = pair_at(top.left);  // another one if a symbol of the pair was merged since
    if (merge == nullptr || merge->id != top.id) continue;
    ModelWorkspace::Symbol& right = symbols[left.next];
    left.id = top.id;
    right.size = 0;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = top.left;
    for (const int32_t i : {left.previous, top.left}) {
      if (const Merge* next = pair_at(i)) {
        heap.push_back({static_cast<double>(next->rank), i, next->id, 0});
        std::push_heap(heap.begin(), heap.end(), later);
      }
    }
  }
  for (const auto& symbol : symbols) {
    if (symbol.size > 0) ids->push_back(symbol.id);
  }
  tally.Done();
}

void BpeModel::EncodeWord(std::string_view word, ModelWorkspace& workspace, std::vector<int32_t>* ids) const {
  if (workspace.cache.Find(word, ids)) return;
  if (config_.ignore_merges) {
    if (const std::optional<int32_t> id = vocabulary_.Find(word)) {
      ids->push_back(*id);
      return;
    }
  }
  const size_t before = ids->size();
  MakeSymbols(word, workspace);
  if (workspace.symbols.size() <= kShortWord) {
    Spend(static_cast<int64_t>(kLookUpSteps * workspace.symbols.size()));
    MergeShort(workspace, ids);
  } else {
    MergeLong(workspace, ids);
  }
  workspace.cache.Keep(word, ids->data() + before, ids->size() - before);
}

void BpeModel::Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const {
  if (!metaspace_words_) {
    EncodeWord(piece, workspace, ids);
    return;
  }
  ForEachWord(piece, [&](std::string_view word) { EncodeWord(word, workspace, ids); });
}

}  // namespace qkv::text
