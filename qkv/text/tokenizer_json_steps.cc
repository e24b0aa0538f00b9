#include "qkv/text/tokenizer_json_steps.h"

#include <string>

#include "qkv/text/charsmap.h"
#include "qkv/text/normalizers.h"
#include "qkv/text/pre_tokenizers.h"
#include "qkv/text/word_start.h"

namespace qkv::text {
namespace {

// A Sequence may contain others; the parser bounds how deep, this how many in all.
constexpr size_t kMaxSteps = 1000;
// Limit of a text that a decoder searches for, which may be compared at every byte of a token.
constexpr size_t kMaxDecoderText = 256;

template <typename Steps, typename F>
void ReadSequence(const io::Fields& step, std::string_view key, Steps* to, F&& read) {
  for (const io::Json& entry : step.List(key)) {
    Require(to->size() < kMaxSteps, "{}: expected at most {} steps", step.where(), kMaxSteps);
    read(step.Item(key, entry), to);
  }
}

[[noreturn]] void FailUnknown(const io::Fields& step, std::string_view type, std::string_view known) {
  Fail("{}: expected a type of {}, got \"{}\"", step.where(), known, type);
}

// {"String": text} or {"Regex": pattern}.
Regex ReadPattern(const io::Fields& step) {
  const io::Fields pattern = step.Object("pattern");
  if (pattern.Has("String")) return Regex(EscapeRegex(pattern.RequiredString("String")), step.where());
  return Regex(pattern.RequiredString("Regex"), step.where());
}

std::string ReadDecoderText(const io::Fields& step, std::string_view key, std::string_view otherwise) {
  std::string text = step.String(key, std::string(otherwise));
  Require(text.size() <= kMaxDecoderText, "{}: expected a \"{}\" of at most {} bytes, got {}", step.where(), key,
          kMaxDecoderText, text.size());
  return text;
}

SplitBehaviour ReadBehaviour(const io::Fields& step) {
  const std::string name = step.String("behavior", "Isolated");
  if (name == "Removed") return SplitBehaviour::kRemoved;
  if (name == "Isolated") return SplitBehaviour::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehaviour::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehaviour::kMergedWithNext;
  if (name == "Contiguous") return SplitBehaviour::kContiguous;
  Fail("{}: expected a behavior of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous, got \"{}\"",
       step.where(), name);
}

MetaspacePrefix ReadPrefix(const io::Fields& step) {
  const std::string name = step.String("prepend_scheme", "");
  if (name == "always") return MetaspacePrefix::kAlways;
  if (name == "first") return MetaspacePrefix::kFirst;
  if (name == "never") return MetaspacePrefix::kNever;
  Require(name.empty(), "{}: expected a prepend_scheme of always, first, never, got \"{}\"", step.where(), name);
  return step.Bool("add_prefix_space", true) ? MetaspacePrefix::kAlways : MetaspacePrefix::kNever;
}

// [token, id] of RobertaProcessing and BertProcessing.
int32_t ReadPairId(const io::Fields& step, std::string_view key) {
  const io::Json& pair = step.List(key);
  Require(pair.size() == 2 && pair[1].is_number_integer() && pair[1].get<int64_t>() >= 0 &&
              pair[1].get<int64_t>() < std::numeric_limits<int32_t>::max(),
          "{}: expected a token and its id for \"{}\", got {}", step.where(), key, pair.dump().substr(0, 100));
  return pair[1].get<int32_t>();
}

std::vector<TemplateItem> ReadTemplate(const io::Fields& step) {
  std::vector<TemplateItem> items;
  int texts = 0;
  const io::Json& special = step.Required("special_tokens");
  for (const io::Json& entry : step.List("single")) {
    const io::Fields fields = step.Item("single", entry);
    if (fields.Has("Sequence")) {
      const std::string id = fields.Object("Sequence").String("id", "A");
      Require(id == "A", "{}: expected sequence A in the template of a single text, got \"{}\"", step.where(), id);
      Require(++texts <= 1, "{}: expected the text once in its template", step.where());
      items.push_back({true, {}});
      continue;
    }
    const std::string name = fields.Object("SpecialToken").RequiredString("id");
    Require(special.is_object() && special.contains(name), "{}: expected \"special_tokens\" to have \"{}\"",
            step.where(), name);
    const io::Fields of(special[name], step.where());
    TemplateItem item;
    for (const io::Json& id : of.List("ids")) {
      Require(id.is_number_integer() && id.get<int64_t>() >= 0 &&
                  id.get<int64_t>() < std::numeric_limits<int32_t>::max() && item.ids.size() < kMaxSteps,
              "{}: expected ids of special token \"{}\", got {}", step.where(), name, id.dump().substr(0, 100));
      item.ids.push_back(id.get<int32_t>());
    }
    Require(items.size() < kMaxSteps, "{}: expected a template of at most {} tokens", step.where(), kMaxSteps);
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

void ReadNormalizer(const io::Fields& step, std::vector<Normalizer>* to) {
  const std::string type = step.RequiredString("type");
  if (type == "Sequence") {
    ReadSequence(step, "normalizers", to, ReadNormalizer);
  } else if (type == "NFC") {
    to->push_back(UnicodeForm(NormalForm::kNfc));
  } else if (type == "NFD") {
    to->push_back(UnicodeForm(NormalForm::kNfd));
  } else if (type == "NFKC") {
    to->push_back(UnicodeForm(NormalForm::kNfkc));
  } else if (type == "NFKD") {
    to->push_back(UnicodeForm(NormalForm::kNfkd));
  } else if (type == "Lowercase") {
    to->push_back(LowerCase());
  } else if (type == "Strip") {
    to->push_back(Strip(step.Bool("strip_left", true), step.Bool("strip_right", true)));
  } else if (type == "StripAccents") {
    to->push_back(StripAccents());
  } else if (type == "Replace") {
    to->push_back(Replace(ReadPattern(step), step.RequiredString("content"), step.where()));
  } else if (type == "Prepend") {
    to->push_back(Prepend(step.RequiredString("prepend")));
  } else if (type == "Precompiled") {
    // Bytes where it comes from a SentencePiece model.
    const io::Json* map = step.Find("precompiled_charsmap");
    const std::string bytes = map != nullptr && map->is_binary()
                                  ? std::string(map->get_binary().begin(), map->get_binary().end())
                                  : DecodeBase64(step.String("precompiled_charsmap", ""), step.where());
    to->push_back(Precompiled(Charsmap(bytes, step.where())));
  } else if (type == "BertNormalizer") {
    BertNormalizerOptions options;
    options.clean_text = step.Bool("clean_text", true);
    options.split_ideographs = step.Bool("handle_chinese_chars", true);
    if (step.Has("strip_accents")) options.strip_accents = step.Bool("strip_accents", false);
    options.lowercase = step.Bool("lowercase", true);
    to->push_back(Bert(options));
  } else if (type == "ByteLevel") {
    to->push_back(ByteLevelCharacters());
  } else {
    FailUnknown(step, type,
                "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend, Precompiled, "
                "BertNormalizer, ByteLevel");
  }
}

void ReadPreTokenizer(const io::Fields& step, std::vector<PreTokenizer>* to) {
  const std::string type = step.RequiredString("type");
  if (type == "Sequence") {
    ReadSequence(step, "pretokenizers", to, ReadPreTokenizer);
  } else if (type == "ByteLevel") {
    to->push_back(ByteLevel(step.Bool("add_prefix_space", true), step.Bool("use_regex", true)));
  } else if (type == "Metaspace") {
    const std::string replacement = step.String("replacement", std::string(kWordStart));
    Require(!replacement.empty() && replacement.size() <= 4, "{}: expected a replacement of one character, got \"{}\"",
            step.where(), replacement);
    to->push_back(Metaspace(replacement, ReadPrefix(step), step.Bool("split", true)));
  } else if (type == "Split") {
    to->push_back(SplitAtPattern(ReadPattern(step), ReadBehaviour(step), step.Bool("invert", false)));
  } else if (type == "Whitespace") {
    to->push_back(SplitWords());
  } else if (type == "WhitespaceSplit") {
    to->push_back(SplitAtSpace());
  } else if (type == "BertPreTokenizer") {
    to->push_back(SplitAtSpace());
    to->push_back(SplitPunctuation(SplitBehaviour::kIsolated));
  } else if (type == "Punctuation") {
    to->push_back(SplitPunctuation(ReadBehaviour(step)));
  } else if (type == "Digits") {
    to->push_back(SplitDigits(step.Bool("individual_digits", false)));
  } else {
    FailUnknown(step, type,
                "Sequence, ByteLevel, Metaspace, Split, Whitespace, WhitespaceSplit, BertPreTokenizer, Punctuation, "
                "Digits");
  }
}

void ReadDecoder(const io::Fields& step, std::vector<Decoder>* to) {
  const std::string type = step.RequiredString("type");
  if (type == "Sequence") {
    ReadSequence(step, "decoders", to, ReadDecoder);
  } else if (type == "ByteLevel") {
    to->push_back(DecodeByteLevel());
  } else if (type == "Metaspace") {
    to->push_back(
        DecodeMetaspace(ReadDecoderText(step, "replacement", kWordStart), ReadPrefix(step) != MetaspacePrefix::kNever));
  } else if (type == "Replace") {
    const io::Fields pattern = step.Object("pattern");
    Require(pattern.Has("String"), "{}: expected a \"pattern\" of the kind \"String\" in a decoder", step.where());
    to->push_back(DecodeReplace(ReadDecoderText(pattern, "String", ""), step.RequiredString("content")));
  } else if (type == "ByteFallback") {
    to->push_back(DecodeByteFallback());
  } else if (type == "Fuse") {
    to->push_back(DecodeFuse());
  } else if (type == "Strip") {
    to->push_back(DecodeStrip(ReadDecoderText(step, "content", " "), step.Int("start", 0), step.Int("stop", 0)));
  } else if (type == "WordPiece") {
    to->push_back(DecodeWordPiece(ReadDecoderText(step, "prefix", "##"), step.Bool("cleanup", true)));
  } else if (type == "BPEDecoder") {
    to->push_back(DecodeBpeSuffix(ReadDecoderText(step, "suffix", "</w>")));
  } else {
    FailUnknown(step, type,
                "Sequence, ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, WordPiece, BPEDecoder");
  }
}

void ReadPostProcessor(const io::Fields& step, TokenizerParts* parts) {
  const std::string type = step.RequiredString("type");
  if (type == "Sequence") {
    ReadSequence(step, "processors", &parts->templates,
                 [&](const io::Fields& inner, auto*) { ReadPostProcessor(inner, parts); });
  } else if (type == "TemplateProcessing") {
    parts->templates.push_back(ReadTemplate(step));
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    parts->templates.push_back({{false, {ReadPairId(step, "cls")}}, {true, {}}, {false, {ReadPairId(step, "sep")}}});
  } else if (type != "ByteLevel") {  // which changes offsets only
    FailUnknown(step, type, "Sequence, TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel");
  }
}

}  // namespace qkv::text
