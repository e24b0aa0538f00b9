#include "qkv/text/vocabulary.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "qkv/core/error.h"
#include "qkv/core/work.h"

namespace qkv::text {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 31;
// At most half of the slots are taken: honest tokens need a few dozen probes at most.
constexpr size_t kMaxProbes = 4096;
// Longer searches, which hostile files cause, are counted as work.
constexpr size_t kFewProbes = 16;

}  // namespace

uint64_t HashText(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;
  uint64_t hash = text.size() * kMultiplier, word;
  size_t at = 0;
  for (; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
  }
  if (at < text.size()) {
    word = 0;
    std::memcpy(&word, text.data() + at, text.size() - at);
    hash = (hash ^ word) * kMultiplier;
  }
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9;
  return hash ^ hash >> 32;
}

void Vocabulary::Grow() {
  slots_.assign(std::max<size_t>(16, slots_.size() * 2), 0);
  const size_t mask = slots_.size() - 1;
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    size_t slot = HashText(TextOf(entries_[i])) & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = i + 1;
  }
}

void Vocabulary::Add(std::string_view token, int32_t id) {
  Require(id >= 0, "vocabulary: expected ids from 0, got {} of token \"{}\"", id, token);
  Require(bytes_.size() + token.size() < kMaxBytes, "vocabulary: expected tokens of less than 2 GiB in all");
  max_id_ = std::max(max_id_, id);
  if ((entries_.size() + 1) * 2 > slots_.size()) Grow();
  const size_t mask = slots_.size() - 1;
  size_t slot = HashText(token) & mask, probes = 0;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    Require(++probes < kMaxProbes, "vocabulary: expected tokens whose hashes differ, got thousands of one hash");
    Entry& entry = entries_[slots_[slot] - 1];
    if (TextOf(entry) == token) {
      entry.id = id;
      return;
    }
  }
  entries_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size()), id});
  bytes_.append(token);
  slots_[slot] = static_cast<uint32_t>(entries_.size());
}

void Vocabulary::Finish() {
  by_id_.resize(entries_.size());
  std::iota(by_id_.begin(), by_id_.end(), 0u);
  // A later entry of the same id stands before, and wins.
  std::sort(by_id_.begin(), by_id_.end(), [&](uint32_t a, uint32_t b) {
    return entries_[a].id != entries_[b].id ? entries_[a].id < entries_[b].id : a > b;
  });
  dense_ = true;
  for (size_t i = 0; i < by_id_.size() && dense_; ++i) dense_ = static_cast<size_t>(entries_[by_id_[i]].id) == i;
}

std::optional<int32_t> Vocabulary::Find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const size_t mask = slots_.size() - 1;
  size_t probes = 0;
  for (size_t slot = HashText(token) & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const Entry& entry = entries_[slots_[slot] - 1];
    if (TextOf(entry) == token) return entry.id;
    if (++probes % kFewProbes == 0) Spend(static_cast<int64_t>(kFewProbes * (1 + token.size() / 16)));
  }
  return std::nullopt;
}

std::optional<std::string_view> Vocabulary::TokenOf(int32_t id) const {
  if (id < 0) return std::nullopt;
  if (dense_) {
    if (static_cast<size_t>(id) >= by_id_.size()) return std::nullopt;
    return TextOf(entries_[by_id_[static_cast<size_t>(id)]]);
  }
  const auto found = std::lower_bound(by_id_.begin(), by_id_.end(), id,
                                      [&](uint32_t index, int32_t wanted) { return entries_[index].id < wanted; });
  if (found == by_id_.end() || entries_[*found].id != id) return std::nullopt;
  return TextOf(entries_[*found]);
}

}  // namespace qkv::text
