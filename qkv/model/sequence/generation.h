// Texts by a decoder: greedy, sampled, or by beam search, several at a time, with restrictions, as the `generate` of
// Hugging Face transformers gives them. Not here: one pass (decoder.h) and sampling a token (sampling.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "qkv/model/config/text_description.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/sampling.h"

namespace qkv::model {

/// How the tokens of a text are chosen, and when it ends.
struct GenerationSettings {
  int64_t max_tokens = 256;                          // greatest number of tokens that are added to a prompt
  int64_t min_tokens = 0;                            // no text ends before so many
  std::vector<int32_t> ends;                         // any of them ends a text, and is its last token; in any order
  std::vector<int32_t> suppressed;                   // are never chosen; in any order
  std::optional<int32_t> forced_first, forced_last;  // the first token; the one at max_tokens
  int64_t no_repeat_ngram = 0;    // no such number of tokens occurs twice in prompt and text; 0: any may
  double repetition_penalty = 1;  // divides positive logits of tokens that are there already, multiplies negative ones
  std::vector<uint64_t> seeds;    // of each text's sampling; empty: sampling.seed + i
  bool renormalise = false;       // log-probabilities of beams are normalised again after all rules
  SamplingSettings sampling = {.temperature = 0};  // of one beam; the i-th text has the seed + i
  nn::CrossWeights cross = {};                     // what replaces cross-attention's softmax
  int64_t beams = 1;                               // above 1: beam search, without sampling
  double length_penalty = 1;                       // scores of beams are divided by the number of tokens to this power
  bool early_stopping = false;  // a search ends with as many texts as beams, whatever better ones might follow

  /// Throws Error if a number is out of range, or there are beams and sampling.
  void Validate() const;
  /// Whether all settings are the same.
  bool operator==(const GenerationSettings&) const = default;
};

/// The settings in a model's files. prompt: number of tokens of a decoder before the text, which the files' lengths
/// include: 1 for an encoder-decoder.
GenerationSettings SettingsOf(const GenerationDefaults& defaults, int64_t prompt);

/// A text that a decoder wrote.
struct Generated {
  std::vector<int32_t> tokens;  // without the prompt; with the token that ended it
  double score = 0;             // of a beam search: Σ log p / tokens^length_penalty
  bool ended = false;           // by one of `ends`, not by its length
};

/// Called with each token as it is chosen, by the number of its text; false ends everything. A beam search chooses at
/// the end only.
using OnToken = std::function<bool(size_t text, int32_t token)>;

/// A text for each prompt, none of which depends on the others. decoder: for at least prompts × beams sequences.
/// source: what cross-attention reads, an entry for each prompt; entries of texts that have ended are dropped from it.
/// A text also ends where the decoder has no room. `stop` is checked before each pass of the decoder; once true, texts
/// stay as they are, and those of a search that has not ended are empty. Throws Error as Decoder::Start, and if logits
/// are not finite.
std::vector<Generated> Generate(Decoder<float>& decoder, std::span<const std::vector<int32_t>> prompts,
                                Source<float>* source, const GenerationSettings& settings, const OnToken& on_token = {},
                                const std::function<bool()>& stop = {});

}  // namespace qkv::model
