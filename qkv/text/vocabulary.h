// Tokens and their ids. Ids may have gaps, and several tokens may share one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

/// A hash of short texts. Texts that collide can be chosen, so tables limit how far they probe.
uint64_t HashText(std::string_view text);

/// Tokens in the order in which they were added. Memory is proportional to their bytes, whatever the ids.
class Vocabulary {
 public:
  /// A token that is already there gets the new id. Throws Error for an id below 0, and beyond 2³¹ bytes in all.
  void Add(std::string_view token, int32_t id);
  /// Call once after the last Add: builds the map from ids to tokens.
  void Finish();

  std::optional<int32_t> Find(std::string_view token) const;
  /// The token of an id; if several were added, the last.
  std::optional<std::string_view> TokenOf(int32_t id) const;
  /// Number of different tokens.
  size_t size() const { return entries_.size(); }
  /// The highest id, or -1 if empty.
  int32_t max_id() const { return max_id_; }

  /// Calls use(token, id) in the order of adding.
  template <typename F>
  void ForEach(F&& use) const {
    for (const Entry& entry : entries_) use(TextOf(entry), entry.id);
  }

 private:
  struct Entry {
    uint32_t begin, size;
    int32_t id;
  };
  std::string_view TextOf(const Entry& entry) const { return std::string_view(bytes_).substr(entry.begin, entry.size); }
  void Grow();

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // open addressing: 1 + index of an entry, or 0
  std::vector<uint32_t> by_id_;  // indices of entries, by id
  bool dense_ = false;           // the entry of id i is by_id_[i]
  int32_t max_id_ = -1;
};

}  // namespace qkv::text
