// "▁", which SentencePiece and its kin write in place of a space, and the words that begin with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace qkv::text {

inline constexpr std::string_view kWordStart = "\xe2\x96\x81";

/// The end of the word at `begin`: of its marks, and of what follows up to the next one.
inline size_t WordEnd(std::string_view text, size_t begin) {
  size_t end = begin;
  while (text.substr(end).starts_with(kWordStart)) end += kWordStart.size();
  return std::min(text.find(kWordStart, end), text.size());
}

/// Calls use(word) for each word.
template <typename F>
void ForEachWord(std::string_view text, F&& use) {
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = WordEnd(text, begin);
    use(text.substr(begin, end - begin));
  }
}

}  // namespace qkv::text
