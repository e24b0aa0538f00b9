// Writes a trained BPE as tokenizer.json and tokenizer_config.json.
#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/text/bpe_trainer.h"

namespace qkv::text {
namespace {

using Ordered = nlohmann::ordered_json;

int64_t IdOfRole(const TrainedBpe& bpe, const std::string& token) {
  const auto end = bpe.tokens.begin() + bpe.special_tokens;
  const auto found = std::find(bpe.tokens.begin(), end, token);
  Require(found != end, "tokenizer.json: expected \"{}\" to be one of the special tokens", token);
  return found - bpe.tokens.begin();
}

Ordered Template(const TrainedBpe& bpe, const BpeRoles& roles) {
  Ordered single = Ordered::array(), pair = Ordered::array(), special = Ordered::object();
  const auto add_special = [&](const std::string& token, int type) {
    const Ordered item = {{"SpecialToken", {{"id", token}, {"type_id", type}}}};
    if (type == 0) single.push_back(item);
    pair.push_back(item);
    special[token] = {
        {"id", token}, {"ids", Ordered::array({IdOfRole(bpe, token)})}, {"tokens", Ordered::array({token})}};
  };
  for (const int type : {0, 1}) {
    const Ordered text = {{"Sequence", {{"id", type == 0 ? "A" : "B"}, {"type_id", type}}}};
    if (roles.add_begin) add_special(roles.begin, type);
    if (type == 0) single.push_back(text);
    pair.push_back(text);
    if (roles.add_end) add_special(roles.end, type);
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

}  // namespace

std::string TokenizerJson(const TrainedBpe& bpe, const BpeRoles& roles) {
  for (const std::string* role : {&roles.begin, &roles.end, &roles.padding, &roles.unknown}) {
    if (!role->empty()) IdOfRole(bpe, *role);
  }
  Require(!(roles.add_begin && roles.begin.empty()) && !(roles.add_end && roles.end.empty()),
          "tokenizer.json: expected a token for the begin or end that each text gets");
  const Ordered byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", bpe.add_prefix_space}, {"trim_offsets", true}, {"use_regex", true}};
  Ordered added = Ordered::array(), vocabulary = Ordered::object(), merges = Ordered::array();
  for (size_t id = 0; id < bpe.tokens.size(); ++id) {
    vocabulary.get_ref<Ordered::object_t&>().emplace_back(bpe.tokens[id], id);  // without a search
    if (static_cast<int64_t>(id) >= bpe.special_tokens) continue;
    added.push_back({{"id", id},
                     {"content", bpe.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  for (const auto& [left, right] : bpe.merges) {
    merges.push_back(Ordered::array({bpe.tokens[static_cast<size_t>(left)], bpe.tokens[static_cast<size_t>(right)]}));
  }
  const Ordered model = {{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"ignore_merges", false},
                         {"vocab", std::move(vocabulary)},
                         {"merges", std::move(merges)}};
  const bool has_template = roles.add_begin || roles.add_end;
  const Ordered json = {{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", std::move(added)},
                        {"normalizer", nullptr},
                        {"pre_tokenizer", byte_level},
                        {"post_processor", has_template ? Template(bpe, roles) : byte_level},
                        {"decoder", byte_level},
                        {"model", std::move(model)}};
  return json.dump() + "\n";
}

std::string TokenizerConfigJson(const BpeRoles& roles) {
  Ordered json = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  const auto set = [&](const char* key, const std::string& token) {
    if (!token.empty()) json[key] = token;
  };
  set("bos_token", roles.begin);
  set("eos_token", roles.end);
  set("pad_token", roles.padding);
  set("unk_token", roles.unknown);
  if (roles.model_max_length) json["model_max_length"] = *roles.model_max_length;
  return json.dump(2) + "\n";
}

void WriteTokenizer(const TrainedBpe& bpe, const BpeRoles& roles, const std::filesystem::path& folder) {
  WriteFile(folder / "tokenizer.json", TokenizerJson(bpe, roles));
  WriteFile(folder / "tokenizer_config.json", TokenizerConfigJson(roles));
}

}  // namespace qkv::text
