// Reads vocab.json and merges.txt, the files of byte-level BPE before tokenizer.json. They do not say how text is
// split: that follows from the tokenizer_class, or from the tokens.
#include "qkv/core/error.h"
#include "qkv/text/bpe.h"
#include "qkv/text/normalizers.h"
#include "qkv/text/pre_tokenizers.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {
namespace {

constexpr std::string_view kClipPattern =
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
constexpr std::string_view kClipEndOfWord = "</w>";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Flavour { kClip, kGpt2, kRoberta, kQwen2 };

Flavour FlavourOf(const io::Json& config, const Vocabulary& vocabulary, std::string_view where) {
  const std::string name = TokenContent(config, "tokenizer_class");
  if (name.starts_with("CLIP")) return Flavour::kClip;
  if (name.starts_with("GPT2")) return Flavour::kGpt2;
  if (name.starts_with("Qwen2")) return Flavour::kQwen2;
  if (name.starts_with("Roberta") || name.starts_with("Bart")) return Flavour::kRoberta;
  Require(name.empty() || name.starts_with("PreTrained") || name.starts_with("TokenizersBackend"),
          "{}: expected a tokenizer_class of CLIPTokenizer, GPT2Tokenizer, Qwen2Tokenizer, RobertaTokenizer or "
          "BartTokenizer for vocab.json and merges.txt, got \"{}\"; a tokenizer.json would say what it does",
          where, name);
  if (vocabulary.Find("a</w>")) return Flavour::kClip;
  if (vocabulary.Find("<s>") && vocabulary.Find("</s>")) return Flavour::kRoberta;
  return Flavour::kGpt2;
}

void AddMerges(std::string_view text, std::string_view where, BpeModel* model) {
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    // "#version: 0.2" is no merge; a "#" alone may be part of one.
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    Require(space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                line.find(' ', space + 1) == std::string_view::npos,
            "{}: expected two tokens in line {} of merges.txt, got \"{}\"", where, number, line);
    model->AddMerge(line.substr(0, space), line.substr(space + 1));
  }
}

}  // namespace

TokenizerParts ReadVocabAndMerges(const io::Json& vocab, std::string_view merges, const io::Json& config,
                                  std::string_view where) {
  Require(vocab.is_object(), "{}: expected vocab.json to have tokens and ids, got {}", where, vocab.type_name());
  Vocabulary vocabulary = ReadVocabulary(vocab, where);
  const Flavour flavour = FlavourOf(config, vocabulary, where);
  const bool clip = flavour == Flavour::kClip, roberta = flavour == Flavour::kRoberta;
  const std::string end = TokenOr(config, "eos_token", roberta ? "</s>" : "<|endoftext|>");
  const std::string begin = TokenOr(config, "bos_token", roberta ? "<s>" : clip ? "<|startoftext|>" : "<|endoftext|>");
  const std::string unknown = TokenOr(config, "unk_token", roberta ? "<unk>" : "<|endoftext|>");
  const std::string padding = TokenOr(config, "pad_token",
                                      roberta                              ? "<pad>"
                                      : clip || flavour == Flavour::kQwen2 ? end
                                                                           : "");

  TokenizerParts parts;
  BpeConfig bpe;
  if (clip) bpe.end_suffix = kClipEndOfWord;
  if (clip) bpe.unknown = unknown;
  auto model = std::make_unique<BpeModel>(std::move(vocabulary), std::move(bpe), std::string(where));
  AddMerges(merges, where, model.get());
  model->Finish();
  parts.model = std::move(model);
  parts.description = clip                         ? "BPE, CLIP's"
                      : roberta                    ? "BPE, RoBERTa's"
                      : flavour == Flavour::kQwen2 ? "BPE, Qwen2's"
                                                   : "BPE, GPT-2's";

  if (clip) {
    parts.normalizers = {UnicodeForm(NormalForm::kNfc), Replace(Regex(R"(\s+)", where), " "), LowerCase()};
    parts.pre_tokenizers.push_back(
        SplitAtPattern(Regex(kClipPattern, where), SplitBehaviour::kRemoved, /*invert=*/true));
    parts.pre_tokenizers.push_back(ByteLevel(/*add_prefix_space=*/false, /*use_pattern=*/true));
  } else {
    const bool qwen2 = flavour == Flavour::kQwen2;
    if (qwen2) {
      parts.normalizers = {UnicodeForm(NormalForm::kNfc)};
      parts.pre_tokenizers.push_back(
          SplitAtPattern(Regex(kQwen2Pattern, where), SplitBehaviour::kIsolated, /*invert=*/false));
    }
    const bool prefix = config.is_object() && config.contains("add_prefix_space") &&
                        config["add_prefix_space"].is_boolean() && config["add_prefix_space"].get<bool>();
    parts.pre_tokenizers.push_back(ByteLevel(prefix, /*use_pattern=*/!qwen2));
  }
  parts.decoders.push_back(DecodeByteLevel());
  if (clip) parts.decoders.push_back(DecodeReplace(std::string(kClipEndOfWord), " "));
  parts.trim_decoded = clip;

  // GPT-2's padding is not in its vocabulary, and a model has no row for an id that is made here.
  const std::string mask = roberta ? "<mask>" : "", classify = roberta ? begin : "", separate = roberta ? end : "";
  const NamedToken named[] = {{"bos_token", begin},    {"eos_token", end},     {"unk_token", unknown},
                              {"sep_token", separate}, {"pad_token", padding}, {"cls_token", classify},
                              {"mask_token", mask}};
  AddConfiguredTokens(config, named, where, NewTokens::kLeaveOut, &parts);
  parts.special.begin = FindToken(parts, begin);
  parts.special.end = FindToken(parts, end);
  parts.special.unknown = FindToken(parts, unknown);
  if (!padding.empty()) parts.special.padding = FindToken(parts, padding);
  if (parts.special.padding) parts.padding_on_request.id = *parts.special.padding;
  if (clip || roberta) {
    Require(parts.special.begin && parts.special.end,
            "{}: expected the tokens \"{}\" and \"{}\" in the vocabulary; special_tokens_map.json names others", where,
            begin, end);
    parts.templates.push_back({{false, {*parts.special.begin}}, {true, {}}, {false, {*parts.special.end}}});
  }
  if (clip) parts.model_max_length = 77;
  ApplyTokenizerConfig(config, &parts);
  return parts;
}

}  // namespace qkv::text
