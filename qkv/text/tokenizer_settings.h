// The files beside a tokenizer that change its behaviour: tokenizer_config.json, special_tokens_map.json and
// added_tokens.json, and the two keys of config.json that choose its class.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/text/added_tokens.h"

namespace qkv::text {

/// The tokens that every class of transformers may have, in the order in which it adds them.
inline constexpr std::array<std::string_view, 7> kNamedTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                                 "pad_token", "cls_token", "mask_token"};
enum NamedTokenIndex : size_t { kBegin, kEnd, kUnknown, kSeparate, kPadding, kClassify, kMask };

/// Keys of tokenizer_config.json and special_tokens_map.json that are not read, or not always.
inline constexpr io::KnownKey kTokenizerKeys[] = {
    {"_name_or_path"},
    {"added_tokens_decoder"},
    {"auto_map"},
    {"backend"},
    {"chat_control_tokens"},
    {"chat_template"},
    {"device_map"},
    {"do_basic_tokenize"},
    {"errors"},
    {"files_loaded"},
    {"from_slow"},
    {"image_processor_type"},
    {"is_local"},
    {"keep_accents"},
    {"language"},
    {"local_files_only"},
    {"max_len"},
    {"max_length"},
    {"merges_file"},
    {"model_input_names"},
    {"name_or_path"},
    {"never_split"},
    {"pad_to_multiple_of"},
    {"pad_token_type_id"},
    {"processor_class"},
    {"remove_space"},
    {"response_schema"},
    {"response_template"},
    {"revision"},
    {"source_lang"},
    {"spaces_between_special_tokens"},
    {"special_tokens_map_file"},
    {"stride"},
    {"target_lang"},
    {"target_vocab_file"},
    {"tokenizer_class"},
    {"tokenizer_file"},
    {"torch_dtype"},
    {"trim_offsets"},
    {"truncation_strategy"},
    {"trust_remote_code"},
    {"use_default_system_prompt"},
    {"use_fast"},
    {"verbose"},
    {"vocab_file"},
    {"split_special_tokens", "false", "special tokens are found in texts, always"},
    {"init_inputs", "[]", "settings have names"},
    {"sp_model_kwargs", "{}", "sampling of pieces is not done"},
    {"fix_mistral_regex", "false", "write the pattern into tokenizer.json instead"},
    {"fast_tokenizer_files", "[\"tokenizer.json\"]", "rename the file that is meant to tokenizer.json"},
};

/// A token as a file states it: a text alone (`flags` unset), or with how it is searched for.
struct StatedToken {
  AddedToken token;  // of a text alone: special, found in the text as it is
  bool flags = false;
  bool by_class = false;  // no file states it

  bool operator==(const StatedToken&) const = default;
};

/// Tokens that differ in content or in how they are searched for.
struct HashOfContent {
  size_t operator()(const StatedToken& token) const { return std::hash<std::string>()(token.token.content); }
};
using StatedTokenSet = std::unordered_set<StatedToken, HashOfContent>;

/// A key that may be missing, null or a token.
struct NamedToken {
  bool stated = false;
  std::optional<StatedToken> token;
};

/// The content of the files, by the rule of tokenizer_class.h. Unset: the key is missing or null.
struct TokenizerSettings {
  std::string where;            // the file, for errors
  bool found = false;           // there is a file of settings, or a config.json
  std::string tokenizer_class;  // without "Fast"
  std::string model_type;       // of config.json
  std::array<NamedToken, kNamedTokens.size()> named;
  std::vector<std::pair<std::string, StatedToken>> other_named;  // "image_token", …
  std::vector<std::pair<int64_t, AddedToken>> stored;            // by id
  std::optional<std::vector<StatedToken>> extra;                 // extra_special_tokens, or its older name
  std::optional<std::vector<StatedToken>> additional;            // additional_special_tokens of special_tokens_map.json
  std::optional<bool> add_begin, add_end, prefix_space, lower_case, split_ideographs, strip_accents, legacy, clean_up,
      clean_up_bpe, separate_vocabularies;
  bool prefix_space_is_null = false;  // stated, which some classes take for false
  std::optional<int64_t> model_max_length, extra_ids;
  std::optional<bool> pads_left, truncates_left;
  std::vector<io::Setting> settings;  // what was done with each key

  /// The stated token of `index`, or else `otherwise`; empty for null, and if there is neither.
  std::string TextOf(size_t index, std::string_view otherwise) const;
};

/// Reads the files of a folder; missing files have no effect. `has_json`: a tokenizer.json counts, beside which
/// add_bos_token and add_eos_token have no effect, and whose added tokens `json_tokens` join the older files'. Throws
/// Error that names file, key and value for a wrong type, and for an unsupported setting unless it has its neutral
/// value.
TokenizerSettings ReadTokenizerSettings(const std::filesystem::path& folder, bool has_json,
                                        const std::vector<std::pair<int64_t, AddedToken>>& json_tokens);

}  // namespace qkv::text
