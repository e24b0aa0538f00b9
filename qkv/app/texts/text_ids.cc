#include "qkv/app/texts/text_ids.h"

#include <algorithm>

#include "qkv/core/text.h"

namespace qkv::app {

void RequireTextBytes(size_t bytes, int64_t tokens, const std::string& what) {
  const auto most = static_cast<size_t>(MaxTextBytes(tokens));
  RequireTextLength(bytes <= most,
                    "{} has {} bytes, and the model reads {} tokens: expected up to {} bytes (16384, and 64 a token)",
                    what, bytes, tokens, most);
}

void NoteCutTexts(const Note& note, std::span<const std::string> texts, std::span<const uint8_t> is_cut,
                  int64_t length) {
  constexpr size_t kShown = 60;  // bytes of a text
  const auto cut = std::ranges::count(is_cut, 1);
  if (cut == 0) return;
  const auto first = static_cast<size_t>(std::ranges::find(is_cut, 1) - is_cut.begin());
  Notify(note, FormatShown("{} of {} texts have more than the model's {} tokens and are cut, first number {}: {}", cut,
                           texts.size(), length, first + 1, Printable(texts[first], kShown)));
}

}  // namespace qkv::app
