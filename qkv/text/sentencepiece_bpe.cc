#include "qkv/text/sentencepiece_bpe.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/text/sentencepiece.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"
#include "qkv/text/word_start.h"

namespace qkv::text {
namespace {

// Steps of a look-up, and of the heap for it.
constexpr size_t kLookUpSteps = 16;

Vocabulary AllPieces(const std::vector<SentencePiece>& pieces) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < pieces.size(); ++i) vocabulary.Add(pieces[i].text, static_cast<int32_t>(i));
  vocabulary.Finish();
  return vocabulary;
}

}  // namespace

SentencePieceBpeModel::SentencePieceBpeModel(const std::vector<SentencePiece>& pieces, SentencePieceBpeConfig config,
                                             std::string where)
    : SpanModel(AllPieces(pieces)), config_(config), where_(std::move(where)) {
  std::vector<std::pair<std::string_view, int32_t>> symbols;
  metaspace_words_ = true;
  bool any_unused = false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const SentencePiece& piece = pieces[i];
    const auto id = static_cast<int32_t>(i);
    scores_.push_back(piece.score);
    any_unused = any_unused || piece.type == SentencePiece::kUnused;
    if (piece.type == SentencePiece::kUserDefined) symbols.emplace_back(piece.text, id);
    if (piece.type != SentencePiece::kNormal && piece.type != SentencePiece::kUserDefined) continue;
    mergeable_.Add(piece.text, id);
    metaspace_words_ = metaspace_words_ && WordEnd(piece.text, 0) == piece.text.size();
  }
  Require(!any_unused,
          "{}: expected a SentencePiece BPE model without unused pieces (type 5), which this reader does "
          "not split again",
          where_);
  mergeable_.Finish();
  metaspace_words_ = metaspace_words_ && mergeable_.Find(kWordStart).has_value();
  user_defined_ = Trie(std::move(symbols));
  if (config_.byte_fallback) byte_tokens_ = ByteTokens(vocabulary_);
}

// Merges symbols until no two neighbours form a piece.
void SentencePieceBpeModel::MergeSymbols(std::string_view word, ModelWorkspace& workspace) const {
  using Pair = ModelWorkspace::Pair;
  auto& symbols = workspace.symbols;
  auto& heap = workspace.heap;
  symbols.clear();
  heap.clear();
  StepTally tally;
  Require(word.size() < size_t{1} << 31, "tokenizer: expected pieces of less than 2 GiB");
  for (size_t at = 0; at < word.size();) {
    const Trie::Match symbol = user_defined_.Longest(word.substr(at));
    tally.Add(4 + symbol.walked);
    const size_t size = symbol.length > 0 ? symbol.length : CharacterEnd(word, at) - at;
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back(
        {-1, index - 1, index + 1, static_cast<uint32_t>(at), static_cast<uint32_t>(size), symbol.length > 0});
    at += size;
  }
  symbols.back().next = -1;
  // Ranks are negated scores.
  const auto later = [](const Pair& a, const Pair& b) { return a.rank != b.rank ? a.rank > b.rank : a.left > b.left; };
  const auto offer = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const ModelWorkspace::Symbol& a = symbols[left];
    const ModelWorkspace::Symbol& b = symbols[a.next];
    if (a.frozen || b.frozen) return;
    tally.Add(kLookUpSteps + (a.size + b.size) / 8);  // it is hashed, eight bytes at a time
    const std::optional<int32_t> id = mergeable_.Find(word.substr(a.begin, a.size + b.size));
    if (!id) return;
    heap.push_back({-static_cast<double>(scores_[*id]), left, *id, a.size + b.size});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i) offer(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Pair top = heap.back();
    heap.pop_back();
    tally.Add(kLookUpSteps);
    ModelWorkspace::Symbol& left = symbols[top.left];
    // Skips pairs of which a symbol was merged since.
    if (left.size == 0 || left.next < 0 || left.size + symbols[left.next].size != top.size) continue;
    ModelWorkspace::Symbol& right = symbols[left.next];
    left.size = top.size;
    left.id = top.id;
    right.size = 0;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = top.left;
    offer(left.previous);
    offer(top.left);
  }
  tally.Done();
}

template <typename F>
void SentencePieceBpeModel::ForEachToken(std::string_view word, ModelWorkspace& workspace, F&& add) const {
  MergeSymbols(word, workspace);
  const auto& symbols = workspace.symbols;
  constexpr size_t kNone = std::string_view::npos;
  size_t unknown_begin = kNone;  // of a run of unknown symbols, which are one token
  for (int32_t i = 0; i >= 0; i = symbols[i].next) {
    const size_t begin = symbols[i].begin, end = begin + symbols[i].size;
    const std::string_view text = word.substr(begin, end - begin);
    const int32_t id = symbols[i].id >= 0 ? symbols[i].id : vocabulary_.Find(text).value_or(config_.unknown);
    if (id == config_.unknown && !config_.byte_fallback) {
      if (unknown_begin == kNone) unknown_begin = begin;
      continue;
    }
    if (unknown_begin != kNone) add(config_.unknown, unknown_begin, begin);
    unknown_begin = kNone;
    if (id != config_.unknown) {
      add(id, begin, end);
      continue;
    }
    for (const char byte : text) {
      const int32_t byte_id = byte_tokens_[static_cast<unsigned char>(byte)];
      add(byte_id >= 0 ? byte_id : config_.unknown, begin, end);
    }
  }
  if (unknown_begin != kNone) add(config_.unknown, unknown_begin, word.size());
}

void SentencePieceBpeModel::EncodeWord(std::string_view word, ModelWorkspace& workspace,
                                       std::vector<int32_t>* ids) const {
  if (workspace.cache.Find(word, ids)) return;
  const size_t before = ids->size();
  ForEachToken(word, workspace, [ids](int32_t id, size_t, size_t) { ids->push_back(id); });
  workspace.cache.Keep(word, ids->data() + before, ids->size() - before);
}

void SentencePieceBpeModel::EncodeSpans(std::string_view piece, ModelWorkspace& workspace,
                                        std::vector<TokenSpan>* spans) const {
  const auto encode = [&](std::string_view word) {
    const auto offset = static_cast<uint32_t>(word.data() - piece.data());
    ForEachToken(word, workspace, [&](int32_t id, size_t begin, size_t end) {
      spans->push_back({id, offset + static_cast<uint32_t>(begin), offset + static_cast<uint32_t>(end)});
    });
  };
  if (metaspace_words_) {
    ForEachWord(piece, encode);
  } else {
    encode(piece);
  }
}

void SentencePieceBpeModel::Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const {
  if (!metaspace_words_) {
    EncodeWord(piece, workspace, ids);
    return;
  }
  ForEachWord(piece, [&](std::string_view word) { EncodeWord(word, workspace, ids); });
}

}  // namespace qkv::text
