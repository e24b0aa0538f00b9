#include "qkv/text/added_tokens.h"

#include <algorithm>

#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

bool WordEndsAt(std::string_view text, size_t at) {
  return at > 0 && IsWord(CharacterAt(text, CharacterBefore(text, at)).code);
}
bool WordBeginsAt(std::string_view text, size_t at) { return at < text.size() && IsWord(CharacterAt(text, at).code); }

}  // namespace

AddedTokens::Set AddedTokens::MakeSet(std::vector<std::pair<std::string, int32_t>> texts) {
  Set set;
  set.first_bytes.assign(256, false);
  set.texts.reserve(texts.size());
  std::vector<std::pair<std::string_view, int32_t>> keys;
  // Of equal texts the first counts, of equal keys of a trie the last.
  for (size_t i = texts.size(); i-- > 0;) {
    if (texts[i].first.empty()) continue;
    set.texts.push_back(std::move(texts[i].first));
    set.first_bytes[static_cast<unsigned char>(set.texts.back()[0])] = true;
    keys.emplace_back(set.texts.back(), texts[i].second);
  }
  set.trie = Trie(std::move(keys));
  return set;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::vector<Normalizer>& normalizers)
    : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string, int32_t>> raw, normalized;
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      if (!token.normalized) {
        raw.emplace_back(token.content, static_cast<int32_t>(i));
        continue;
      }
      Segment segment{token.content, false};
      for (const Normalizer& normalizer : normalizers) normalizer(segment);
      normalized.emplace_back(std::move(segment.text), static_cast<int32_t>(i));
    }
  }
  raw_ = MakeSet(std::move(raw));
  normalized_ = MakeSet(std::move(normalized));
}

void AddedTokens::Find(std::string_view text, bool normalized, std::vector<Part>* parts) const {
  const Set& set = normalized ? normalized_ : raw_;
  size_t covered = 0;
  for (size_t at = 0; at < text.size() && !set.trie.empty();) {
    if (!set.first_bytes[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Trie::Match match = set.trie.Longest(text.substr(at));
    if (match.length == 0) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + match.length;
    at = end;
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    if (token.single_word && (WordEndsAt(text, begin) || WordBeginsAt(text, end))) continue;
    while (token.lstrip && begin > covered) {
      const size_t before = CharacterBefore(text, begin);
      if (before < covered || !IsSpace(CharacterAt(text, before).code)) break;
      begin = before;
    }
    begin = std::max(begin, covered);
    while (token.rstrip && end < text.size()) {
      const Character character = CharacterAt(text, end);
      if (!IsSpace(character.code)) break;
      end = character.end;
    }
    if (begin > covered) parts->push_back({covered, begin, nullptr});
    parts->push_back({begin, std::max(begin, end), &token});
    covered = std::max(covered, end);
  }
  if (covered < text.size()) parts->push_back({covered, text.size(), nullptr});
}

}  // namespace qkv::text
