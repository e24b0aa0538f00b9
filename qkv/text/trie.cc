#include "qkv/text/trie.h"

#include <algorithm>
#include <array>

#include "qkv/core/error.h"

namespace qkv::text {
namespace {

constexpr int32_t kBytes = 256;
constexpr size_t kMaxNodes = size_t{1} << 29;
// How many places are tried for the children of a node before new ones are taken at the end: bounds the time of
// building, costs little space.
constexpr int kMaxTries = 64;

}  // namespace

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (keys.empty()) return;

  struct Open {
    int32_t node;
    size_t begin, end, depth;  // keys that pass through the node, and the bytes that it has consumed
  };
  std::vector<int32_t> next_free;  // a free node at or behind each place, with short cuts
  const auto grow = [&](size_t size) {
    Require(size < kMaxNodes, "trie: expected a vocabulary of fewer than {} nodes", kMaxNodes);
    while (next_free.size() < size) next_free.push_back(static_cast<int32_t>(next_free.size()));
    if (nodes_.size() < size) nodes_.resize(size);
  };
  const auto free_from = [&](int32_t at) {
    int32_t found = at;
    grow(static_cast<size_t>(found) + 1);
    while (next_free[found] != found) {
      found = next_free[found];
      grow(static_cast<size_t>(found) + 1);
    }
    while (next_free[at] != at) {  // shorten the way for later walks
      const int32_t behind = next_free[at];
      next_free[at] = found;
      at = behind;
    }
    return found;
  };
  const auto take = [&](int32_t node, int32_t parent) {
    nodes_[node].parent = parent;
    grow(static_cast<size_t>(node) + 2);
    next_free[node] = node + 1;
  };

  grow(1);
  take(0, -2);
  std::vector<Open> open = {{0, 0, keys.size(), 0}};
  std::array<size_t, kBytes> begins{};  // of the children of one node
  std::vector<int32_t> labels;
  int32_t first_place = 1;  // places before are nearly all taken
  while (!open.empty()) {
    Open here = open.back();
    open.pop_back();
    while (here.begin < here.end && keys[here.begin].first.size() == here.depth) {
      nodes_[here.node].value = keys[here.begin++].second;
    }
    labels.clear();
    for (size_t i = here.begin; i < here.end; ++i) {
      const int32_t label = static_cast<unsigned char>(keys[i].first[here.depth]);
      if (labels.empty() || labels.back() != label) {
        labels.push_back(label);
        begins[label] = i;
      }
    }
    if (labels.empty()) continue;
    int32_t base = 0;
    int tries = 0;
    for (int32_t place = std::max(first_place, labels.front() + 1);; ++place) {
      place = free_from(place);
      base = place - labels.front();
      grow(static_cast<size_t>(base) + kBytes);
      if (std::all_of(labels.begin(), labels.end(), [&](int32_t label) { return nodes_[base + label].parent == -1; })) {
        break;
      }
      if (++tries == kMaxTries) {
        first_place = place;
        place = static_cast<int32_t>(nodes_.size());
      }
    }
    nodes_[here.node].base = base;
    for (size_t i = labels.size(); i-- > 0;) {
      const int32_t child = base + labels[i];
      take(child, here.node);
      const size_t end = i + 1 < labels.size() ? begins[labels[i + 1]] : here.end;
      open.push_back({child, begins[labels[i]], end, here.depth + 1});
    }
  }
  // Leaves look for children in places without an owner.
  const auto tail = static_cast<int32_t>(nodes_.size());
  nodes_.resize(nodes_.size() + kBytes);
  std::vector<bool> inner(nodes_.size(), false);
  for (const Node& node : nodes_) {
    if (node.parent >= 0) inner[node.parent] = true;
  }
  for (int32_t i = 0; i < tail; ++i) {
    if (!inner[i]) nodes_[i].base = tail;
  }
}

}  // namespace qkv::text
