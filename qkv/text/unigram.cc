#include "qkv/text/unigram.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

constexpr double kUnknownPenalty = 10;

Vocabulary VocabularyOf(const std::vector<UnigramPiece>& pieces) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < pieces.size(); ++i) vocabulary.Add(pieces[i].text, static_cast<int32_t>(i));
  vocabulary.Finish();
  return vocabulary;
}

}  // namespace

UnigramModel::UnigramModel(std::vector<UnigramPiece> pieces, UnigramConfig config, std::string where)
    : SpanModel(VocabularyOf(pieces)), config_(config), where_(std::move(where)) {
  Require(config_.unknown < static_cast<int32_t>(pieces.size()), "{}: expected unk_id below the {} pieces, got {}",
          where_, pieces.size(), config_.unknown);
  double least = config_.sentencepiece ? FLT_MAX : INFINITY, greatest = config_.sentencepiece ? FLT_MIN : 0;
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const UnigramPiece& piece = pieces[i];
    Require(std::isfinite(piece.score), "{}: expected finite scores, got {} of piece {} (\"{}\")", where_, piece.score,
            i, piece.text);
    scores_.push_back(piece.score);
    user_defined_.push_back(piece.kind == UnigramPiece::Kind::kUserDefined);
    if (piece.kind == UnigramPiece::Kind::kNormal) {
      least = std::min(least, piece.score);
      greatest = std::max(greatest, piece.score);
    }
    if (piece.kind != UnigramPiece::Kind::kNever && !piece.text.empty()) {
      keys.emplace_back(piece.text, static_cast<int32_t>(i));
    }
  }
  trie_ = Trie(std::move(keys));
  max_score_ = greatest;
  unknown_score_ =
      config_.sentencepiece ? static_cast<float>(least) - static_cast<float>(kUnknownPenalty) : least - kUnknownPenalty;
  if (config_.byte_fallback) byte_tokens_ = ByteTokens(vocabulary_);
}

template <bool single_precision>
void UnigramModel::FindBest(std::string_view text, ModelWorkspace& workspace) const {
  // libsentencepiece adds and compares in double, but keeps sums in float.
  const auto kept = [](double sum) { return single_precision ? static_cast<double>(static_cast<float>(sum)) : sum; };
  auto& best = workspace.best;
  best.assign(text.size() + 1, {0, -1, -1});
  StepTally tally;
  for (size_t at = 0; at < text.size();) {
    const double here = best[at].score;
    const size_t character_end = CharacterEnd(text, at);
    bool single = false;
    const auto offer = [&](size_t end, double exact, int32_t id) {
      ModelWorkspace::Best& target = best[end];
      const double sum = kept(exact);
      if (target.begin < 0 || sum > target.score) target = {sum, static_cast<int32_t>(at), id};
    };
    const size_t walked = trie_.ForEachPrefix(text.substr(at), [&](size_t length, int32_t id) {
      const double score =
          user_defined_[id] ? static_cast<float>(length) * static_cast<float>(max_score_) - 0.1 : scores_[id];
      offer(at + length, score + here, id);
      single = single || at + length == character_end;
    });
    tally.Add(8 + 2 * walked);
    if (!single) offer(character_end, kept(unknown_score_ + here), config_.unknown);
    at = character_end;
  }
  tally.Done();
}

template <typename F>
void UnigramModel::AddUnknown(std::string_view piece, size_t begin, size_t end, F&& add) const {
  if (config_.byte_fallback) {
    const std::string_view text = piece.substr(begin, end - begin);
    const auto id_of = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
    if (std::all_of(text.begin(), text.end(), [&](char byte) { return id_of(byte) >= 0; })) {
      for (const char byte : text) add(id_of(byte), begin, end);
      return;
    }
  }
  Require(config_.unknown >= 0, "{}: the text has a character outside of the vocabulary, which has no unknown token",
          where_);
  add(config_.unknown, begin, end);
}

template <typename F>
void UnigramModel::ForEachToken(std::string_view piece, ModelWorkspace& workspace, F&& add) const {
  Require(piece.size() < size_t{1} << 31, "tokenizer: expected pieces of less than 2 GiB");
  if (config_.sentencepiece) {
    FindBest<true>(piece, workspace);
  } else {
    FindBest<false>(piece, workspace);
  }
  // From the end: indices of the last bytes of tokens.
  auto& ends = workspace.reversed;
  ends.clear();
  for (auto end = static_cast<int32_t>(piece.size()); end > 0; end = workspace.best[end].begin) ends.push_back(end);
  StepTally tally;
  for (size_t i = ends.size(); i-- > 0;) {
    tally.Add(4);
    const ModelWorkspace::Best& token = workspace.best[ends[i]];
    const auto begin = static_cast<size_t>(token.begin);
    if (token.id != config_.unknown || token.id < 0) {
      if (token.id >= 0) {
        add(token.id, begin, static_cast<size_t>(ends[i]));
      } else {
        AddUnknown(piece, begin, static_cast<size_t>(ends[i]), add);
      }
      continue;
    }
    // A run of unknown characters is one token.
    const bool by_character = config_.sentencepiece && config_.byte_fallback;
    size_t last = i;
    while (!by_character && last > 0 && workspace.best[ends[last - 1]].id == config_.unknown) --last;
    const auto end = static_cast<size_t>(ends[last]);
    const std::optional<int32_t> known =
        config_.sentencepiece ? std::nullopt : vocabulary_.Find(piece.substr(begin, end - begin));
    if (known) {
      add(*known, begin, end);
    } else {
      AddUnknown(piece, begin, end, add);
    }
    i = last;
  }
  tally.Done();
}

void UnigramModel::Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const {
  if (workspace.cache.Find(piece, ids)) return;
  const size_t before = ids->size();
  ForEachToken(piece, workspace, [ids](int32_t id, size_t, size_t) { ids->push_back(id); });
  workspace.cache.Keep(piece, ids->data() + before, ids->size() - before);
}

void UnigramModel::EncodeSpans(std::string_view piece, ModelWorkspace& workspace, std::vector<TokenSpan>* spans) const {
  ForEachToken(piece, workspace, [spans](int32_t id, size_t begin, size_t end) {
    spans->push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  });
}

}  // namespace qkv::text
