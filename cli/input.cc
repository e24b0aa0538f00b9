#include "cli/input.h"

#include <array>
#include <cstdio>

#include "qkv/core/error.h"

namespace qkv::cli {

std::string ReadStandardInput(size_t max_bytes, std::string_view what, std::string_view advice) {
  std::string text;
  std::array<char, 1 << 16> block;
  for (size_t got = 1; got > 0; text.append(block.data(), got)) {
    got = std::fread(block.data(), 1, block.size(), stdin);
    Require(text.size() + got <= max_bytes, "{} on standard input has more than {} bytes; {}", what, max_bytes, advice);
  }
  return text;
}

}  // namespace qkv::cli
