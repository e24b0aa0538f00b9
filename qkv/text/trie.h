// A double-array trie: all keys that are a prefix of a text, in one walk over its bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::text {

class Trie {
 public:
  Trie() = default;
  /// Keys are non-empty; of equal keys the last one counts. Values are not negative.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> keys);

  bool empty() const { return nodes_.empty(); }

  /// Nodes by number, for automata that are built on a trie; some numbers are not used. The root is node 0.
  int32_t node_count() const { return static_cast<int32_t>(nodes_.size()); }
  /// -1 of a number that is not used, -2 of the root.
  int32_t Parent(int32_t node) const { return nodes_[node].parent; }
  /// The byte that leads from the parent to the node.
  unsigned char ByteOf(int32_t node) const { return static_cast<unsigned char>(node - nodes_[Parent(node)].base); }
  /// -1 if there is none.
  int32_t Child(int32_t node, unsigned char byte) const {
    const int32_t child = nodes_[node].base + byte;
    return nodes_[child].parent == node ? child : -1;
  }
  /// The value of the key that ends at the node, or -1.
  int32_t Value(int32_t node) const { return nodes_[node].value; }

  /// Calls found(length, value) for every key that `text` begins with, from short to long.
  /// Returns how many bytes are the beginning of a key.
  template <typename F>
  size_t ForEachPrefix(std::string_view text, F&& found) const {
    if (nodes_.empty()) return 0;
    int32_t node = 0;
    size_t i = 0;
    for (; i < text.size(); ++i) {
      const int32_t child = nodes_[node].base + static_cast<unsigned char>(text[i]);
      if (nodes_[child].parent != node) break;
      node = child;
      if (nodes_[node].value >= 0) found(i + 1, nodes_[node].value);
    }
    return i;
  }
  /// The longest such key; length 0 if there is none.
  struct Match {
    size_t length = 0;
    int32_t value = -1;
    size_t walked = 0;  // bytes that are the beginning of a key
  };
  Match Longest(std::string_view text) const {
    Match match;
    match.walked = ForEachPrefix(text, [&](size_t length, int32_t value) { match = {length, value}; });
    return match;
  }

 private:
  // The child of a node by byte b is at base + b and names the node as parent. A leaf's base points at the tail, where
  // no node has a parent.
  struct Node {
    int32_t base = 0, parent = -1, value = -1;
  };
  std::vector<Node> nodes_;
};

}  // namespace qkv::text
