#include "qkv/text/wordpiece.h"

#include <algorithm>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

// True if valid UTF-8 has more than `limit` characters.
bool HasMoreCharacters(std::string_view text, int64_t limit) {
  if (static_cast<int64_t>(text.size()) <= limit) return false;
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }) > limit;
}

// The nodes in the order of their depth.
std::vector<int32_t> ByDepth(const Trie& trie, std::vector<uint32_t>* depths) {
  constexpr uint32_t kUnknown = UINT32_MAX;
  depths->assign(static_cast<size_t>(trie.node_count()), kUnknown);
  if (trie.empty()) return {};
  (*depths)[0] = 0;
  std::vector<int32_t> path, nodes = {0};
  for (int32_t node = 1; node < trie.node_count(); ++node) {
    if (trie.Parent(node) < 0) continue;
    nodes.push_back(node);
    int32_t known = node;
    for (path.clear(); (*depths)[static_cast<size_t>(known)] == kUnknown; known = trie.Parent(known)) {
      path.push_back(known);
    }
    uint32_t depth = (*depths)[static_cast<size_t>(known)];
    for (size_t i = path.size(); i-- > 0;) (*depths)[static_cast<size_t>(path[i])] = ++depth;
  }
  std::stable_sort(nodes.begin(), nodes.end(), [&](int32_t a, int32_t b) {
    return (*depths)[static_cast<size_t>(a)] < (*depths)[static_cast<size_t>(b)];
  });
  return nodes;
}

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceConfig config, std::string where)
    : SubwordModel(std::move(vocabulary)), config_(std::move(config)), where_(std::move(where)) {
  unknown_ = vocabulary_.Find(config_.unknown).value_or(-1);
  std::vector<std::pair<std::string_view, int32_t>> keys;
  std::vector<std::pair<size_t, int32_t>> places;  // of continuing tokens: end in `backwards`, id
  std::string backwards;
  vocabulary_.ForEach([&](std::string_view token, int32_t id) {
    if (token.empty()) return;
    keys.emplace_back(token, id);
    if (!token.starts_with(config_.continuing_prefix) || token.size() == config_.continuing_prefix.size()) return;
    token.remove_prefix(config_.continuing_prefix.size());
    backwards.append(token.rbegin(), token.rend());
    places.emplace_back(backwards.size(), id);
  });
  first_ = Trie(std::move(keys));
  keys.clear();
  size_t begin = 0;
  for (const auto& [end, id] : places) {
    keys.emplace_back(std::string_view(backwards).substr(begin, end - begin), id);
    begin = end;
  }
  continuing_ = Trie(std::move(keys));
  BuildAutomaton();
}

void WordPieceModel::BuildAutomaton() {
  std::vector<uint32_t> depths;
  const std::vector<int32_t> nodes = ByDepth(continuing_, &depths);
  states_.assign(static_cast<size_t>(continuing_.node_count()), {});
  for (const int32_t node : nodes) {
    if (node == 0) continue;
    State& state = states_[static_cast<size_t>(node)];
    const int32_t parent = continuing_.Parent(node);
    if (parent != 0) state.failure = Step(states_[static_cast<size_t>(parent)].failure, continuing_.ByteOf(node));
    if (continuing_.Value(node) >= 0) {
      state.longest_id = continuing_.Value(node);
      state.longest_size = depths[static_cast<size_t>(node)];
    } else {
      const State& shorter = states_[static_cast<size_t>(state.failure)];
      state.longest_id = shorter.longest_id;
      state.longest_size = shorter.longest_size;
    }
  }
}

int32_t WordPieceModel::Step(int32_t state, unsigned char byte) const {
  for (;; state = states_[static_cast<size_t>(state)].failure) {
    if (const int32_t child = continuing_.Child(state, byte); child >= 0) return child;
    if (state == 0) return 0;
  }
}

// False, with part of the tokens, if there is no token at some byte.
bool WordPieceModel::AppendTokens(std::string_view word, ModelWorkspace& workspace, std::vector<int32_t>* ids) const {
  StepTally tally;
  const Trie::Match first = first_.Longest(word);
  tally.Add(8 + first.walked);
  if (first.length == 0) return false;
  ids->push_back(first.value);
  if (first.length == word.size()) return true;
  if (continuing_.empty()) return false;
  // The state at each byte that the first token leaves.
  auto& states = workspace.reversed;
  states.resize(word.size());
  int32_t state = 0;
  for (size_t i = word.size(); i-- > first.length;) {
    tally.Add(4);
    state = Step(state, static_cast<unsigned char>(word[i]));
    states[i] = state;
  }
  for (size_t at = first.length; at < word.size();) {
    const State& here = states_[static_cast<size_t>(states[at])];
    if (here.longest_id < 0) return false;
    ids->push_back(here.longest_id);
    at += here.longest_size;
  }
  tally.Done();
  return true;
}

void WordPieceModel::Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const {
  if (workspace.cache.Find(piece, ids)) return;
  const size_t before = ids->size();
  if (HasMoreCharacters(piece, config_.max_characters) || !AppendTokens(piece, workspace, ids)) {
    Require(unknown_ >= 0,
            "{}: the text has a word that the vocabulary cannot make up, and its token \"{}\" for these is not there "
            "either",
            where_, config_.unknown);
    ids->resize(before);
    ids->push_back(unknown_);
  }
  workspace.cache.Keep(piece, ids->data() + before, ids->size() - before);
}

}  // namespace qkv::text
