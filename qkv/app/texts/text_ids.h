// A text as a model reads it, and how long texts may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/core/error.h"

namespace qkv::app {

struct TextIds {
  std::vector<int32_t> ids;  // that are read
  int64_t read = 0;          // number of them without padding
  int64_t tokens = 0;        // of the whole text
  bool is_blank = false;     // it has no words

  bool is_cut() const { return read < tokens; }
};

/// Bytes of a text that are encoded for a model that reads so many tokens, cut or not.
constexpr int64_t MaxTextBytes(int64_t tokens) { return 16384 + 64 * tokens; }

/// A text is too long for the model, which cuts none: the server answers 413.
class TextLengthError : public Error {
 public:
  using Error::Error;
};

/// As Require, for the length of a text.
template <typename... Args>
void RequireTextLength(bool ok, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) throw TextLengthError(FormatShown(message, std::forward<Args>(args)...));
}

/// Throws TextLengthError if a text has more bytes than that; `what` is its name at the beginning of the message: "text
/// 3".
void RequireTextBytes(size_t bytes, int64_t tokens, const std::string& what);

/// Notes how many texts are cut to `length` tokens, and which is the first, by its number from 1. is_cut: one for each
/// text.
void NoteCutTexts(const Note& note, std::span<const std::string> texts, std::span<const uint8_t> is_cut,
                  int64_t length);

}  // namespace qkv::app
