// What `qkv bench` times of a text model: embedding, prefilling, decoding, and an encoder-decoder's writing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/models/any_model.h"

namespace qkv::app {

/// A model in one precision; with its tokenizer if texts are given.
struct TextContender {
  std::shared_ptr<const LanguageModel> language;
  std::shared_ptr<const model::TextModel> alone;  // without texts

  const model::TextModel& model() const { return language ? language->model() : *alone; }
};

/// Throws Error as AnyModel::BuildLanguage.
TextContender OpenContender(const AnyModel& model, bool with_texts);

/// What to time.
struct TextWorkOptions {
  std::string work;             // one of TextWork::name; empty: all that the model does
  std::vector<int64_t> tokens;  // of random texts; empty: the usual number. Several are for encoders
  int64_t batch = 0;            // 0: as many texts as the work usually has
};

/// "16,128" as numbers above 0; empty if it is none.
std::vector<int64_t> ParseTokenCounts(const std::string& text);

/// Work that is timed as a whole.
struct TextWork {
  std::string name;           // "embed", "prefill", "decode", "decode-batch", "greedy", "beams"
  int64_t batch = 0;          // texts that are computed together
  int64_t tokens = 0;         // of each; 0: they differ
  double texts = 0;           // of a pass
  double counted = 0;         // tokens of a pass that were read or, if texts are written, written
  double weight_bytes = 0;    // that a pass reads from memory, if that limits it; else 0
  std::function<void()> run;  // a pass
};

/// The work that options.work selects, or all. The contender must outlive it. Throws Error if the model has no such
/// work, or if it takes fewer tokens than options.tokens.
std::vector<TextWork> MakeTextWorks(const TextContender& contender, const TextWorkOptions& options,
                                    const std::vector<std::string>& texts);

/// Samples for the drift: random ids, or those of the texts and, for an encoder-decoder, of its answers to them.
struct TextSamples {
  std::vector<std::vector<int32_t>> ids, written;
  bool random = false;
};
/// exact: in fp32.
TextSamples MakeTextSamples(const TextContender& exact, const std::vector<std::string>& texts);

/// Vectors of an encoder, [texts, width], or logits of a decoder, [tokens, outputs]. Throws Error if one is not finite.
Tensor<float> AnswerSamples(const model::TextModel& model, const TextSamples& samples);

}  // namespace qkv::app
