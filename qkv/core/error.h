// The one exception type of the library, and the check that throws it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "qkv/core/text.h"

namespace qkv {

/// A bad file, shape or request. what() has the operation, the expected and the actual value, and the place.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}  // what() is `message`
};

/// Text made of escaped names (FormatShown, Error::what): it goes into a message unchanged, including line feeds.
struct EscapedText {
  std::string_view text;  // printable
};

namespace internal {
// Longer texts do not help in a message: a name from a file may be as long as the file.
inline constexpr size_t kMaxInMessage = 1000;

template <size_t max_bytes, typename T>
decltype(auto) AsShown(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return Printable(value, max_bytes);
  } else {
    return (value);
  }
}

template <size_t max_bytes, typename... Args>
std::string Format(fmt::string_view format, const Args&... args) {
  return [&](const auto&... shown) {
    return fmt::vformat(format, fmt::make_format_args(shown...));
  }(AsShown<max_bytes>(args)...);
}
}  // namespace internal

/// fmt::format with every text among `args` made Printable, because names in a message come from untrusted files. Line
/// feeds in the format stay.
template <typename... Args>
std::string FormatShown(fmt::format_string<Args...> format, Args&&... args) {
  return internal::Format<std::string_view::npos>(format, args...);
}

/// Throws Error with the message of FormatShown, which takes the first 1,000 bytes of each text among `args`.
template <typename... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> message, Args&&... args) {
  throw Error(internal::Format<internal::kMaxInMessage>(message, args...));
}

/// Calls Fail unless `ok`.
template <typename... Args>
void Require(bool ok, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) [[unlikely]] {
    throw Error(internal::Format<internal::kMaxInMessage>(message, args...));
  }
}

}  // namespace qkv

template <>
struct fmt::formatter<qkv::EscapedText> : fmt::formatter<std::string_view> {
  auto format(const qkv::EscapedText& lines, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(lines.text, context);
  }
};
