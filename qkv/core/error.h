// The one exception type of the library, and the check that throws it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace qkv {

/// A bad file, shape or request. what() says the operation, what was expected, what came, and where.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// Throws Error with the formatted message.
template <typename... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> message, Args&&... args) {
  throw Error(fmt::format(message, std::forward<Args>(args)...));
}

/// Throws Error with the formatted message unless `ok`.
template <typename... Args>
void Require(bool ok, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) [[unlikely]] {
    throw Error(fmt::format(message, std::forward<Args>(args)...));
  }
}

}  // namespace qkv
