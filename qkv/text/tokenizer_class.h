// Which files and settings make a tokenizer: the rule of AutoTokenizer in transformers 5, which every reader follows.
//
// 1. The class. tokenizer_class of tokenizer_config.json, or else of config.json, counts; "Fast" at its end does not.
// If
//    config.json's model_type belongs to another class, the stated one counts, with three exceptions: types whose
//    published files are known to be wrong get the class of the type ("qwen2", "siglip2"); types without a class of
//    their own get TokenizersBackend ("mistral"); LlamaTokenizer with a byte-level tokenizer.json is TokenizersBackend.
//    If none is stated, the class of the model_type counts. A name that transformers does not have is
//    TokenizersBackend.
// 2. The files. tokenizer.json first, whatever lies beside it. SiglipTokenizer and MarianTokenizer are Python classes
//    that read their SentencePiece models instead. Without a tokenizer.json: source.spm with vocab.json, vocab.json
//    with merges.txt, vocab.txt, spiece.model, tokenizer.model, sentencepiece.bpe.model.
// 3. The steps. TokenizersBackend does what tokenizer.json says. Every other class takes the vocabulary, the merges,
//    SentencePiece's map of characters, truncation, padding and the post-processor from it, and makes the other steps
//    itself from its settings: do_lower_case, strip_accents, tokenize_chinese_chars, add_prefix_space, legacy.
// 4. The tokens. added_tokens_decoder of tokenizer_config.json counts alone; without it special_tokens_map.json
// replaces
//    named tokens, and added_tokens.json and then tokenizer.json's added_tokens follow. All are added by id, but the
//    ids are those of the vocabulary, or the next ones. Then the class's named tokens, a model's own ("image_token", an
//    object extra_special_tokens), and the list extra_special_tokens (additional_special_tokens).
// 5. The tokens around a text. BERT, RoBERTa, MPNet, CLIP, T5 and XLM-RoBERTa have their own. The others take the
//    post-processor of tokenizer.json; add_bos_token and add_eos_token count only where there is no tokenizer.json, and
//    are off unless stated, Llama's too.
// 6. Sides: truncation_side and padding_side, or else tokenizer.json's directions, or else the class's.
//
// Classes of transformers that are not done (ALBERT's, DeBERTa's, …) are refused by name.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/tokenizer_settings.h"

namespace qkv::text {

enum class TokenizerKind {
  kUnstated,  // no file says
  kOther,     // a class that transformers does not have
  kNotDone,   // a class of transformers whose steps are not done
  kBackend,   // TokenizersBackend
  kBert,
  kBertSteps,  // classes derived from BERT's, which take the steps of a tokenizer.json
  kMpnet,
  kRoberta,
  kGpt2,
  kQwen2,
  kClip,
  kLlama,
  kGemma,
  kSiglip2,
  kT5,
  kXlmRoberta,
  kCamembert,
  kSiglip,
  kMarian,
};

/// Tokens that surround a text.
enum class TextFrame { kAsStated, kClassifySeparate, kBeginEnd, kEnd };

struct TokenizerClass {
  TokenizerKind kind;
  std::string_view label;  // in descriptions
  std::string_view model;  // type of the model that its steps are for; empty: the steps are those of the file
  TextFrame frame;
  bool pads_left;
  std::array<std::string_view, kNamedTokens.size()> tokens;  // unless the settings state others; empty: none
};

/// The class of settings. `json`: the tokenizer.json, or null.
TokenizerKind KindOf(const TokenizerSettings& settings, const io::Json* json);
const TokenizerClass& ClassOf(TokenizerKind kind);
/// The class that the settings state, or the model_type that chooses it; for errors.
std::string_view StatedClass(const TokenizerSettings& settings);

/// The type of a tokenizer.json's model; older files do not state it.
std::string ModelTypeOf(const io::Fields& model);

/// Makes a tokenizer of the form of tokenizer.json: of one, or of the vocabulary of older files (`has_json` false).
/// `pieces`: the control and user-defined pieces of a SentencePiece model, which are extra tokens unless others are
/// stated. Throws Error if the class does not fit the vocabulary.
TokenizerParts MakeTokenizer(const io::Fields& file, TokenizerKind kind, const TokenizerSettings& settings,
                             bool has_json, const std::optional<std::vector<StatedToken>>& pieces);

/// The rest of the rule, once the tokens are added: ids of named tokens, tokens around a text, sides, lengths.
void FinishTokenizer(const TokenizerClass& type, const TokenizerSettings& settings, bool has_processor,
                     TokenizerParts* parts);

}  // namespace qkv::text
