// The description of a text model from any family's files: configurations of its encoder and decoder, how an encoder
// makes one vector of a text, and settings of generation. Not here: weights (checkpoint/text_checkpoint.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/model/config/sequence_config.h"

namespace qkv::model {

/// How the vectors of a text's tokens become one, as sentence-transformers names it.
enum class SentencePool {
  kMean,      // the mean over the tokens
  kMeanSqrt,  // the sum, divided by the square root of their number
  kFirst,     // the first token's ("cls")
  kLast,      // the last token's
  kMax,       // the greatest value of each feature
};

/// "mean", "mean_sqrt_len_tokens", "cls", "lasttoken", "max"
std::string_view Name(SentencePool pool);
std::optional<SentencePool> FindSentencePool(std::string_view name);

/// How an encoder embeds a text.
struct SentenceEmbedding {
  SentencePool pool = SentencePool::kMean;
  bool normalise = false;    // to unit length
  int64_t length = 0;        // greatest number of tokens of a text; 0: that of the model and of its tokenizer
  std::string prompt;        // before each text
  bool pools_prompt = true;  // else its tokens are not among those that become the vector
  bool lower_case = false;   // texts become lower-case before all else

  bool operator==(const SentenceEmbedding&) const = default;
};

/// Settings of generation in a model's files: generation_config.json of Hugging Face, or config.json.
struct GenerationDefaults {
  std::optional<int32_t> start;                      // first token of an encoder-decoder's decoder
  std::optional<int32_t> begin;                      // token before a text ("bos"), where the tokenizer adds none
  std::vector<int32_t> ends;                         // any of them ends a text
  std::optional<int32_t> padding;                    // of rows that have ended
  std::optional<int32_t> forced_first, forced_last;  // the token after `start`; the token at the greatest length
  std::vector<int32_t> suppressed;                   // tokens that are never chosen
  int64_t max_length = 0;                            // tokens with `start`; 0: not said
  int64_t max_new_tokens = 0, min_new_tokens = 0;    // without the prompt, in place of the lengths; 0: not said
  bool renormalise = false;                          // scores of beams are probabilities again after all rules
  int64_t min_length = 0;                            // likewise
  int64_t beams = 1;
  double length_penalty = 1;    // scores of beams are divided by their length to this power
  bool early_stopping = false;  // a beam search ends with as many texts as beams
  int64_t no_repeat_ngram = 0;  // no such number of tokens occurs twice; 0: any may
  bool sample = false;          // draws tokens instead of taking the most probable
  double temperature = 1, top_p = 1, min_p = 0;
  int64_t top_k = 0;              // 0: all
  double repetition_penalty = 1;  // divides the logits of tokens that the text has

  bool operator==(const GenerationDefaults&) const = default;
};

/// As transformers: where there is a generation_config.json, all but the ids of tokens is taken from it, else from
/// config.json. generation: null if there is no such file. Throws Error that names a key of a wrong type.
GenerationDefaults ReadGenerationDefaults(const io::Fields& config, const io::Fields* generation);
/// Keys of config.json about generation that ReadGenerationDefaults does not read; with a generation_config.json, all.
std::span<const io::KnownKey> GenerationKeys(bool superseded);

struct TextDescription {
  std::string architecture;               // class of the library, such as "BertModel"
  std::string model_type;                 // "bert"
  std::optional<SequenceConfig> encoder;  // reads a text, every token of which sees all
  std::optional<SequenceConfig> decoder;  // writes one; with block.cross it reads the encoder's tokens
  SentenceEmbedding sentence;             // of an encoder alone
  GenerationDefaults generation;          // of a decoder
  int64_t trained_length = 0;            // tokens of a text in training, if the model itself has no limit; 0: its limit
  std::vector<std::string> assumptions;  // values that no file states, a sentence each
  std::vector<io::Setting> settings;     // of the model's files: the effect of each
};

/// Throws Error if a part is not valid, there is none, or the parts do not fit together.
void Validate(const TextDescription& description);

}  // namespace qkv::model
