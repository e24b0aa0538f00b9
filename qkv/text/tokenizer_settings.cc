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
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {
namespace {

namespace fs = std::filesystem;

// Larger ones mean "none": transformers writes 10³⁰.
constexpr double kMaxModelLength = 1e9;
constexpr int64_t kMaxExtraIds = 100'000;

// An object of a folder, empty if there is no such file.
class SettingsFile {
 public:
  SettingsFile(const fs::path& folder, std::string_view name)
      : found_(FileExists(folder / name)),
        json_(found_ ? io::ReadJson(folder / name) : io::Json::object()),
        fields_(json_, (folder / name).native()) {}
  SettingsFile(const SettingsFile&) = delete;  // fields refer to the object
  SettingsFile& operator=(const SettingsFile&) = delete;

  bool found() const { return found_; }
  const io::Fields& fields() const { return fields_; }

 private:
  bool found_;
  io::Json json_;
  io::Fields fields_;
};

std::string Clipped(const io::Json& value) { return value.dump().substr(0, 100); }

// The token under a key, or one of them. `always_special`: as special_tokens_map.json counts a token with fields.
StatedToken ReadStated(const io::Fields& fields, std::string_view key, const io::Json& value, bool always_special) {
  if (value.is_string()) return {.token = {.content = value.get<std::string>(), .special = true}};
  Require(value.is_object(), "{}: expected a token or an object with \"content\" for \"{}\", got {}", fields.where(),
          key, Clipped(value));
  const io::Fields inner = &value == fields.Find(key) ? fields.Object(key) : fields.Item(key, value);
  AddedToken token = ReadAddedToken(inner, always_special);
  if (always_special) token.special = true, token.normalized = inner.Bool("normalized", false);
  return {.token = std::move(token), .flags = true};
}

std::vector<StatedToken> ReadTokens(const io::Fields& fields, std::string_view key, bool always_special) {
  std::vector<StatedToken> tokens;
  for (const io::Json& value : fields.List(key)) tokens.push_back(ReadStated(fields, key, value, always_special));
  return tokens;
}

void ReadNamed(const io::Fields& fields, bool always_special, TokenizerSettings* to) {
  for (size_t i = 0; i < kNamedTokens.size(); ++i) {
    const std::string_view key = kNamedTokens[i];
    if (!fields.json().contains(key)) continue;
    to->named[i] = {.stated = true};
    const io::Json* value = fields.Find(key);
    if (value == nullptr) continue;
    StatedToken token = ReadStated(fields, key, *value, always_special);
    // It becomes special, which unsets a "normalized" that is not stated.
    if (token.flags && !value->contains("normalized")) token.token.normalized = false;
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

// A model's own tokens by their keys; a later one replaces an earlier one in its place.
class TokensByKey {
 public:
  void Add(const std::string& key, StatedToken token) {
    const auto [place, is_new] = places_.try_emplace(key, tokens_.size());
    if (is_new) {
      tokens_.emplace_back(key, std::move(token));
    } else {
      tokens_[place->second].second = std::move(token);
    }
  }
  void Add(const TokensByKey& other) {
    for (const auto& [key, token] : other.tokens_) Add(key, token);
  }
  const std::vector<std::pair<std::string, StatedToken>>& tokens() const { return tokens_; }

 private:
  std::vector<std::pair<std::string, StatedToken>> tokens_;
  std::unordered_map<std::string, size_t> places_;
};

// Tokens of a model's own: of keys such as "image_token" that a class finds by itself, and before it those that objects
// and keys with plain texts hand to it, in the order of transformers.
struct OwnTokens {
  TokensByKey found, handed;
};

constexpr std::string_view kExtra = "extra_special_tokens", kOlderExtra = "additional_special_tokens",
                           kModelSpecific = "model_specific_special_tokens";

void ReadOwnKeys(const io::Fields& fields, bool always_special, OwnTokens* to) {
  const auto is_own = [](std::string_view key) {
    return key.ends_with("_token") && std::ranges::find(kNamedTokens, key) == kNamedTokens.end();
  };
  for (const std::string& key : KeysInOrder(fields.where(), "")) {
    const io::Json& value = fields.json()[key];
    // add_bos_token is none.
    if (!is_own(key) || !(value.is_string() || value.is_object())) continue;
    TokensByKey& tokens = value.is_string() && !always_special ? to->handed : to->found;
    tokens.Add(key, ReadStated(fields, key, fields.Value(key), always_special));
  }
}

// The tokens of an object under a key.
void ReadOwnObject(const io::Fields& fields, std::string_view key, bool always_special, OwnTokens* to) {
  const io::Json& object = fields.Value(key);
  for (const std::string& name : KeysInOrder(fields.where(), key)) {
    to->handed.Add(name, ReadStated(fields, key, object[name], always_special));
  }
}

// extra_special_tokens, in the place of which its older name counts where it is empty. A list is the extra tokens, an
// object are a model's own, beside which a list under the older name counts, too.
void ReadExtra(const io::Fields& fields, OwnTokens* own, TokenizerSettings* to) {
  const io::Json* const older = fields.Find(kOlderExtra);
  const io::Json* const extra = fields.Find(kExtra);
  const bool is_older = fields.json().contains(kOlderExtra) && (extra == nullptr || extra->empty());
  const std::string_view key = is_older ? kOlderExtra : kExtra;
  const io::Json* const value = is_older ? older : extra;
  if (value != nullptr && value->is_object()) {
    ReadOwnObject(fields, key, false, own);
  } else if (fields.json().contains(key)) {
    to->extra.emplace();
    if (value != nullptr) to->extra = ReadTokens(fields, key, false);
  }
  if (!is_older && older != nullptr) to->additional = ReadTokens(fields, kOlderExtra, false);
  if (own->handed.tokens().empty() && fields.Has(kModelSpecific)) {
    const io::Fields object = fields.Object(kModelSpecific);
    ReadOwnObject(fields, kModelSpecific, false, own);
  }
}

std::vector<std::pair<int64_t, AddedToken>> ReadDecoder(const io::Fields& fields) {
  constexpr std::string_view kKey = "added_tokens_decoder";
  std::vector<std::pair<int64_t, AddedToken>> tokens;
  const io::Fields decoder = fields.Object(kKey);
  for (const auto& [number, token] : decoder.json().items()) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
    Require(error == std::errc() && end == number.data() + number.size() && id >= 0, "{}: expected ids, got \"{}\"",
            decoder.where(), number.substr(0, 100));
    tokens.emplace_back(id, ReadAddedToken(fields.Item(kKey, token), false));
  }
  std::ranges::stable_sort(tokens, {}, &std::pair<int64_t, AddedToken>::first);
  return tokens;
}

// added_tokens.json, and over it tokenizer.json's.
std::vector<std::pair<int64_t, AddedToken>> ReadOlderTokens(
    const io::Fields& fields, const std::vector<std::pair<int64_t, AddedToken>>& json_tokens,
    const TokenizerSettings& settings) {
  std::unordered_set<std::string> special_texts;
  for (const NamedToken& named : settings.named) {
    if (named.token) special_texts.insert(named.token->token.content);
  }
  if (settings.extra) {
    for (const StatedToken& token : *settings.extra) special_texts.insert(token.token.content);
  }
  std::map<int64_t, AddedToken> tokens;
  for (const auto& [content, id] : fields.json().items()) {
    Require(id.is_number_integer() && id.get<int64_t>() >= 0, "{}: expected an id of \"{}\", got {}", fields.where(),
            content.substr(0, 100), Clipped(id));
    const bool special = special_texts.contains(content);
    tokens[id.get<int64_t>()] = {.content = content, .normalized = !special, .special = special};
  }
  for (const auto& [id, token] : json_tokens) tokens[id] = token;
  return {tokens.begin(), tokens.end()};
}

// A missing key keeps the value of another file; null unsets it.
void ReadFlag(const io::Fields& fields, std::string_view key, std::optional<bool>* to) {
  if (!fields.json().contains(key)) return;
  to->reset();
  if (fields.Has(key)) *to = fields.Bool(key, false);
}

// Where null is no default but false, as Python has it.
void ReadFlagOrNull(const io::Fields& fields, std::string_view key, std::optional<bool>* to) {
  if (fields.json().contains(key)) *to = fields.Bool(key, false);
}

void ReadIsLeft(const io::Fields& fields, std::string_view key, std::optional<bool>* to) {
  if (!fields.Has(key)) return;
  const std::string side = fields.String(key, "");
  Require(side == "left" || side == "right", "{}: expected \"left\" or \"right\" for \"{}\", got \"{}\"",
          fields.where(), key, side.substr(0, 100));
  *to = side == "left";
}

void ReadLength(const io::Fields& fields, std::optional<int64_t>* to) {
  // null is stated, too.
  const std::string_view key = fields.json().contains("model_max_length") ? "model_max_length" : "max_len";
  const io::Json* length = fields.Find(key);
  if (length == nullptr) return;
  Require(length->is_number() && length->get<double>() >= 1, "{}: expected a length from 1 for \"{}\", got {}",
          fields.where(), key, Clipped(*length));
  to->reset();
  if (length->get<double>() <= kMaxModelLength) *to = static_cast<int64_t>(length->get<double>());
}

void ReadSteps(const io::Fields& fields, TokenizerSettings* to) {
  ReadFlag(fields, "add_bos_token", &to->add_begin);
  ReadFlag(fields, "add_eos_token", &to->add_end);
  ReadFlag(fields, "add_prefix_space", &to->prefix_space);
  if (fields.json().contains("add_prefix_space")) to->prefix_space_is_null = !to->prefix_space;
  ReadFlagOrNull(fields, "do_lower_case", &to->lower_case);
  ReadFlag(fields, "tokenize_chinese_chars", &to->split_ideographs);
  ReadFlag(fields, "strip_accents", &to->strip_accents);
  ReadFlagOrNull(fields, "legacy", &to->legacy);
  ReadFlag(fields, "clean_up_tokenization_spaces", &to->clean_up);
  ReadFlag(fields, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", &to->clean_up_bpe);
  ReadFlag(fields, "separate_vocabs", &to->separate_vocabularies);
  ReadLength(fields, &to->model_max_length);
  ReadIsLeft(fields, "padding_side", &to->pads_left);
  ReadIsLeft(fields, "truncation_side", &to->truncates_left);
  if (!fields.Has("extra_ids")) return;
  to->extra_ids = fields.Int("extra_ids", 0);
  Require(*to->extra_ids >= 0 && *to->extra_ids <= kMaxExtraIds, "{}: expected extra_ids from 0 to {}, got {}",
          fields.where(), kMaxExtraIds, *to->extra_ids);
}

// Tokens from special_tokens_map.json if there is no added_tokens_decoder; its keys, which may be any, replace the
// others.
void ReadSpecialTokensMap(const io::Fields& fields, OwnTokens* own, TokenizerSettings* to) {
  ReadSteps(fields, to);
  ReadNamed(fields, /*always_special=*/true, to);
  ReadOwnKeys(fields, /*always_special=*/true, own);
  Require(!fields.json().contains(kModelSpecific), "{}: \"{}\" is a key of tokenizer_config.json; put it there",
          fields.where(), kModelSpecific);
  if (fields.json().contains(kOlderExtra)) to->additional.reset();
  if (fields.Has(kOlderExtra)) to->additional = ReadTokens(fields, kOlderExtra, true);
  const io::Json* extra = fields.Find(kExtra);
  if (extra != nullptr && extra->is_object()) {
    to->extra.reset();
    ReadOwnObject(fields, kExtra, /*always_special=*/true, own);
    return;
  }
  if (extra == nullptr) return;
  if (!to->extra) to->extra.emplace();
  StatedTokenSet there(to->extra->begin(), to->extra->end());
  for (StatedToken& token : ReadTokens(fields, kExtra, true)) {
    if (there.insert(token).second) to->extra->push_back(std::move(token));
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
  const SettingsFile file(folder, "tokenizer_config.json"), model(folder, "config.json");
  const io::Fields& fields = file.fields();
  TokenizerSettings settings;
  settings.where = fields.where();
  settings.found = file.found() || model.found();
  // Other libraries' config.json may have anything under these keys.
  const auto text_of_model = [&](std::string_view key) {
    const io::Json& value = model.fields().Value(key);
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  settings.model_type = text_of_model("model_type");
  settings.tokenizer_class = WithoutFast(fields.String("tokenizer_class", text_of_model("tokenizer_class")));
  ReadSteps(fields, &settings);
  if (has_json) settings.add_begin = settings.add_end = std::nullopt;
  ReadNamed(fields, /*always_special=*/false, &settings);
  OwnTokens own;
  ReadOwnKeys(fields, /*always_special=*/false, &own);
  ReadExtra(fields, &own, &settings);
  if (fields.Has("added_tokens_decoder")) {
    settings.stored = ReadDecoder(fields);
  } else {
    const SettingsFile map(folder, "special_tokens_map.json"), added(folder, "added_tokens.json");
    ReadSpecialTokensMap(map.fields(), &own, &settings);
    settings.stored = ReadOlderTokens(added.fields(), json_tokens, settings);
    settings.settings = map.fields().Settle({kTokenizerKeys});
  }
  own.found.Add(own.handed);
  settings.other_named = own.found.tokens();
  std::vector<io::Setting> settled = fields.Settle({kTokenizerKeys});
  settings.settings.insert(settings.settings.begin(), std::make_move_iterator(settled.begin()),
                           std::make_move_iterator(settled.end()));
  return settings;
}

}  // namespace qkv::text
