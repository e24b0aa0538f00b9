// Adds the tokens of a tokenizer's files, as tokenizers' library and as transformers' Python classes do.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/tokenizer_settings.h"

namespace qkv::text {

std::optional<int32_t> FindToken(const TokenizerParts& parts, std::string_view token) {
  const auto found = parts.added_index.find(std::string(token));
  if (found != parts.added_index.end()) return parts.added[found->second].id;
  return parts.model->vocabulary().Find(token);
}

namespace {

int32_t NextAddedId(const TokenizerParts& parts) {
  const auto size = static_cast<int32_t>(parts.model->vocabulary().size());
  Require(parts.max_added_id < std::numeric_limits<int32_t>::max(), "{}: too many added tokens", parts.description);
  return std::max(size, parts.max_added_id + 1);
}

// A token of the same content gets the new one's flags, but stays special once it was, and stays found where it was.
void Merge(AddedToken token, AddedToken* to) {
  if (to->special) {
    token.special = true;
    token.normalized = to->normalized;
    token.twice = to->twice;
  } else {
    token.twice = to->twice || to->normalized != token.normalized;
  }
  *to = std::move(token);
}

void AddTokenAt(int32_t id, AddedToken token, TokenizerParts* parts) {
  token.id = id;
  parts->max_added_id = std::max(parts->max_added_id, id);
  const auto [place, is_new] = parts->added_index.try_emplace(token.content, parts->added.size());
  if (!is_new) {
    Merge(std::move(token), &parts->added[place->second]);
    return;
  }
  Require(parts->added.size() < kMaxAddedTokens, "{}: expected at most {} added tokens", parts->description,
          kMaxAddedTokens);
  parts->added.push_back(std::move(token));
}

// Named tokens, a model's own and extra ones, in the order in which they are added.
std::vector<StatedToken> SpecialTokens(const TokenizerSettings& settings, std::span<const std::string_view> otherwise,
                                       const std::vector<StatedToken>& extra, std::unordered_set<std::string>* names) {
  std::vector<StatedToken> tokens;
  for (size_t i = 0; i < kNamedTokens.size(); ++i) {
    if (settings.named[i].token) tokens.push_back(*settings.named[i].token);
    if (settings.named[i].stated || otherwise[i].empty()) continue;
    tokens.push_back({.token = {.content = std::string(otherwise[i]), .special = true}, .by_class = true});
  }
  for (const auto& [key, token] : settings.other_named) tokens.push_back(token);
  for (const StatedToken& token : tokens) names->insert(token.token.content);
  tokens.insert(tokens.end(), extra.begin(), extra.end());
  return tokens;
}

}  // namespace

void AddToken(AddedToken token, TokenizerParts* parts) {
  if (token.content.empty()) return;
  const int32_t id = FindToken(*parts, token.content).value_or(NextAddedId(*parts));
  AddTokenAt(id, std::move(token), parts);
}

void AddConfiguredTokens(const TokenizerSettings& settings, std::span<const std::string_view> otherwise,
                         const std::vector<StatedToken>& extra, TokenizerParts* parts) {
  std::unordered_set<std::string> known, names;
  for (const AddedToken& token : parts->added) known.insert(token.content);
  std::vector<StatedToken> tokens;
  for (const auto& [id, token] : settings.stored) {
    known.insert(token.content);
    tokens.push_back({.token = token, .flags = true});
  }
  StatedTokenSet there;
  std::unordered_map<std::string, bool> normalized;
  for (StatedToken& token : SpecialTokens(settings, otherwise, extra, &names)) {
    const std::string& content = token.token.content;
    if (known.contains(content) || !there.insert(token).second) continue;
    const bool is_normalized = token.token.normalized;
    Require(normalized.try_emplace(content, is_normalized).first->second == is_normalized,
            "{}: the token \"{}\" is stated twice, with \"normalized\" true and false; state it once", settings.where,
            content.substr(0, 100));
    tokens.push_back(std::move(token));
  }
  for (StatedToken& token : tokens) {
    token.token.special = token.token.special || names.contains(token.token.content);
    const int32_t before = parts->max_added_id;
    AddToken(std::move(token.token), parts);
    if (token.by_class && parts->max_added_id > before) parts->class_ids.insert(parts->max_added_id);
  }
}

void AddSpecialTokensAgain(const TokenizerSettings& settings, std::span<const std::string_view> otherwise,
                           const std::vector<StatedToken>& extra, TokenizerParts* parts) {
  std::unordered_set<std::string> names;
  for (const StatedToken& token : SpecialTokens(settings, otherwise, extra, &names)) {
    AddToken({.content = token.token.content, .special = true}, parts);
  }
}

void AddPythonTokens(const TokenizerSettings& settings, std::span<const std::string_view> otherwise,
                     const std::vector<StatedToken>& extra, TokenizerParts* parts) {
  std::unordered_set<std::string> names;
  const std::vector<StatedToken> special = SpecialTokens(settings, otherwise, extra, &names);
  for (const StatedToken& token : extra) names.insert(token.token.content);
  const Vocabulary& vocabulary = parts->model->vocabulary();
  auto size = static_cast<int32_t>(vocabulary.size());
  for (auto [id, token] : settings.stored) {
    if (token.content.empty()) continue;
    Require(id < std::numeric_limits<int32_t>::max(), "{}: expected ids below 2³¹ of added tokens, got {} of \"{}\"",
            settings.where, id, token.content.substr(0, 100));
    Require(!token.single_word,
            "{}: added_tokens_decoder: expected \"single_word\": false of \"{}\", got true; {}'s class "
            "has a rule of its own, which is not supported",
            settings.where, token.content.substr(0, 100), settings.tokenizer_class);
    // Python's classes find all of them in the text as it is, and decode those that are named or extra as special.
    token.normalized = false;
    token.special = names.contains(token.content);
    size += vocabulary.Find(token.content) ? 0 : 1;
    AddTokenAt(static_cast<int32_t>(id), std::move(token), parts);
  }
  for (const StatedToken& token : special) {
    const std::string& content = token.token.content;
    if (content.empty() || parts->added_index.contains(content)) continue;
    const std::optional<int32_t> id = vocabulary.Find(content);
    AddTokenAt(id ? *id : size++, {.content = content, .special = true}, parts);
  }
}

}  // namespace qkv::text
