// Texts that are longer than a model reads: cut in pieces at the ends of sentences, and answers joined again.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "qkv/app/texts/language.h"

namespace qkv::app {

struct Pieces {
  std::vector<std::string> texts;
  std::vector<size_t> of;  // the text that each piece belongs to
  size_t cut = 0;          // texts of more than one piece
};

/// Each text as it is or, with `may_cut`, in pieces of up to model.usual_length() tokens, prefix included: of whole
/// sentences, of words where a sentence is longer, of characters where a word is. Throws Error that names a text, by
/// its number from 1, that is longer, if it may not be cut; `command` is the prefix of the message.
Pieces CutTexts(std::span<const std::string> texts, const LanguageModel& model, const std::string& prefix, bool may_cut,
                const std::string& command);

/// The answers to the pieces of each text, joined by spaces; numbers are sums, and it has ended if all of them have.
std::vector<Written> JoinPieces(const Pieces& pieces, std::span<const Written> written);

}  // namespace qkv::app
