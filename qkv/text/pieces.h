// Data between the steps of a tokenizer: text that is being normalised, and the pieces that it is split into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

/// A part of the input between added tokens: valid UTF-8.
struct Segment {
  std::string text;
  bool at_start = false;             // begins with the first character of the whole input
  size_t limit = std::string::npos;  // bytes that steps may make of it; they throw Error before they allocate much more
};

/// Changes the text. Sets at_start to false if it removes the beginning.
using Normalizer = std::function<void(Segment& segment)>;

/// Ranges of one text, ascending, not empty. What is between them is dropped.
struct Pieces {
  struct Range {
    size_t begin, end;
  };
  std::string text;
  std::vector<Range> ranges;
  bool at_start = false;             // the first range begins with the first character of the whole input
  size_t limit = std::string::npos;  // as a segment's

  std::string_view operator[](const Range& range) const {
    return std::string_view(text).substr(range.begin, range.end - range.begin);
  }
};

/// Splits pieces further, or rewrites them.
using PreTokenizer = std::function<void(Pieces& pieces)>;

}  // namespace qkv::text
