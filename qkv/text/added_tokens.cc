#include "qkv/text/added_tokens.h"

#include <algorithm>

#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

// Steps of opening a tokenizer with its 100,000 added tokens at most, besides those for their bytes: a second.
constexpr int64_t kOpeningSteps = int64_t{1} << 28;

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
  // Duplicate tokens: the first wins. The trie keeps the last, so insert in reverse.
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
  size_t bytes = 0;
  for (const AddedToken& token : tokens_) bytes += token.content.size();
  for (const AddedToken& token : tokens_) texts_.push_back(token.content);
  const WorkBudget budget(kOpeningSteps + MaxSteps(bytes), "tokenizer: normalising its added tokens");
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      if (!token.normalized || token.twice) raw.emplace_back(token.content, static_cast<int32_t>(i));
      if (!token.normalized && !token.twice) continue;
      Segment segment{token.content, false, MaxGrown(token.content.size())};
      RunNormalizers(normalizers, segment);
      if (!segment.text.empty()) texts_[i] = segment.text;
      normalized.emplace_back(std::move(segment.text), static_cast<int32_t>(i));
    }
  }
  raw_ = MakeSet(std::move(raw));
  normalized_ = MakeSet(std::move(normalized));
}

void AddedTokens::Find(std::string_view text, bool normalized, std::vector<Part>* parts) const {
  const Set& set = normalized ? normalized_ : raw_;
  size_t covered = 0;
  size_t spaces_begin = 0, spaces_end = 0;  // the last run of white space behind a token
  StepTally tally;
  for (size_t at = 0; at < text.size() && !set.trie.empty();) {
    tally.Add(1);
    if (!set.first_bytes[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Trie::Match match = set.trie.Longest(text.substr(at));
    tally.Add(4 * match.walked);
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
      tally.Add(4);
      if (before < covered || !IsSpace(CharacterAt(text, before).code)) break;
      begin = before;
    }
    begin = std::max(begin, covered);
    if (token.rstrip) {
      // The next token may begin within the run: it ends where that was found to end.
      if (end < spaces_begin || end > spaces_end) {
        spaces_begin = spaces_end = end;
        while (spaces_end < text.size()) {
          const Character character = CharacterAt(text, spaces_end);
          tally.Add(4);
          if (!IsSpace(character.code)) break;
          spaces_end = character.end;
        }
      }
      end = spaces_end;
    }
    if (begin > covered) parts->push_back({covered, begin, nullptr});
    parts->push_back({begin, std::max(begin, end), &token});
    covered = std::max(covered, end);
  }
  tally.Done();
  if (covered < text.size()) parts->push_back({covered, text.size(), nullptr});
}

}  // namespace qkv::text
