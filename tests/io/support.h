// Safetensors files made by hand, honest or not.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "qkv/core/error.h"

namespace qkv::io {

/// The file: the header's length (a lie when given), the header, the data.
inline std::string MakeFile(std::string_view header, std::string_view data = "", int64_t length = -1) {
  const uint64_t stated = length < 0 ? header.size() : static_cast<uint64_t>(length);
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(stated >> (8 * i) & 0xFF);
  return file.append(header).append(data);
}

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// What `action` says when it throws Error; a failed test when it does not.
inline std::string ErrorMessage(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

#define EXPECT_MESSAGE(action, part)                                                   \
  do {                                                                                 \
    const std::string message = ErrorMessage([&] { (void)(action); });                 \
    EXPECT_NE(message.find(part), std::string::npos) << "the message is: " << message; \
  } while (false)

}  // namespace qkv::io
