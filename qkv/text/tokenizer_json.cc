// Reads Hugging Face's tokenizer.json: the parts of its pipeline, each by its "type". Unknown parts are refused by
// name. The fields of the steps are in tokenizer_json_steps.cc.
#include <algorithm>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/text/bpe.h"
#include "qkv/text/tokenizer_class.h"
#include "qkv/text/tokenizer_json_steps.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/unicode.h"
#include "qkv/text/unigram.h"
#include "qkv/text/wordpiece.h"

namespace qkv::text {
namespace {

// `model` has the vocabulary, `options` the rest.
std::unique_ptr<SubwordModel> ReadBpe(const io::Fields& model, const io::Fields& options) {
  Require(options.Number("dropout", 0) == 0, "{}: \"dropout\" is {}, expected none: it draws at random",
          options.where(), options.Value("dropout").dump());
  BpeConfig config;
  config.unknown = options.String("unk_token", "");
  config.continuing_prefix = options.String("continuing_subword_prefix", "");
  config.end_suffix = options.String("end_of_word_suffix", "");
  config.fuse_unknown = options.Bool("fuse_unk", false);
  config.byte_fallback = options.Bool("byte_fallback", false);
  config.ignore_merges = options.Bool("ignore_merges", false);
  const io::Json& merges = model.List("merges");
  auto bpe = std::make_unique<BpeModel>(ReadVocabulary(model.Required("vocab"), model.where()), std::move(config),
                                        model.where());
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

std::unique_ptr<SubwordModel> ReadUnigram(const io::Fields& model, const io::Fields& options) {
  std::vector<UnigramPiece> pieces;
  for (const io::Json& entry : model.List("vocab")) {
    Require(entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(),
            "{}: expected a vocabulary of pieces with scores, got {}", model.where(), entry.dump().substr(0, 100));
    pieces.push_back({entry[0].get<std::string>(), entry[1].get<double>()});
  }
  UnigramConfig config;
  const int64_t unknown = options.Int("unk_id", -1);
  Require(unknown >= -1 && unknown < static_cast<int64_t>(pieces.size()),
          "{}: expected an unk_id below {} pieces, got {}", options.where(), pieces.size(), unknown);
  config.unknown = static_cast<int32_t>(unknown);
  config.byte_fallback = options.Bool("byte_fallback", false);
  return std::make_unique<UnigramModel>(std::move(pieces), config, model.where());
}

std::unique_ptr<SubwordModel> ReadWordPiece(const io::Fields& model, const io::Fields& options) {
  WordPieceConfig config;
  config.unknown = options.String("unk_token", config.unknown);
  config.continuing_prefix = options.String("continuing_subword_prefix", config.continuing_prefix);
  config.max_characters = options.Int("max_input_chars_per_word", config.max_characters);
  return std::make_unique<WordPieceModel>(ReadVocabulary(model.Required("vocab"), model.where()), std::move(config),
                                          model.where());
}

std::unique_ptr<SubwordModel> ReadModel(const io::Fields& model, const io::Fields& options, std::string* name) {
  *name = ModelTypeOf(options);
  if (*name == "BPE") return ReadBpe(model, options);
  if (*name == "Unigram") return ReadUnigram(model, options);
  if (*name == "WordPiece") return ReadWordPiece(model, options);
  Fail("{}: expected a model of type BPE, Unigram or WordPiece, got \"{}\"", model.where(), *name);
}

// One of two words; the original refuses others.
bool IsLeft(const io::Fields& fields) {
  const std::string side = fields.String("direction", "Right");
  Require(side == "Left" || side == "Right", "{}: \"direction\" is {}, expected \"Left\" or \"Right\"", fields.where(),
          io::Quoted(side));
  return side == "Left";
}

void ReadTruncation(const io::Fields& fields, TokenizerParts* parts) {
  TruncationSettings truncation;
  truncation.max_length = fields.RequiredInt("max_length");
  Require(truncation.max_length >= 0, "{}: expected a max_length from 0, got {}", fields.where(),
          truncation.max_length);
  truncation.left = IsLeft(fields);
  parts->truncation = truncation;
}

void ReadPadding(const io::Fields& fields, TokenizerParts* parts) {
  PaddingSettings padding;
  const io::Json& strategy = fields.Value("strategy");
  if (strategy.is_object()) {
    padding.fixed = fields.Object("strategy").RequiredInt("Fixed");
    Require(*padding.fixed >= 0 && *padding.fixed <= kMaxPaddedLength, "{}: expected padding to 0 … {}, got {}",
            fields.where(), kMaxPaddedLength, *padding.fixed);
  } else {
    const std::string name = fields.String("strategy", "BatchLongest");
    Require(name == "BatchLongest", R"({}: "strategy" is {}, expected "BatchLongest" or {{"Fixed": LENGTH}})",
            fields.where(), io::Quoted(name));
  }
  padding.multiple = fields.Int("pad_to_multiple_of", 0);
  Require(padding.multiple >= 0 && padding.multiple <= kMaxPaddedLength,
          "{}: expected pad_to_multiple_of from 0 to {}, got {}", fields.where(), kMaxPaddedLength, padding.multiple);
  padding.left = IsLeft(fields);
  const int64_t id = fields.Int("pad_id", 0);
  Require(id >= 0 && id < std::numeric_limits<int32_t>::max(), "{}: expected a pad_id from 0 below 2³¹, got {}",
          fields.where(), id);
  padding.id = static_cast<int32_t>(id);
  parts->padding = padding;
}

}  // namespace

std::string ModelTypeOf(const io::Fields& model) {
  std::string type = model.String("type", "");
  if (!type.empty()) return type;
  return model.Has("merges")                     ? "BPE"
         : model.Has("unk_id")                   ? "Unigram"
         : model.Has("max_input_chars_per_word") ? "WordPiece"
                                                 : "";
}

AddedToken ReadAddedToken(const io::Fields& fields, bool special) {
  AddedToken token;
  token.content = fields.RequiredString("content");
  token.single_word = fields.Bool("single_word", false);
  token.lstrip = fields.Bool("lstrip", false);
  token.rstrip = fields.Bool("rstrip", false);
  token.special = fields.Bool("special", special);
  token.normalized = fields.Bool("normalized", !token.special);
  return token;
}

Vocabulary ReadVocabulary(const io::Json& json, std::string_view where) {
  Vocabulary vocabulary;
  Require(json.is_object(), "{}: \"vocab\" is {}, expected an object of tokens and ids", where, json.type_name());
  for (const auto& [token, id] : json.items()) {
    Require(id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < std::numeric_limits<int32_t>::max(),
            "{}: expected ids from 0 below 2³¹, got {} of \"{}\"", where, id.dump().substr(0, 100), token);
    vocabulary.Add(token, id.get<int32_t>());
  }
  vocabulary.Finish();
  return vocabulary;
}

TokenizerParts ReadTokenizerJson(const io::Fields& file, const io::Fields& steps) {
  Require(file.Has("model"), "{}: no tokenizer.json: it has no \"model\"", file.where());
  TokenizerParts parts;
  std::string name;
  parts.model = ReadModel(file.Object("model"), steps.Object("model"), &name);
  parts.description = name;
  if (steps.Has("normalizer")) ReadNormalizer(steps.Object("normalizer"), &parts.normalizers);
  if (steps.Has("pre_tokenizer")) ReadPreTokenizer(steps.Object("pre_tokenizer"), &parts.pre_tokenizers);
  if (steps.Has("added_tokens")) {
    for (const io::Json& entry : steps.List("added_tokens")) {
      AddToken(ReadAddedToken(steps.Item("added_tokens", entry), /*special=*/false), &parts);
    }
  }
  if (file.Has("post_processor")) ReadPostProcessor(file.Object("post_processor"), &parts);
  if (steps.Has("decoder")) ReadDecoder(steps.Object("decoder"), &parts.decoders);
  if (file.Has("truncation")) ReadTruncation(file.Object("truncation"), &parts);
  if (file.Has("padding")) ReadPadding(file.Object("padding"), &parts);
  return parts;
}

namespace {

// Keys that the tokenizers library knows; it refuses a file with others.
constexpr std::string_view kFileKeys[] = {"version",       "truncation", "padding",        "added_tokens", "normalizer",
                                          "pre_tokenizer", "model",      "post_processor", "decoder"};

// Read, or of no effect on ids and texts.
constexpr io::KnownKey kStepKeys[] = {
    {"version", "\"1.0\""},
    {"added_tokens.id"},  // tokens get the next ids, in their order
    {"truncation.strategy", "\"LongestFirst\"|\"OnlyFirst\"", "a text stands alone here"},
    {"truncation.stride"},
    {"padding.pad_type_id"},
    {"padding.pad_token"},
    // Offsets, types of tokens and pairs of texts
    {"trim_offsets"},
    {"type_id"},
    {"pair"},
    // Decoders and post-processors have those of their pre-tokenizer, and Metaspace both names of one setting.
    {"add_prefix_space"},
    {"use_regex"},
    {"split"},
    {"prepend_scheme"},
    {"str_rep"},
};
// A class with steps of its own does not read these.
constexpr io::KnownKey kRebuiltKeys[] = {{"added_tokens"},        {"normalizer"},
                                         {"pre_tokenizer"},       {"decoder"},
                                         {"model.type"},          {"model.dropout"},
                                         {"model.unk_token"},     {"model.continuing_subword_prefix"},
                                         {"model.fuse_unk"},      {"model.end_of_word_suffix"},
                                         {"model.unk_id"},        {"model.byte_fallback"},
                                         {"model.ignore_merges"}, {"model.max_input_chars_per_word"},
                                         {"model.merges"}};

}  // namespace

std::vector<io::Setting> SettleTokenizerJson(const io::Fields& file, bool is_rebuilt) {
  for (const auto& [key, value] : file.json().items()) {
    Require(std::ranges::find(kFileKeys, key) != std::end(kFileKeys),
            "{}: {} is no key of a tokenizer.json, which the tokenizers library refuses, too; remove it", file.where(),
            io::Quoted(key));
  }
  if (is_rebuilt) return file.Settle({kStepKeys, kRebuiltKeys});
  return file.Settle({kStepKeys});
}

}  // namespace qkv::text
