// Reads Hugging Face's tokenizer.json: the parts of its pipeline, each by its "type". What is not known is refused by
// name. The fields of the steps are in tokenizer_json_steps.cc.
#include <cmath>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/text/bpe.h"
#include "qkv/text/json_fields.h"
#include "qkv/text/tokenizer_class.h"
#include "qkv/text/tokenizer_json_steps.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/unicode.h"
#include "qkv/text/unigram.h"
#include "qkv/text/wordpiece.h"

namespace qkv::text {
namespace {

std::unique_ptr<SubwordModel> ReadBpe(const JsonFields& model) {
  const io::Json* dropout = model.Find("dropout");
  Require(dropout == nullptr || (dropout->is_number() && dropout->get<double>() == 0),
          "{}: expected no dropout, which draws at random, got {}", model.where(), dropout ? dropout->dump() : "");
  BpeConfig config;
  config.unknown = model.Text("unk_token", "");
  config.continuing_prefix = model.Text("continuing_subword_prefix", "");
  config.end_suffix = model.Text("end_of_word_suffix", "");
  config.fuse_unknown = model.Flag("fuse_unk", false);
  config.byte_fallback = model.Flag("byte_fallback", false);
  config.ignore_merges = model.Flag("ignore_merges", false);
  const io::Json& merges = model.List("merges");
  auto bpe = std::make_unique<BpeModel>(ReadVocabulary(model.Object("vocab"), model.where()), std::move(config),
                                        std::string(model.where()));
  for (const io::Json& merge : merges) {
    if (merge.is_string()) {
      const auto& pair = merge.get_ref<const std::string&>();
      const size_t space = pair.find(' ');
      Require(space != std::string::npos && pair.find(' ', space + 1) == std::string::npos,
              "{}: expected merges of two tokens, got \"{}\"", model.where(), pair);
      bpe->AddMerge(std::string_view(pair).substr(0, space), std::string_view(pair).substr(space + 1));
    } else {
      Require(merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
              "{}: expected merges of two tokens, got {}", model.where(), merge.dump().substr(0, 100));
      bpe->AddMerge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    }
  }
  bpe->Finish();
  return bpe;
}

std::unique_ptr<SubwordModel> ReadUnigram(const JsonFields& model) {
  std::vector<UnigramPiece> pieces;
  for (const io::Json& entry : model.List("vocab")) {
    Require(entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(),
            "{}: expected a vocabulary of pieces with scores, got {}", model.where(), entry.dump().substr(0, 100));
    pieces.push_back({entry[0].get<std::string>(), entry[1].get<double>()});
  }
  UnigramConfig config;
  const int64_t unknown = model.Number("unk_id", -1);
  Require(unknown >= -1 && unknown < static_cast<int64_t>(pieces.size()),
          "{}: expected an unk_id below {} pieces, got {}", model.where(), pieces.size(), unknown);
  config.unknown = static_cast<int32_t>(unknown);
  config.byte_fallback = model.Flag("byte_fallback", false);
  return std::make_unique<UnigramModel>(std::move(pieces), config, std::string(model.where()));
}

std::unique_ptr<SubwordModel> ReadWordPiece(const JsonFields& model) {
  WordPieceConfig config;
  config.unknown = model.Text("unk_token", config.unknown);
  config.continuing_prefix = model.Text("continuing_subword_prefix", config.continuing_prefix);
  config.max_characters = model.Number("max_input_chars_per_word", config.max_characters);
  return std::make_unique<WordPieceModel>(ReadVocabulary(model.Object("vocab"), model.where()), std::move(config),
                                          std::string(model.where()));
}

std::unique_ptr<SubwordModel> ReadModel(const JsonFields& model, std::string* name) {
  const std::string type = ModelTypeOf(model);
  *name = type;
  if (type == "BPE") return ReadBpe(model);
  if (type == "Unigram") return ReadUnigram(model);
  if (type == "WordPiece") return ReadWordPiece(model);
  Fail("{}: expected a model of type BPE, Unigram or WordPiece, got \"{}\"", model.where(), type);
}

void ReadAddedTokens(const io::Json& list, std::string_view where, TokenizerParts* parts) {
  Require(list.is_array(), "{}: expected a list of added_tokens", where);
  for (const io::Json& entry : list) {
    const JsonFields fields(entry, fmt::format("{}: added_tokens", where));
    AddToken(ReadAddedToken(fields, /*special=*/false), parts);
  }
}

void ReadTruncation(const JsonFields& fields, TokenizerParts* parts) {
  TruncationSettings truncation;
  truncation.max_length = fields.Number("max_length");
  Require(truncation.max_length >= 0, "{}: expected a max_length from 0, got {}", fields.where(),
          truncation.max_length);
  truncation.left = fields.Text("direction", "Right") == "Left";
  parts->truncation = truncation;
}

void ReadPadding(const JsonFields& fields, TokenizerParts* parts) {
  PaddingSettings padding;
  if (const io::Json* strategy = fields.Find("strategy"); strategy != nullptr && strategy->is_object()) {
    padding.fixed = JsonFields(*strategy, std::string(fields.where())).Number("Fixed");
    Require(*padding.fixed >= 0 && *padding.fixed <= kMaxPaddedLength, "{}: expected padding to 0 … {}, got {}",
            fields.where(), kMaxPaddedLength, *padding.fixed);
  }
  padding.multiple = fields.Number("pad_to_multiple_of", 0);
  Require(padding.multiple >= 0 && padding.multiple <= kMaxPaddedLength,
          "{}: expected pad_to_multiple_of from 0 to {}, got {}", fields.where(), kMaxPaddedLength, padding.multiple);
  padding.left = fields.Text("direction", "Right") == "Left";
  padding.id = fields.Id("pad_id", 0);
  parts->padding = padding;
}

}  // namespace

std::string ModelTypeOf(const JsonFields& model) {
  const std::string type = model.Text("type", "");
  if (!type.empty()) return type;
  return model.Find("merges") != nullptr                     ? "BPE"
         : model.Find("unk_id") != nullptr                   ? "Unigram"
         : model.Find("max_input_chars_per_word") != nullptr ? "WordPiece"
                                                             : "";
}

AddedToken ReadAddedToken(const JsonFields& fields, bool special) {
  AddedToken token;
  token.content = fields.Text("content");
  token.single_word = fields.Flag("single_word", false);
  token.lstrip = fields.Flag("lstrip", false);
  token.rstrip = fields.Flag("rstrip", false);
  token.special = fields.Flag("special", special);
  token.normalized = fields.Flag("normalized", !token.special);
  return token;
}

Vocabulary ReadVocabulary(const io::Json& json, std::string_view where) {
  Vocabulary vocabulary;
  for (const auto& [token, id] : json.items()) {
    Require(id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < std::numeric_limits<int32_t>::max(),
            "{}: expected ids from 0 below 2³¹, got {} of \"{}\"", where, id.dump().substr(0, 100), token);
    vocabulary.Add(token, id.get<int32_t>());
  }
  vocabulary.Finish();
  return vocabulary;
}

TokenizerParts ReadTokenizerJson(const io::Json& json, std::string_view where) {
  const JsonFields file(json, std::string(where));
  TokenizerParts parts;
  const auto step = [&](std::string_view key) -> std::optional<JsonFields> {
    const io::Json* found = file.Find(key);
    if (found == nullptr) return std::nullopt;
    return JsonFields(*found, fmt::format("{}: {}", where, key));
  };
  const std::optional<JsonFields> model = step("model");
  Require(model.has_value(), "{}: no tokenizer.json: it has no \"model\"", where);
  std::string name;
  parts.model = ReadModel(*model, &name);
  parts.description = name;
  if (const auto fields = step("normalizer")) ReadNormalizer(*fields, &parts.normalizers);
  if (const auto fields = step("pre_tokenizer")) ReadPreTokenizer(*fields, &parts.pre_tokenizers);
  if (const io::Json* added = file.Find("added_tokens")) ReadAddedTokens(*added, where, &parts);
  if (const auto fields = step("post_processor")) ReadPostProcessor(*fields, &parts);
  if (const auto fields = step("decoder")) ReadDecoder(*fields, &parts.decoders);
  if (const auto fields = step("truncation")) ReadTruncation(*fields, &parts);
  if (const auto fields = step("padding")) ReadPadding(*fields, &parts);
  return parts;
}

}  // namespace qkv::text
