// Reads vocab.txt, the file of BERT's tokenizers before tokenizer.json. How text is split follows from
// tokenizer_config.json. As in transformers' BertTokenizer, do_basic_tokenize and never_split change nothing.
#include <algorithm>
#include <array>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/normalizers.h"
#include "qkv/text/pre_tokenizers.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/wordpiece.h"

namespace qkv::text {
namespace {

constexpr NamedToken kBertTokens[] = {{"bos_token", ""},       {"eos_token", ""},      {"unk_token", "[UNK]"},
                                      {"sep_token", "[SEP]"},  {"pad_token", "[PAD]"}, {"cls_token", "[CLS]"},
                                      {"mask_token", "[MASK]"}};
// Classes that transformers derives from BertTokenizer.
constexpr std::string_view kClasses[] = {
    "BertTokenizer", "DistilBert", "Electra",   "MobileBert",        "ConvBert",   "Lxmert",
    "SqueezeBert",   "DPR",        "RetriBert", "LayoutLMTokenizer", "PreTrained", "TokenizersBackend"};

// Without white space at its end.
std::string_view TrimEnd(std::string_view line) {
  while (!line.empty()) {
    const size_t begin = CharacterBefore(line, line.size());
    if (!IsSpace(CharacterAt(line, begin).code)) break;
    line = line.substr(0, begin);
  }
  return line;
}

// A token a line: a later one of the same text counts.
Vocabulary ReadLines(std::string_view text, std::string_view where) {
  Vocabulary vocabulary;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    Require(number < std::numeric_limits<int32_t>::max(), "{}: too many lines", where);
    Require(IsValidUtf8(line), "{}: expected a vocabulary in UTF-8, got line {}: {}", where, number + 1,
            Printable(line, 60));
    vocabulary.Add(TrimEnd(line), static_cast<int32_t>(number++));
  }
  Require(number > 0, "{}: expected a token a line, got none", where);
  vocabulary.Finish();
  return vocabulary;
}

void RequireBert(const io::Json& config, std::string_view where) {
  const std::string name = TokenContent(config, "tokenizer_class");
  Require(
      name.empty() || std::ranges::any_of(kClasses, [&](std::string_view known) { return name.starts_with(known); }),
      "{}: expected a tokenizer_class of BertTokenizer or one like it (DistilBertTokenizer, ElectraTokenizer, …) for "
      "vocab.txt, got \"{}\"; a tokenizer.json would say what it does",
      where, name);
}

}  // namespace

TokenizerParts ReadVocabTxt(std::string_view text, const io::Json& config, std::string_view where) {
  RequireBert(config, where);
  const io::Json settings = config.is_object() ? config : io::Json::object();
  const JsonFields fields(settings, std::string(where));
  const auto token = [&](size_t i) { return TokenOr(settings, kBertTokens[i].key, kBertTokens[i].otherwise); };

  TokenizerParts parts;
  parts.description = "WordPiece, BERT's";
  WordPieceConfig model;
  model.unknown = token(2);
  parts.model = std::make_unique<WordPieceModel>(ReadLines(text, where), std::move(model), std::string(where));
  BertNormalizerOptions options;
  options.lowercase = fields.Flag("do_lower_case", true);
  options.split_ideographs = fields.Flag("tokenize_chinese_chars", true);
  if (fields.Find("strip_accents") != nullptr) options.strip_accents = fields.Flag("strip_accents", false);
  parts.normalizers.push_back(Bert(options));
  parts.pre_tokenizers = {SplitAtSpace(), SplitPunctuation(SplitBehaviour::kIsolated)};
  parts.decoders.push_back(DecodeWordPiece("##", /*cleanup=*/true));

  AddConfiguredTokens(settings, kBertTokens, where, NewTokens::kAdd, &parts);
  parts.special.unknown = FindToken(parts, token(2));
  parts.special.separate = FindToken(parts, token(3));
  parts.special.padding = FindToken(parts, token(4));
  parts.special.classify = FindToken(parts, token(5));
  parts.special.mask = FindToken(parts, token(6));
  if (parts.special.padding) parts.padding_on_request.id = *parts.special.padding;
  parts.templates.push_back({{false, {*parts.special.classify}}, {true, {}}, {false, {*parts.special.separate}}});
  ApplyTokenizerConfig(settings, &parts);
  return parts;
}

}  // namespace qkv::text
