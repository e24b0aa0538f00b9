// Text models with their tokenizers: vectors of texts by encoders, and texts by decoders.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/app/open/open.h"
#include "qkv/app/texts/text_ids.h"
#include "qkv/model/sequence/generation.h"
#include "qkv/model/sequence/text_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv::app {

/// The settings in a model's files for a prompt of so many tokens; 256 tokens at most if they set no length, and the
/// tokenizer's end token if they set none.
model::GenerationSettings UsualSettings(const model::GenerationDefaults& defaults, const text::Tokenizer& tokenizer,
                                        int64_t prompt);
/// The text of these ids, except those that the tokenizer does not know: vocabularies of models may be padded.
std::string DecodeKnown(const text::Tokenizer& tokenizer, std::vector<int32_t> ids);

struct WritingOptions {
  std::string prefix;                  // put before every text, such as "summarize: "
  int64_t together = 32;               // texts in one batch
  model::GenerationSettings settings;  // see LanguageModel::Settings
  std::function<bool()> stop = {};     // asked before each token; once true, texts stay as they are (model::Generate)
};

/// A text that a model wrote.
struct Written {
  std::string text;
  std::vector<int32_t> ids;               // of what was written, with the token that ended it
  int64_t source_tokens = 0, tokens = 0;  // of what was read, and of what was written
  double score = 0;                       // of a beam search
  bool ended = false;                     // by its end token, not by its greatest length
};

/// Const members may be called from several threads.
class LanguageModel {
 public:
  /// Opens and builds it. `note` receives what was assumed. Later errors name the model by the entry's id, if it has
  /// one. Throws Error as OpenAnyCheckpoint, and as the constructor.
  static LanguageModel Open(const ModelEntry& entry, const Note& note = {});
  /// Builds an open model, from the cache if possible. Throws Error if its folder has no tokenizer or one with other
  /// ids.
  LanguageModel(model::TextCheckpoint checkpoint, const ModelEntry& entry, const Note& note = {});

  const model::TextCheckpoint& checkpoint() const { return *checkpoint_; }
  const model::TextModel& model() const { return *model_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }      // of what is read
  const text::Tokenizer& target_tokenizer() const { return target_; }  // of what an encoder-decoder writes

  /// A vector of each text, [texts, width]. Longer texts than the model takes are cut; `note` receives how many, and
  /// which is the first, by its number from 1. Throws Error if the model has a decoder.
  /// prompt: stands before each text, in place of that of the model's files.
  Tensor<float> Embed(std::span<const std::string> texts, const Note& note = {},
                      const std::optional<std::string>& prompt = {}) const;
  /// The same for texts as Read gives them.
  Tensor<float> Embed(std::span<const TextIds> texts, const std::optional<std::string>& prompt = {}) const;
  /// Each text as an embedding encoder reads it, cut to its length. Throws Error as Encode.
  std::vector<TextIds> Read(std::span<const std::string> texts, const std::optional<std::string>& prompt = {}) const;

  /// The prefix in the model's files for this task, "summarize" or "translate" (T5's task_specific_params).
  std::string Prefix(std::string_view task) const;

  /// UsualSettings of the model's files.
  model::GenerationSettings Settings(int64_t prompt = 1) const;
  /// Writes a text for each source with an encoder-decoder; an empty one for a source without words. Batches are of
  /// similar lengths; calls `done` with the number of finished texts. Throws Error that names the text, by its number
  /// from 1, if it is longer than the model reads, or if the model has no encoder or no decoder.
  std::vector<Written> Write(std::span<const std::string> texts, const WritingOptions& options,
                             const std::function<void(size_t)>& done = {}) const;
  /// The same for sources as ReadSources gives them, prefix included.
  std::vector<Written> Write(std::span<const TextIds> sources, const WritingOptions& options,
                             const std::function<void(size_t)>& done = {}) const;
  /// Sources as an encoder-decoder reads them, with the prefix. Throws Error as Write.
  std::vector<TextIds> ReadSources(std::span<const std::string> texts, const std::string& prefix) const;
  /// The same for ids, as Encode gives them, with a seed for each if options.settings has any.
  std::vector<Written> Write(std::span<const std::vector<int32_t>> ids, const WritingOptions& options,
                             const std::function<void(size_t)>& done = {}) const;
  /// The same for one text; passes it to `show` as it comes, which returns false to stop. A beam search passes it at
  /// the end.
  Written WriteOne(const std::string& text, const WritingOptions& options,
                   const std::function<bool(std::string_view)>& show) const;
  Written WriteOne(const TextIds& source, const WritingOptions& options,
                   const std::function<bool(std::string_view)>& show) const;
  /// Continues a text with a decoder alone, and passes the new text to `show` as it comes; it returns false to stop. A
  /// prompt that leaves no room is cut at its beginning, and `note` says so. `stop` is asked before each token, in a
  /// beam search too. Throws Error as ReadPrompt.
  Written Continue(const std::string& prompt, const model::GenerationSettings& settings,
                   const std::function<bool(std::string_view)>& show, const Note& note = {},
                   const std::function<bool()>& stop = {}) const;
  /// The same for ids, as ReadPrompt gives them.
  Written Continue(std::vector<int32_t> prompt, const model::GenerationSettings& settings,
                   const std::function<bool(std::string_view)>& show, const Note& note = {},
                   const std::function<bool()>& stop = {}) const;
  /// The ids of a text to be continued; for an empty one the token that begins a text. Throws Error if the model has
  /// none, or is no decoder alone, and for a text of more bytes than MaxTextBytes(model().text_length()).
  /// add_special_tokens: as the tokenizer's files say; a chat template writes its own.
  std::vector<int32_t> ReadPrompt(const std::string& prompt, bool add_special_tokens = true) const;

  /// The token that an encoder-decoder's decoder reads first. Throws Error if the model's files do not say it.
  int32_t StartToken() const;

  /// Greatest number of tokens of a text in training, or else that the model reads.
  int64_t usual_length() const;
  /// Number of tokens of a text.
  int64_t CountTokens(const std::string& text) const;
  /// The ids of each text, uncut. Throws Error that names a text without a token, by its number from 1, or with more
  /// bytes than MaxTextBytes(model().text_length()).
  std::vector<std::vector<int32_t>> Encode(std::span<const std::string> texts) const;

 private:
  void RequireWriter() const;
  std::string DecodeWritten(const std::vector<int32_t>& tokens) const;
  std::vector<std::vector<int32_t>> Encode(std::span<const std::string> texts, int64_t length) const;
  int64_t EmbeddedLength() const;
  const std::string& PromptOr(const std::optional<std::string>& prompt) const;
  int64_t CountPrompt(const std::string& prompt) const;

  text::Tokenizer tokenizer_, target_;  // of what is read, and of what is written
  std::shared_ptr<const model::TextCheckpoint> checkpoint_;
  std::shared_ptr<const model::TextModel> model_;
};

}  // namespace qkv::app
