// What the page asks of the engine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace qkv::web {

/// The packet that answers a packet of the call `name`. Throws Error.
std::string Answer(std::string_view name, std::span<const std::byte> request);

/// The packet that says what was wrong.
std::string ErrorAnswer(std::string_view message);

}  // namespace qkv::web
