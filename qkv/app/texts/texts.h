// Texts through the text tower of a model with two towers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/app/texts/text_ids.h"
#include "qkv/model/two_tower.h"
#include "qkv/text/tokenizer.h"

namespace qkv::app {

/// A text tower with its tokenizer. Const members may be called from several threads.
class TextEncoder {
 public:
  /// model: outlives the encoder. folder: the model's, or a file in it; its tokenizer is read. Throws Error if there is
  /// none, or one with other ids. `note` receives unknown settings in its files.
  TextEncoder(const model::TwoTowerModel& model, const std::filesystem::path& folder, const Note& note = {});

  /// Vectors of unit length, [texts, width]. Texts are cut to the model's length; `note` receives how many and which is
  /// the first, by its number from 1. Throws Error as the tokenizer.
  Tensor<float> Embed(std::span<const std::string> texts, const Note& note = {}) const;

  /// The same for texts as Read gives them.
  Tensor<float> Embed(std::span<const TextIds> texts) const;

  /// Each text as the original library reads it: cleaned, cut to the model's length, and padded if the model attends to
  /// what follows a text. Throws Error as the tokenizer, and for a text of more bytes than MaxTextBytes.
  std::vector<TextIds> Read(std::span<const std::string> texts) const;

  /// The ids that Read gives, padded to those of the longest text: [texts, tokens].
  text::TokenBatch Encode(std::span<const std::string> texts) const;

  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  text::TokenBatch Fill(std::span<const TextIds> texts) const;
  void Embed(std::span<const TextIds> texts, model::TowerWorkspace& workspace, View<float> out) const;
  // False for a causal encoder that reads a token within the text: it does not see what follows.
  bool SeesAll() const;

  const model::TwoTowerModel& model_;
  text::Tokenizer tokenizer_;
};

/// Reports unknown settings in the tokenizer's files to `note`. source: the model.
void NotifySettings(const text::Tokenizer& tokenizer, const std::string& source, const Note& note);

/// Throws Error that begins with `source` if the tokenizer gives ids outside the model's vocabulary.
void RequireIdsWithin(const text::Tokenizer& tokenizer, int64_t vocabulary, const std::string& source);

/// The texts of a file, or of standard input if it is "-", one a line; empty lines at the end do not count. Text i is
/// line i + 1. Throws Error if there are none.
std::vector<std::string> ReadTexts(const std::filesystem::path& file);

/// Throws Error, which begins with `option`, if words look like the name of a file, which then is missing: "-", a text
/// without spaces but with a slash, or one that ends as images and text files do. A space at their end forces words.
void RequireWords(std::string_view words, std::string_view option);

}  // namespace qkv::app
