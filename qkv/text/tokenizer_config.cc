// What tokenizer_config.json and special_tokens_map.json add to a tokenizer: special tokens and lengths.
#include <algorithm>
#include <charconv>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/text/json_fields.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {
namespace {

// Larger ones mean "none": transformers writes 10³⁰.
constexpr double kMaxModelLength = 1e9;

}  // namespace

std::optional<int32_t> FindToken(const TokenizerParts& parts, std::string_view token) {
  const auto found = parts.added_index.find(std::string(token));
  if (found != parts.added_index.end()) return parts.added[found->second].id;
  return parts.model->vocabulary().Find(token);
}

int32_t NextAddedId(const TokenizerParts& parts) {
  const auto size = static_cast<int32_t>(parts.model->vocabulary().size());
  Require(parts.max_added_id < std::numeric_limits<int32_t>::max(), "{}: too many added tokens", parts.description);
  return std::max(size, parts.max_added_id + 1);
}

void AddToken(AddedToken token, TokenizerParts* parts) {
  if (token.content.empty()) return;
  token.id = FindToken(*parts, token.content).value_or(NextAddedId(*parts));
  parts->max_added_id = std::max(parts->max_added_id, token.id);
  const auto [place, is_new] = parts->added_index.try_emplace(token.content, parts->added.size());
  if (!is_new) {
    parts->added[place->second] = std::move(token);
    return;
  }
  Require(parts->added.size() < kMaxAddedTokens, "{}: expected at most {} added tokens", parts->description,
          kMaxAddedTokens);
  parts->added.push_back(std::move(token));
}

std::string TokenContent(const io::Json& config, std::string_view key) {
  if (!config.is_object()) return {};
  const auto found = config.find(key);
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return {};
  const auto content = found->find("content");
  return content != found->end() && content->is_string() ? content->get<std::string>() : std::string();
}

std::string TokenOr(const io::Json& config, std::string_view key, std::string_view otherwise) {
  std::string content = TokenContent(config, key);
  return content.empty() ? std::string(otherwise) : content;
}

namespace {

// Tokens with the ids that they had when the files were written, by id; these ids count only as an order.
std::vector<std::pair<int64_t, AddedToken>> StoredTokens(const io::Json& config, std::span<const NamedToken> named,
                                                         std::string_view where) {
  std::vector<std::pair<int64_t, AddedToken>> tokens;
  if (const auto decoder = config.find("added_tokens_decoder"); decoder != config.end() && decoder->is_object()) {
    for (const auto& [number, fields] : decoder->items()) {
      int64_t id = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
      Require(error == std::errc() && end == number.data() + number.size() && id >= 0,
              "{}: added_tokens_decoder: expected ids, got \"{}\"", where, number.substr(0, 100));
      tokens.emplace_back(id,
                          ReadAddedToken(JsonFields(fields, fmt::format("{}: added_tokens_decoder", where)), false));
    }
  } else if (const auto file = config.find(kAddedTokensFile); file != config.end() && file->is_object()) {
    for (const auto& [content, id] : file->items()) {
      Require(id.is_number_integer(), "{}: added_tokens.json: expected an id of \"{}\", got {}", where, content,
              id.dump().substr(0, 100));
      const bool special = std::ranges::any_of(
          named, [&](const NamedToken& token) { return TokenOr(config, token.key, token.otherwise) == content; });
      tokens.emplace_back(id.get<int64_t>(),
                          AddedToken{.content = content, .normalized = !special, .special = special});
    }
  }
  std::ranges::stable_sort(tokens, {}, &std::pair<int64_t, AddedToken>::first);
  return tokens;
}

}  // namespace

void AddConfiguredTokens(const io::Json& json, std::span<const NamedToken> named, std::string_view where,
                         NewTokens new_tokens, TokenizerParts* parts) {
  const io::Json config = json.is_object() ? json : io::Json::object();
  for (auto& [id, token] : StoredTokens(config, named, where)) {
    token.special = token.special || std::ranges::any_of(named, [&](const NamedToken& other) {
                      return TokenOr(config, other.key, other.otherwise) == token.content;
                    });
    AddToken(std::move(token), parts);
  }
  const auto add = [&](const io::Json& value) {
    AddedToken token;
    if (value.is_object()) token = ReadAddedToken(JsonFields(value, std::string(where)), true);
    if (value.is_string()) token.content = value.get<std::string>();
    token.special = true;
    if (parts->added_index.contains(token.content)) return;
    if (new_tokens == NewTokens::kLeaveOut && !FindToken(*parts, token.content)) return;
    AddToken(std::move(token), parts);
  };
  for (const NamedToken& token : named) {
    const auto found = config.find(token.key);
    if (!TokenContent(config, token.key).empty()) {
      add(*found);
    } else if (!token.otherwise.empty()) {
      add(io::Json(token.otherwise));
    }
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_array()) continue;
    for (const io::Json& value : *found) add(value);
  }
}

void ApplyTokenizerConfig(const io::Json& config, TokenizerParts* parts) {
  const auto id_of = [&](std::string_view key) -> std::optional<int32_t> {
    const std::string content = TokenContent(config, key);
    return content.empty() ? std::nullopt : FindToken(*parts, content);
  };
  const auto take = [&](std::string_view key, std::optional<int32_t>* to) {
    if (const std::optional<int32_t> id = id_of(key)) *to = id;
  };
  take("bos_token", &parts->special.begin);
  take("eos_token", &parts->special.end);
  take("pad_token", &parts->special.padding);
  take("unk_token", &parts->special.unknown);
  take("cls_token", &parts->special.classify);
  take("sep_token", &parts->special.separate);
  take("mask_token", &parts->special.mask);
  if (parts->special.padding) parts->padding_on_request.id = *parts->special.padding;
  if (!config.is_object()) return;
  if (const auto length = config.find("model_max_length"); length != config.end() && length->is_number()) {
    const double value = length->get<double>();
    if (value >= 1 && value <= kMaxModelLength) parts->model_max_length = static_cast<int64_t>(value);
  }
  // transformers cleans the text of every model but BPE.
  if (const auto clean = config.find("clean_up_tokenization_spaces"); clean != config.end() && clean->is_boolean()) {
    parts->clean_decoded = clean->get<bool>() && !parts->description.starts_with("BPE") &&
                           !parts->description.starts_with("SentencePiece BPE");
  }
  if (const auto side = config.find("padding_side"); side != config.end() && side->is_string()) {
    parts->padding_on_request.left = side->get<std::string>() == "left";
  }
}

}  // namespace qkv::text
