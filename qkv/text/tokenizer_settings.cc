#include "qkv/text/tokenizer_settings.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/text/json_fields.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {
namespace {

namespace fs = std::filesystem;

// Larger ones mean "none": transformers writes 10³⁰.
constexpr double kMaxModelLength = 1e9;
constexpr int64_t kMaxExtraIds = 100'000;

// An object of a folder, empty if there is no such file.
struct SettingsFile {
  std::string where;
  io::Json json = io::Json::object();
  bool found = false;

  JsonFields fields() const { return {json, where}; }
};

SettingsFile ReadFileOf(const fs::path& folder, std::string_view name) {
  SettingsFile file{.where = (folder / name).native()};
  if (!FileExists(folder / name)) return file;
  file.json = io::ReadJson(folder / name);
  file.found = true;
  Require(file.json.is_object(), "{}: expected an object, got {}", file.where, file.json.type_name());
  return file;
}

std::string Clipped(const io::Json& value) { return value.dump().substr(0, 100); }

// `always_special`: as special_tokens_map.json counts a token with fields.
StatedToken ReadStated(const io::Json& value, const std::string& where, std::string_view key, bool always_special) {
  if (value.is_string()) return {.token = {.content = value.get<std::string>(), .special = true}};
  Require(value.is_object(), "{}: expected a token or an object with \"content\" for \"{}\", got {}", where, key,
          Clipped(value));
  io::Json fields = value;
  if (always_special) fields.erase("special");
  return {.token = ReadAddedToken(JsonFields(fields, fmt::format("{}: {}", where, key)), always_special),
          .flags = true};
}

std::vector<StatedToken> ReadTokens(const io::Json& list, const std::string& where, std::string_view key,
                                    bool always_special) {
  std::vector<StatedToken> tokens;
  Require(list.is_array(), "{}: expected a list of tokens for \"{}\", got {}", where, key, Clipped(list));
  for (const io::Json& value : list) tokens.push_back(ReadStated(value, where, key, always_special));
  return tokens;
}

void ReadNamed(const SettingsFile& file, bool always_special, TokenizerSettings* to) {
  for (size_t i = 0; i < kNamedTokens.size(); ++i) {
    const auto found = file.json.find(kNamedTokens[i]);
    if (found == file.json.end()) continue;
    to->named[i] = {.stated = true};
    if (found->is_null()) continue;
    StatedToken token = ReadStated(*found, file.where, kNamedTokens[i], always_special);
    // It becomes special, which unsets a "normalized" that is not stated.
    if (token.flags && !found->contains("normalized")) token.token.normalized = false;
    if (!token.token.content.empty()) to->named[i].token = std::move(token);
  }
}

// Takes the keys of a file's object, or of the object under its key `inner`. No callback of nlohmann's own parser: that
// takes quadratic time.
class KeyTaker : public nlohmann::json_sax<io::Json> {
 public:
  KeyTaker(std::string_view inner, std::vector<std::string>* keys)
      : inner_(inner), depth_(inner.empty() ? 1 : 2), within_(inner.empty()), keys_(*keys) {}

  bool key(std::string& name) override {
    if (level_ == 1 && !inner_.empty()) within_ = name == inner_;
    if (within_ && level_ == depth_) keys_.push_back(name);
    return true;
  }
  bool start_object(size_t) override { return ++level_, true; }
  bool end_object() override { return --level_, true; }
  bool start_array(size_t) override { return ++level_, true; }
  bool end_array() override { return --level_, true; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(io::Json::binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  const std::string_view inner_;
  const int depth_;  // of the keys that are taken; 1: the file's own
  bool within_;
  int level_ = 0;
  std::vector<std::string>& keys_;
};

// Keys of an object in the order of the file, in which new tokens get their ids; io::Json sorts them.
std::vector<std::string> KeysInOrder(const fs::path& path, std::string_view inner) {
  std::vector<std::string> keys;
  if (!FileExists(path)) return keys;
  KeyTaker taker(inner, &keys);
  Require(io::Json::sax_parse(ReadFile(path), &taker), "{}: the file changed while it was read", path.native());
  return keys;
}

// Adds a model's own tokens by their keys; a later one replaces an earlier one in its place.
class OtherNamed {
 public:
  explicit OtherNamed(TokenizerSettings* to) : tokens_(to->other_named) {}

  void Add(const std::string& key, StatedToken token) {
    const auto [place, is_new] = places_.try_emplace(key, tokens_.size());
    if (is_new) {
      tokens_.emplace_back(key, std::move(token));
    } else {
      tokens_[place->second].second = std::move(token);
    }
  }

 private:
  std::vector<std::pair<std::string, StatedToken>>& tokens_;
  std::unordered_map<std::string, size_t> places_;
};

// Tokens of a model's own, "image_token" and the like: keys of the file, and an object of extra_special_tokens.
void ReadOtherNamed(const SettingsFile& file, bool always_special, OtherNamed* to) {
  const auto is_own = [](std::string_view key) {
    return key.ends_with("_token") && std::ranges::find(kNamedTokens, key) == kNamedTokens.end();
  };
  for (const std::string& key : KeysInOrder(file.where, "")) {
    const io::Json& value = file.json[key];
    // add_bos_token is none.
    if (!is_own(key) || !(value.is_string() || value.is_object())) continue;
    to->Add(key, ReadStated(value, file.where, key, always_special));
  }
  const auto extra = file.json.find("extra_special_tokens");
  if (extra == file.json.end() || !extra->is_object()) return;
  for (const std::string& key : KeysInOrder(file.where, "extra_special_tokens")) {
    to->Add(key, ReadStated((*extra)[key], file.where, key, always_special));
  }
}

// extra_special_tokens, or the older additional_special_tokens where that is empty.
void ReadExtra(const SettingsFile& file, TokenizerSettings* to) {
  const auto extra = file.json.find("extra_special_tokens"), older = file.json.find("additional_special_tokens");
  const bool has_extra = extra != file.json.end();
  if (older != file.json.end() && (!has_extra || extra->empty())) {
    to->extra.emplace();
    if (!older->is_null()) to->extra = ReadTokens(*older, file.where, "additional_special_tokens", false);
  } else if (has_extra && !extra->is_object()) {
    to->extra.emplace();
    if (!extra->is_null()) to->extra = ReadTokens(*extra, file.where, "extra_special_tokens", false);
  }
}

// What special_tokens_map.json adds where there is no added_tokens_decoder; its tokens replace the others.
void ReadSpecialTokensMap(const SettingsFile& file, OtherNamed* other_named, TokenizerSettings* to) {
  ReadNamed(file, /*always_special=*/true, to);
  ReadOtherNamed(file, /*always_special=*/true, other_named);
  if (const io::Json* list = file.fields().Find("additional_special_tokens")) {
    to->additional = ReadTokens(*list, file.where, "additional_special_tokens", true);
  }
  const io::Json* extra = file.fields().Find("extra_special_tokens");
  if (extra == nullptr || extra->is_object()) return;
  if (!to->extra) to->extra.emplace();
  StatedTokenSet there(to->extra->begin(), to->extra->end());
  for (StatedToken& token : ReadTokens(*extra, file.where, "extra_special_tokens", true)) {
    if (there.insert(token).second) to->extra->push_back(std::move(token));
  }
}

std::vector<std::pair<int64_t, AddedToken>> ReadDecoder(const SettingsFile& file) {
  std::vector<std::pair<int64_t, AddedToken>> tokens;
  const JsonFields decoder(file.fields().Object("added_tokens_decoder"),
                           fmt::format("{}: added_tokens_decoder", file.where));
  for (const auto& [number, fields] : file.json["added_tokens_decoder"].items()) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
    Require(error == std::errc() && end == number.data() + number.size() && id >= 0, "{}: expected ids, got \"{}\"",
            decoder.where(), number.substr(0, 100));
    tokens.emplace_back(id, ReadAddedToken(JsonFields(fields, std::string(decoder.where())), false));
  }
  std::ranges::stable_sort(tokens, {}, &std::pair<int64_t, AddedToken>::first);
  return tokens;
}

// added_tokens.json, and over it tokenizer.json's.
std::vector<std::pair<int64_t, AddedToken>> ReadOlderTokens(
    const SettingsFile& file, const std::vector<std::pair<int64_t, AddedToken>>& json_tokens,
    const TokenizerSettings& settings) {
  std::unordered_set<std::string> special_texts;
  for (const NamedToken& named : settings.named) {
    if (named.token) special_texts.insert(named.token->token.content);
  }
  if (settings.extra) {
    for (const StatedToken& token : *settings.extra) special_texts.insert(token.token.content);
  }
  std::map<int64_t, AddedToken> tokens;
  for (const auto& [content, id] : file.json.items()) {
    Require(id.is_number_integer() && id.get<int64_t>() >= 0, "{}: expected an id of \"{}\", got {}", file.where,
            content.substr(0, 100), Clipped(id));
    const bool special = special_texts.contains(content);
    tokens[id.get<int64_t>()] = {.content = content, .normalized = !special, .special = special};
  }
  for (const auto& [id, token] : json_tokens) tokens[id] = token;
  return {tokens.begin(), tokens.end()};
}

std::optional<bool> ReadFlag(const JsonFields& fields, std::string_view key) {
  return fields.Find(key) == nullptr ? std::nullopt : std::optional(fields.Flag(key, false));
}

// Where null is no default but false, as Python has it.
std::optional<bool> ReadFlagOrNull(const SettingsFile& file, std::string_view key) {
  return file.json.contains(key) ? std::optional(file.fields().Flag(key, false)) : std::nullopt;
}

std::optional<bool> ReadIsLeft(const JsonFields& fields, std::string_view key) {
  if (fields.Find(key) == nullptr) return std::nullopt;
  const std::string side = fields.Text(key);
  Require(side == "left" || side == "right", "{}: expected \"left\" or \"right\" for \"{}\", got \"{}\"",
          fields.where(), key, side.substr(0, 100));
  return side == "left";
}

std::optional<int64_t> ReadLength(const JsonFields& fields) {
  std::string_view key = "model_max_length";
  if (fields.Find(key) == nullptr) key = "max_len";
  const io::Json* length = fields.Find(key);
  if (length == nullptr) return std::nullopt;
  Require(length->is_number() && length->get<double>() >= 1, "{}: expected a length from 1 for \"{}\", got {}",
          fields.where(), key, Clipped(*length));
  return length->get<double>() <= kMaxModelLength ? std::optional(static_cast<int64_t>(length->get<double>()))
                                                  : std::nullopt;
}

void ReadSteps(const SettingsFile& file, TokenizerSettings* to) {
  const JsonFields fields = file.fields();
  to->add_begin = ReadFlag(fields, "add_bos_token");
  to->add_end = ReadFlag(fields, "add_eos_token");
  to->prefix_space = ReadFlag(fields, "add_prefix_space");
  to->prefix_space_is_null = file.json.contains("add_prefix_space") && !to->prefix_space;
  to->lower_case = ReadFlagOrNull(file, "do_lower_case");
  to->split_ideographs = ReadFlag(fields, "tokenize_chinese_chars");
  to->strip_accents = ReadFlag(fields, "strip_accents");
  to->legacy = ReadFlagOrNull(file, "legacy");
  to->clean_up = ReadFlag(fields, "clean_up_tokenization_spaces");
  to->clean_up_bpe = ReadFlag(fields, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output");
  to->separate_vocabularies = ReadFlag(fields, "separate_vocabs");
  to->model_max_length = ReadLength(fields);
  to->pads_left = ReadIsLeft(fields, "padding_side");
  to->truncates_left = ReadIsLeft(fields, "truncation_side");
  if (fields.Find("extra_ids") != nullptr) {
    to->extra_ids = fields.Number("extra_ids");
    Require(*to->extra_ids >= 0 && *to->extra_ids <= kMaxExtraIds, "{}: expected extra_ids from 0 to {}, got {}",
            fields.where(), kMaxExtraIds, *to->extra_ids);
  }
}

void RequireNeutral(const SettingsFile& file) {
  for (const NeutralKey& neutral : kNeutralTokenizerKeys) {
    const io::Json* value = file.fields().Find(neutral.key);
    Require(value == nullptr || *value == io::Json::parse(neutral.value),
            "{}: expected \"{}\": {}, got {}; other values are not supported: {}", file.where, neutral.key,
            neutral.value, value == nullptr ? "" : Clipped(*value), neutral.advice);
  }
}

std::string WithoutFast(std::string name) {
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

}  // namespace

std::string TokenizerSettings::TextOf(size_t index, std::string_view otherwise) const {
  if (!named[index].stated) return std::string(otherwise);
  return named[index].token ? named[index].token->token.content : std::string();
}

TokenizerSettings ReadTokenizerSettings(const fs::path& folder, bool has_json,
                                        const std::vector<std::pair<int64_t, AddedToken>>& json_tokens) {
  const SettingsFile file = ReadFileOf(folder, "tokenizer_config.json"), model = ReadFileOf(folder, "config.json");
  const JsonFields fields = file.fields();
  TokenizerSettings settings;
  settings.where = file.where;
  settings.found = file.found || model.found;
  // Other libraries' config.json may have anything under these keys.
  const auto text_of_model = [&](std::string_view key) {
    const io::Json* value = model.fields().Find(key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  };
  settings.model_type = text_of_model("model_type");
  settings.tokenizer_class = WithoutFast(fields.Text("tokenizer_class", text_of_model("tokenizer_class")));
  RequireNeutral(file);
  ReadSteps(file, &settings);
  if (has_json) settings.add_begin = settings.add_end = std::nullopt;
  ReadNamed(file, /*always_special=*/false, &settings);
  OtherNamed other_named(&settings);
  ReadOtherNamed(file, /*always_special=*/false, &other_named);
  ReadExtra(file, &settings);
  if (fields.Find("added_tokens_decoder") != nullptr) {
    settings.stored = ReadDecoder(file);
  } else {
    ReadSpecialTokensMap(ReadFileOf(folder, "special_tokens_map.json"), &other_named, &settings);
    settings.stored = ReadOlderTokens(ReadFileOf(folder, "added_tokens.json"), json_tokens, settings);
  }
  return settings;
}

}  // namespace qkv::text
