// Regular expressions of tokenizers, by PCRE2 with its JIT compiler. Patterns are those of Oniguruma (pattern.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace qkv::text {

/// A compiled pattern; const members may be called from several threads. Copies share the pattern.
class Regex {
 public:
  /// Whether the steps within a match are counted, which makes it a few times slower.
  enum class Steps { kCounted, kUncountedIfLinear };
  /// Throws Error, prefixed with `where`, if `pattern` is no pattern, has what pattern.h does not support, is longer
  /// than 64 KiB, or looks back further than 255 characters. Steps are counted unless the pattern is one of
  /// LinearPatterns or a short literal text.
  Regex(std::string_view pattern, std::string_view where, Steps steps = Steps::kUncountedIfLinear);

  /// Calls found(begin, end) for each match in valid UTF-8, from left to right, without overlaps. An empty match that
  /// touches the one before it is none. Throws Error when the pattern takes too many steps.
  void ForEachMatch(std::string_view text, const std::function<void(size_t begin, size_t end)>& found) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

/// The patterns of published tokenizers that take linear time on every text; tests/text/growth_test.cc counts it.
std::span<const std::string_view> LinearPatterns();

/// The pattern that matches exactly `text`.
std::string EscapeRegex(std::string_view text);

}  // namespace qkv::text
