// What tokenizer_config.json and special_tokens_map.json add to a tokenizer: special tokens and lengths.
#include <cmath>

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
  if (const auto side = config.find("padding_side"); side != config.end() && side->is_string()) {
    parts->padding_on_request.left = side->get<std::string>() == "left";
  }
}

}  // namespace qkv::text
