// Makes a tokenizer of a SentencePiece model. Which special tokens are added is said by tokenizer_config.json.
#include <algorithm>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/normalizers.h"
#include "qkv/text/pre_tokenizers.h"
#include "qkv/text/sentencepiece.h"
#include "qkv/text/steps.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/unigram.h"
#include "qkv/text/word_start.h"

namespace qkv::text {
namespace {

bool FlagOr(const io::Json& config, std::string_view key, bool otherwise) {
  if (!config.is_object()) return otherwise;
  const auto found = config.find(key);
  return found != config.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

// big_vision's cleaning of texts for SigLIP, as transformers has it: lower case, no ASCII punctuation, single spaces.
// The text at the beginning gets a "▁", and every one `prefix` in front, whose tokens PrefixedModel drops.
void CanonicalSiglip(Segment& segment, bool lower, std::string_view prefix) {
  const std::string text = lower ? Lower(segment.text) : segment.text;
  RequireGrown(prefix.size() + text.size(), segment.limit);
  std::string to(prefix);
  const size_t begin = to.size();
  if (segment.at_start) to += kWordStart;
  bool space = false;
  StepTally tally;
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    tally.Add(1);
    if (IsSpace(character.code) || (character.code >= 0x1c && character.code <= 0x1f) || character.code == 0x2581) {
      space = true;
    } else if (character.code >= 0x80 || !IsPunctuation(character.code)) {
      if (space && to.size() > begin) to += ' ';  // "▁" is no space
      space = false;
      to.append(text, at, character.end - at);
    }
    at = character.end;
  }
  tally.Done();
  // A space behind "▁" counts if text follows only.
  segment.text = std::move(to);
}

// Drops the first ids of each piece, those of a text in front of it.
class PrefixedModel : public SubwordModel {
 public:
  PrefixedModel(std::unique_ptr<SubwordModel> inner, size_t dropped)
      : SubwordModel(inner->vocabulary()), inner_(std::move(inner)), dropped_(dropped) {}
  void Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const override {
    const size_t before = ids->size();
    inner_->Encode(piece, workspace, ids);
    if (ids->size() - before < dropped_) return;
    const auto first = ids->begin() + static_cast<std::ptrdiff_t>(before);
    ids->erase(first, first + static_cast<std::ptrdiff_t>(dropped_));
  }

 private:
  std::unique_ptr<SubwordModel> inner_;
  size_t dropped_;
};

constexpr NamedToken kT5Tokens[] = {{"bos_token", ""}, {"eos_token", "</s>"},  {"unk_token", "<unk>"},
                                    {"sep_token", ""}, {"pad_token", "<pad>"}, {"cls_token", ""},
                                    {"mask_token", ""}};
constexpr int64_t kMaxExtraIds = 100'000;

// transformers' T5Tokenizer: the model's pieces as tokenizer.json's library splits words into them, and behind them
// <extra_id_99> … <extra_id_0>.
TokenizerParts MakeT5(const SentencePieceModel& model, const io::Json& config, std::string_view where) {
  const JsonFields fields(config, std::string(where));
  const int64_t extra = fields.Number("extra_ids", 100);
  Require(extra >= 0 && extra <= kMaxExtraIds, "{}: expected extra_ids from 0 to {}, got {}", where, kMaxExtraIds,
          extra);
  std::vector<UnigramPiece> pieces;
  for (const SentencePiece& piece : model.pieces) pieces.push_back({piece.text, piece.score});
  for (int64_t i = extra; i-- > 0;) pieces.push_back({fmt::format("<extra_id_{}>", i), 0});
  TokenizerParts parts;
  parts.description = "Unigram, T5's";
  constexpr int32_t kUnknown = 2;
  parts.model = std::make_unique<UnigramModel>(std::move(pieces), UnigramConfig{kUnknown}, std::string(where));
  if (!model.precompiled_charsmap.empty()) {
    parts.normalizers.push_back(Precompiled(Charsmap(model.precompiled_charsmap, where)));
  }
  parts.pre_tokenizers = {SplitAtSpace(), Metaspace(std::string(kWordStart), MetaspacePrefix::kAlways, /*split=*/true)};
  parts.decoders.push_back(DecodeMetaspace(std::string(kWordStart), /*prefixed=*/true));
  AddConfiguredTokens(config, kT5Tokens, where, NewTokens::kAdd, &parts);
  for (const SentencePiece& piece : model.pieces) {
    const bool control = piece.type == SentencePiece::kControl;
    if ((control || piece.type == SentencePiece::kUserDefined) && !parts.added_index.contains(piece.text)) {
      AddToken({.content = piece.text, .special = control}, &parts);
    }
  }
  for (int64_t i = 0; i < extra; ++i) {
    AddToken({.content = fmt::format("<extra_id_{}>", i), .special = true}, &parts);
  }
  const auto token = [&](size_t i) {
    return FindToken(parts, TokenOr(config, kT5Tokens[i].key, kT5Tokens[i].otherwise));
  };
  parts.special.end = token(1), parts.special.unknown = token(2), parts.special.padding = token(4);
  if (parts.special.padding) parts.padding_on_request.id = *parts.special.padding;
  parts.templates.push_back({{true, {}}, {false, {*parts.special.end}}});
  ApplyTokenizerConfig(config, &parts);
  return parts;
}

constexpr NamedToken kXlmTokens[] = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"unk_token", "<unk>"},
                                     {"sep_token", "</s>"},   {"pad_token", "<pad>"}, {"cls_token", "<s>"},
                                     {"mask_token", "<mask>"}};

// transformers' XLMRobertaTokenizer (also of TrOCR's small models): fairseq's four tokens in place of the model's first
// three pieces, and <mask> behind all.
TokenizerParts MakeXlmRoberta(const SentencePieceModel& model, const io::Json& config, std::string_view where) {
  constexpr size_t kReplaced = 3;
  constexpr int32_t kUnknown = 3;
  Require(model.pieces.size() >= kReplaced, "{}: {} pieces are too few for XLM-RoBERTa", where, model.pieces.size());
  const auto name = [&](size_t i) { return TokenOr(config, kXlmTokens[i].key, kXlmTokens[i].otherwise); };
  std::vector<UnigramPiece> pieces = {{name(0), 0}, {name(4), 0}, {name(1), 0}, {name(2), 0}};
  for (size_t i = kReplaced; i < model.pieces.size(); ++i) {
    pieces.push_back({model.pieces[i].text, model.pieces[i].score});
  }
  pieces.push_back({name(6), 0});
  TokenizerParts parts;
  parts.description = "Unigram, XLM-RoBERTa's";
  parts.model = std::make_unique<UnigramModel>(std::move(pieces), UnigramConfig{kUnknown}, std::string(where));
  if (!model.precompiled_charsmap.empty()) {
    parts.normalizers.push_back(Precompiled(Charsmap(model.precompiled_charsmap, where)));
  }
  const bool prefixed = FlagOr(config, "add_prefix_space", true);
  parts.pre_tokenizers = {
      SplitAtSpace(), Metaspace(std::string(kWordStart), prefixed ? MetaspacePrefix::kAlways : MetaspacePrefix::kNever,
                                /*split=*/true)};
  parts.decoders.push_back(DecodeMetaspace(std::string(kWordStart), prefixed));
  AddConfiguredTokens(config, kXlmTokens, where, NewTokens::kAdd, &parts);
  const auto token = [&](size_t i) { return FindToken(parts, name(i)); };
  parts.special.begin = token(0), parts.special.end = token(1), parts.special.unknown = token(2);
  parts.special.separate = token(3), parts.special.padding = token(4), parts.special.classify = token(5);
  parts.special.mask = token(6);
  if (parts.special.padding) parts.padding_on_request.id = *parts.special.padding;
  Require(parts.special.begin && parts.special.end, "{}: the tokens of beginning and end are in no vocabulary", where);
  parts.templates.push_back({{false, {*parts.special.begin}}, {true, {}}, {false, {*parts.special.end}}});
  ApplyTokenizerConfig(config, &parts);
  return parts;
}

}  // namespace

TokenizerParts ReadSentencePiece(std::string_view bytes, const io::Json& config, std::string_view where) {
  const SentencePieceModel model = ParseSentencePiece(bytes, where);
  const std::string name = TokenContent(config, "tokenizer_class");
  for (const char* other : {"Camembert", "MBart", "Nllb", "M2M100", "BigBird", "Albert", "XLNet"}) {
    Require(!name.starts_with(other),
            "{}: {} does more than its SentencePiece model (other ids or steps); open it with transformers and save "
            "its tokenizer.json",
            where, name);
  }
  if (model.model_type == SentencePieceModel::kUnigram && (name.starts_with("T5") || name.starts_with("MT5"))) {
    return MakeT5(model, config, where);
  }
  if (name.starts_with("XLMRoberta")) {
    Require(model.model_type == SentencePieceModel::kUnigram, "{}: {} with a BPE model; expected a unigram model",
            where, name);
    return MakeXlmRoberta(model, config, where);
  }
  TokenizerParts parts;
  parts.bytes_input = true;
  parts.description = model.model_type == SentencePieceModel::kBpe ? "SentencePiece BPE" : "SentencePiece unigram";
  parts.model = MakeSentencePieceModel(model, std::string(where));
  const bool siglip = name.starts_with("Siglip");
  const Normalizer normalizer = SentencePieceNormalizer(model, where);
  if (siglip) {
    const std::string prefix = TokenOr(config, "unk_token", "<unk>");
    const WorkBudget budget(MaxSteps(prefix.size()), "tokenizer: encoding its unk_token");
    Segment segment{prefix, false, MaxGrown(prefix.size())};
    RunNormalizers({normalizer}, segment);
    std::vector<int32_t> ids;
    ModelWorkspace workspace;
    if (!segment.text.empty()) parts.model->Encode(segment.text, workspace, &ids);
    parts.model = std::make_unique<PrefixedModel>(std::move(parts.model), ids.size());
    const bool lower = FlagOr(config, "do_lower_case", true);
    parts.normalizers.push_back([lower, prefix](Segment& part) { CanonicalSiglip(part, lower, prefix); });
    parts.bytes_input = false;
    parts.encode_empty = true;
  }
  parts.normalizers.push_back(normalizer);
  if (model.bos_id >= 0) parts.special.begin = model.bos_id;
  if (model.eos_id >= 0) parts.special.end = model.eos_id;
  if (model.pad_id >= 0) parts.special.padding = model.pad_id;
  parts.special.unknown = model.unknown_id;
  ApplyTokenizerConfig(config, &parts);
  if (parts.special.padding) parts.padding_on_request.id = *parts.special.padding;

  parts.decoders.push_back(
      [unknown = model.pieces[static_cast<size_t>(model.unknown_id)].text, surface = model.unk_surface](
          std::vector<std::string>& tokens, size_t) { std::replace(tokens.begin(), tokens.end(), unknown, surface); });
  parts.decoders.push_back(DecodeByteFallback());
  parts.decoders.push_back(DecodeMetaspace(std::string(kWordStart), model.add_dummy_prefix));
  parts.decoders.push_back(DecodeFuse());

  // Control pieces are found in text only by transformers' class, which takes the white space around them.
  if (siglip) {
    for (const auto& [key, otherwise] :
         {std::pair("eos_token", "</s>"), std::pair("pad_token", "</s>"), std::pair("unk_token", "<unk>")}) {
      AddToken({.content = TokenOr(config, key, otherwise), .lstrip = true, .rstrip = true, .special = true}, &parts);
    }
  } else {
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      if (model.pieces[i].type == SentencePiece::kControl) parts.hidden.insert(static_cast<int32_t>(i));
    }
  }

  // SigLIP's end, Llama's and Gemma's begin.
  const bool begins = name.starts_with("Gemma") || name.starts_with("Llama");
  if (siglip && !parts.model_max_length) parts.model_max_length = 64;
  std::vector<TemplateItem> items = {{true, {}}};
  if (FlagOr(config, "add_bos_token", begins) && parts.special.begin) {
    items.insert(items.begin(), {false, {*parts.special.begin}});
  }
  if (FlagOr(config, "add_eos_token", siglip) && parts.special.end)
    items.push_back({false, {*parts.special.end}, siglip});
  if (items.size() > 1) parts.templates.push_back(std::move(items));
  return parts;
}

}  // namespace qkv::text
