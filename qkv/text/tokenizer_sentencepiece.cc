// Makes a tokenizer from a SentencePiece model: as SentencePiece does, as transformers' Python class of SigLIP does, or
// the vocabulary that a class of transformers takes from it.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/normalizers.h"
#include "qkv/text/sentencepiece.h"
#include "qkv/text/steps.h"
#include "qkv/text/tokenizer_class.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/word_start.h"

namespace qkv::text {
namespace {

// big_vision's cleaning of texts for SigLIP, as transformers has it: lower case, no ASCII punctuation, single spaces.
// The text at the beginning gets a "▁", and every text gets `prefix` before it, whose tokens PrefixedModel drops.
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

// Drops the first ids of each piece, those of a text before it.
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

// Splits of all pieces, by which merges are looked for: a second, and some hundred times what published models take.
constexpr int64_t kMergeSteps = int64_t{1} << 28;

// [piece, score] each, as T5's and XLM-RoBERTa's classes lay them out: <extra_id_99> … <extra_id_0> behind, or
// fairseq's four tokens in place of the first three pieces, and the mask behind all.
io::Json UnigramVocabulary(const SentencePieceModel& model, TokenizerKind kind, const TokenizerSettings& settings,
                           std::string_view where) {
  io::Json vocab = io::Json::array();
  std::unordered_set<std::string> known;
  const auto add = [&](const std::string& piece, double score) {
    Require(
        known.insert(piece).second,
        "{}: the token \"{}\" is a piece already, and {} puts it in front of the pieces or behind; check bos_token, "
        "eos_token, unk_token, pad_token and mask_token of {}",
        where, piece.substr(0, 100), StatedClass(settings), settings.where);
    vocab.push_back(io::Json::array({piece, score}));
  };
  const auto name = [&](size_t i) { return settings.TextOf(i, ClassOf(kind).tokens[i]); };
  size_t first = 0;
  if (kind == TokenizerKind::kXlmRoberta) {
    first = 3;
    Require(model.pieces.size() >= first, "{}: {} pieces are too few for XLM-RoBERTa", where, model.pieces.size());
    for (const size_t i : {kBegin, kPadding, kEnd, kUnknown}) add(name(i), 0);
  }
  for (size_t i = first; i < model.pieces.size(); ++i) add(model.pieces[i].text, model.pieces[i].score);
  if (kind == TokenizerKind::kXlmRoberta) {
    add(name(kMask), 0);
  } else {
    for (int64_t i = settings.extra_ids.value_or(100); i-- > 0;) add(fmt::format("<extra_id_{}>", i), 0);
  }
  return vocab;
}

// Every split of a piece into two others is a merge, in the order of the pieces' ids and then of the left part's
// length.
io::Json MergesOf(const SentencePieceModel& model) {
  std::unordered_set<std::string_view> known;
  for (const SentencePiece& piece : model.pieces) known.insert(piece.text);
  io::Json merges = io::Json::array();
  const WorkBudget budget(kMergeSteps, "tokenizer: looking for the merges of a SentencePiece model");
  StepTally tally;
  for (const SentencePiece& piece : model.pieces) {
    const std::string_view text = piece.text;
    for (size_t at = text.empty() ? 0 : CharacterEnd(text, 0); at < text.size(); at = CharacterEnd(text, at)) {
      tally.Add(2 + text.size() / 8);
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (known.contains(left) && known.contains(right)) merges.push_back(io::Json::array({left, right}));
    }
  }
  tally.Done();
  return merges;
}

// The vocabulary in the form of tokenizer.json.
io::Json VocabularyOf(const SentencePieceModel& model, TokenizerKind kind, const TokenizerSettings& settings,
                      std::string_view where) {
  io::Json json;
  io::Json& to = json["model"];
  to["type"] = ClassOf(kind).model;
  if (ClassOf(kind).model == "Unigram") {
    to["vocab"] = UnigramVocabulary(model, kind, settings, where);
    if (!model.precompiled_charsmap.empty()) {
      const std::string& map = model.precompiled_charsmap;
      json["normalizer"]["type"] = "Precompiled";
      json["normalizer"]["precompiled_charsmap"] = io::Json::binary({map.begin(), map.end()});
    }
    return json;
  }
  to["vocab"] = io::Json::object();
  for (size_t i = 0; i < model.pieces.size(); ++i) to["vocab"][model.pieces[i].text] = i;
  to["merges"] = MergesOf(model);
  return json;
}

// Control pieces, which are special, and user-defined ones.
std::vector<StatedToken> AddedPieces(const SentencePieceModel& model, bool user_defined) {
  std::vector<StatedToken> tokens;
  for (const SentencePiece& piece : model.pieces) {
    const bool control = piece.type == SentencePiece::kControl;
    if (!control && !(user_defined && piece.type == SentencePiece::kUserDefined)) continue;
    tokens.push_back({.token = {.content = piece.text, .special = control}, .flags = true});
  }
  return tokens;
}

// libsentencepiece's own treatment of a text and of ids.
TokenizerParts MakeRaw(const SentencePieceModel& model, std::string_view where) {
  TokenizerParts parts;
  parts.bytes_input = true;
  parts.description = model.model_type == SentencePieceModel::kBpe ? "SentencePiece BPE" : "SentencePiece unigram";
  parts.model = MakeSentencePieceModel(model, std::string(where));
  parts.normalizers.push_back(SentencePieceNormalizer(model, where));
  if (model.bos_id >= 0) parts.special.begin = model.bos_id;
  if (model.eos_id >= 0) parts.special.end = model.eos_id;
  if (model.pad_id >= 0) parts.special.padding = parts.padding_on_request.id = model.pad_id;
  parts.special.unknown = model.unknown_id;
  parts.decoders.push_back(
      [unknown = model.pieces[static_cast<size_t>(model.unknown_id)].text, surface = model.unk_surface](
          std::vector<std::string>& tokens, size_t) { std::replace(tokens.begin(), tokens.end(), unknown, surface); });
  parts.decoders.push_back(DecodeByteFallback());
  parts.decoders.push_back(DecodeMetaspace(std::string(kWordStart), model.add_dummy_prefix));
  parts.decoders.push_back(DecodeFuse());
  return parts;
}

// SentencePiece puts a space before what it normalises, which tokens must not have.
void RequireNotNormalized(const TokenizerSettings& settings) {
  const auto check = [&](const AddedToken& token, std::string_view key) {
    Require(!token.normalized,
            "{}: expected \"normalized\": false of the token \"{}\" of {}, got true, which is not supported for a "
            "SentencePiece model without a class of its own",
            settings.where, token.content.substr(0, 100), key);
  };
  for (const auto& [id, token] : settings.stored) check(token, "added_tokens_decoder or added_tokens.json");
  for (size_t i = 0; i < kNamedTokens.size(); ++i) {
    if (settings.named[i].token) check(settings.named[i].token->token, kNamedTokens[i]);
  }
  for (const auto& [key, token] : settings.other_named) check(token.token, key);
  if (!settings.extra) return;
  for (const StatedToken& token : *settings.extra) {
    check(token.token, "extra_special_tokens or additional_special_tokens");
  }
}

// TokenizersBackend: pieces whose ids added_tokens_decoder names get these names, and control pieces are found in
// texts.
TokenizerParts MakeBackend(SentencePieceModel model, TokenizerSettings settings, std::string_view where) {
  std::unordered_map<int64_t, std::string> names;
  for (const auto& [id, token] : settings.stored) names[id] = token.content;
  std::unordered_set<std::string> kept;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    if (!names.contains(static_cast<int64_t>(i))) kept.insert(model.pieces[i].text);
  }
  for (size_t i = 0; i < model.pieces.size() && model.model_type == SentencePieceModel::kBpe; ++i) {
    const auto name = names.find(static_cast<int64_t>(i));
    if (name != names.end() && !name->second.empty() && !kept.contains(name->second)) {
      model.pieces[i].text = name->second;
    }
  }
  if (model.add_dummy_prefix) {
    for (auto& [id, token] : settings.stored) token.normalized = false;
  }
  RequireNotNormalized(settings);
  Require(settings.legacy.value_or(true),
          "{}: expected \"legacy\": true for a SentencePiece model without a class of its own, got false",
          settings.where);
  TokenizerParts parts = MakeRaw(model, where);
  parts.bytes_input = false;
  std::array<std::string_view, kNamedTokens.size()> named = {};
  const auto name = [&](size_t index, int32_t id) {
    if (id >= 0) named[index] = model.pieces[static_cast<size_t>(id)].text;
  };
  name(kBegin, model.bos_id), name(kEnd, model.eos_id), name(kUnknown, model.unknown_id);
  TokenizerClass type = ClassOf(TokenizerKind::kBackend);
  type.tokens = named;
  AddConfiguredTokens(settings, named, settings.extra ? *settings.extra : AddedPieces(model, /*user_defined=*/false),
                      &parts);
  // transformers' unigram model finds the text of any piece, SentencePiece's none of these.
  for (const SentencePiece& piece : model.pieces) {
    const bool hidden = piece.type == SentencePiece::kControl || piece.type == SentencePiece::kUnknown;
    Require(!hidden || model.model_type == SentencePieceModel::kBpe || parts.added_index.contains(piece.text),
            "{}: expected \"{}\", a piece of {}, among the tokens of unk_token, bos_token, eos_token, pad_token or "
            "extra_special_tokens; a unigram model without a class of its own would split it in another way",
            settings.where, piece.text.substr(0, 100), where);
  }
  FinishTokenizer(type, settings, /*has_processor=*/false, &parts);
  return parts;
}

// transformers' SiglipTokenizer, a Python class.
TokenizerParts MakeSiglip(const SentencePieceModel& model, const TokenizerSettings& settings, std::string_view where) {
  Require(settings.legacy.value_or(true), "{}: expected \"legacy\": true for SiglipTokenizer, got false",
          settings.where);
  const TokenizerClass& type = ClassOf(TokenizerKind::kSiglip);
  TokenizerParts parts = MakeRaw(model, where);
  const std::string prefix = settings.TextOf(kUnknown, type.tokens[kUnknown]);
  const WorkBudget budget(MaxSteps(prefix.size()), "tokenizer: encoding its unk_token");
  Segment segment{prefix, false, MaxGrown(prefix.size())};
  RunNormalizers(parts.normalizers, segment);
  std::vector<int32_t> ids;
  ModelWorkspace workspace;
  if (!segment.text.empty()) parts.model->Encode(segment.text, workspace, &ids);
  parts.model = std::make_unique<PrefixedModel>(std::move(parts.model), ids.size());
  const bool lower = settings.lower_case.value_or(true);
  parts.normalizers.insert(parts.normalizers.begin(),
                           [lower, prefix](Segment& part) { CanonicalSiglip(part, lower, prefix); });
  parts.bytes_input = false;
  parts.encode_empty = true;
  // Python joins pieces, bytes too, and strips the text.
  parts.decoders = {DecodeReplace(std::string(kWordStart), " "), DecodeFuse()};
  parts.trim_decoded = true;
  parts.model_max_length = 64;
  AddPythonTokens(settings, type.tokens,
                  settings.extra.value_or(settings.additional.value_or(std::vector<StatedToken>())), &parts);
  FinishTokenizer(type, settings, /*has_processor=*/false, &parts);
  // The end is not put behind one that the text has.
  parts.templates.back().back().once = true;
  return parts;
}

}  // namespace

TokenizerParts ReadSentencePiece(std::string_view bytes, std::string_view where) {
  const SentencePieceModel model = ParseSentencePiece(bytes, where);
  TokenizerParts parts = MakeRaw(model, where);
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    if (model.pieces[i].type == SentencePiece::kControl) parts.hidden.insert(static_cast<int32_t>(i));
  }
  return parts;
}

TokenizerParts ReadSentencePieceFolder(std::string_view bytes, TokenizerKind kind, const TokenizerSettings& settings,
                                       std::string_view where) {
  using enum TokenizerKind;
  if (!settings.found) return ReadSentencePiece(bytes, where);
  Require(kind == kUnstated || kind == kBackend || kind == kSiglip || kind == kT5 || kind == kXlmRoberta ||
              kind == kLlama || kind == kGemma || kind == kSiglip2,
          "{}: {} does more than its SentencePiece model (other ids or steps); open it with transformers and save its "
          "tokenizer.json",
          where, StatedClass(settings));
  const std::string file = std::filesystem::path(where).filename().native();
  const std::string_view wanted = kind == kXlmRoberta              ? "sentencepiece.bpe.model"
                                  : kind == kT5 || kind == kSiglip ? "spiece.model"
                                                                   : "tokenizer.model";
  Require(kind == kUnstated || kind == kBackend || file == wanted || file == "tokenizer.model",
          "{}: {} reads {}; rename the file, or correct tokenizer_class", where, StatedClass(settings), wanted);
  SentencePieceModel model = ParseSentencePiece(bytes, where);
  if (kind == kUnstated || kind == kBackend) return MakeBackend(std::move(model), settings, where);
  if (kind == kSiglip) return MakeSiglip(model, settings, where);
  const io::Json vocabulary = VocabularyOf(model, kind, settings, where);
  return MakeTokenizer(io::Fields(vocabulary, std::string(where)), kind, settings, /*has_json=*/false,
                       AddedPieces(model, /*user_defined=*/true));
}

}  // namespace qkv::text
