#include "qkv/text/sentencepiece.h"

#include <memory>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/charsmap.h"
#include "qkv/text/sentencepiece_bpe.h"
#include "qkv/text/steps.h"
#include "qkv/text/trie.h"
#include "qkv/text/unigram.h"
#include "qkv/text/word_start.h"

namespace qkv::text {
namespace {

// Parts of a model that normalising needs, kept by the function.
struct NormalizerState {
  Charsmap map;
  std::vector<std::string> symbols;  // user-defined: never changed
  Trie user_defined;
  bool dummy_prefix, remove_extra, escape, suffix;

  struct Prefix {
    std::string_view text;
    size_t consumed, steps;
  };
  // The beginning of the input, normalised, and its bytes.
  Prefix Take(std::string_view input) const {
    size_t steps = 4;
    if (!user_defined.empty()) {
      const Trie::Match symbol = user_defined.Longest(input);
      steps += symbol.walked;
      if (symbol.length > 0) return {input.substr(0, symbol.length), symbol.length, steps};
    }
    const Charsmap::Match mapped = map.Longest(input);
    steps += mapped.walked + mapped.replacement.size();
    if (mapped.length > 0) return {mapped.replacement, mapped.length, steps};
    const size_t length = CharacterLength(input);
    return length == 0 ? Prefix{kReplacementCharacter, 1, steps} : Prefix{input.substr(0, length), length, steps};
  }
  std::string Normalize(std::string_view input, size_t limit) const;
};

std::string NormalizerState::Normalize(std::string_view input, size_t limit) const {
  std::string to;
  StepTally tally;
  while (remove_extra && !input.empty()) {
    const Prefix prefix = Take(input);
    tally.Add(prefix.steps);
    if (prefix.text != " ") break;
    input.remove_prefix(prefix.consumed);
  }
  if (input.empty()) return to;
  const std::string_view space = escape ? kWordStart : " ";
  to.reserve(input.size() + input.size() / 2 + 16);
  if (!suffix && dummy_prefix) to += space;
  bool after_space = remove_extra;
  while (!input.empty()) {
    const Prefix prefix = Take(input);
    tally.Add(prefix.steps);
    std::string_view text = prefix.text;
    while (after_space && text.starts_with(' ')) text.remove_prefix(1);
    for (const char c : text) {
      if (c == ' ') {
        to += space;
      } else {
        to += c;
      }
    }
    if (!text.empty()) after_space = remove_extra && text.ends_with(' ');
    RequireGrown(to.size(), limit);
    input.remove_prefix(prefix.consumed);
  }
  tally.Done();
  while (remove_extra && to.ends_with(space)) to.erase(to.size() - space.size());
  if (suffix && dummy_prefix) to += space;
  return to;
}

}  // namespace

Normalizer SentencePieceNormalizer(const SentencePieceModel& model, std::string_view where) {
  auto state = std::make_shared<NormalizerState>();
  state->map = Charsmap(model.precompiled_charsmap, where);
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type == SentencePiece::kUserDefined) state->symbols.push_back(piece.text);
  }
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (const std::string& symbol : state->symbols) keys.emplace_back(symbol, 0);
  state->user_defined = Trie(std::move(keys));
  state->dummy_prefix = model.add_dummy_prefix;
  state->remove_extra = model.remove_extra_whitespaces;
  state->escape = model.escape_whitespaces;
  state->suffix = model.treat_whitespace_as_suffix;
  return [state = std::shared_ptr<const NormalizerState>(std::move(state))](Segment& segment) {
    segment.text = state->Normalize(segment.text, segment.limit);
  };
}

std::unique_ptr<SpanModel> MakeSentencePieceModel(const SentencePieceModel& model, std::string where) {
  if (model.model_type == SentencePieceModel::kBpe) {
    return std::make_unique<SentencePieceBpeModel>(
        model.pieces, SentencePieceBpeConfig{model.unknown_id, model.byte_fallback}, std::move(where));
  }
  std::vector<UnigramPiece> pieces;
  pieces.reserve(model.pieces.size());
  for (const SentencePiece& piece : model.pieces) {
    using Kind = UnigramPiece::Kind;
    const Kind kind = piece.type == SentencePiece::kNormal        ? Kind::kNormal
                      : piece.type == SentencePiece::kUserDefined ? Kind::kUserDefined
                                                                  : Kind::kNever;
    pieces.push_back({piece.text, piece.score, kind});
  }
  return std::make_unique<UnigramModel>(std::move(pieces),
                                        UnigramConfig{model.unknown_id, model.byte_fallback, /*sentencepiece=*/true},
                                        std::move(where));
}

}  // namespace qkv::text
