// Regular expressions of tokenizers, by PCRE2 with its JIT compiler. Patterns are those of Oniguruma or Rust's regex:
// \s, \w and their complements mean what they mean there.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace qkv::text {

/// A compiled pattern; const members may be called from several threads. Copies share the pattern.
class Regex {
 public:
  /// Throws Error, prefixed with `where`, if `pattern` is no pattern or longer than 64 KiB.
  Regex(std::string_view pattern, std::string_view where);

  /// Calls found(begin, end) for each match in valid UTF-8, from left to right, without overlaps. An empty match that
  /// touches the one before it is none. Throws Error when the pattern takes too many steps.
  void ForEachMatch(std::string_view text, const std::function<void(size_t begin, size_t end)>& found) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

/// The pattern that matches exactly `text`.
std::string EscapeRegex(std::string_view text);

}  // namespace qkv::text
