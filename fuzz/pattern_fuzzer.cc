// Patterns of tokenizers: any bytes are one, or an Error. What is before the first zero byte is the pattern, the rest a
// text. Matches ascend and are whole characters.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/text/regex.h"
#include "qkv/text/unicode.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\0'), size);
  const std::string text = qkv::text::ReplaceInvalidUtf8(bytes.substr(std::min(size, end + 1)));
  try {
    const qkv::text::Regex regex(bytes.substr(0, end), "fuzz");
    size_t last = 0;
    regex.ForEachMatch(text, [&](size_t begin, size_t match_end) {
      Check(last <= begin && begin <= match_end && match_end <= text.size());
      Check(qkv::text::IsValidUtf8(std::string_view(text).substr(begin, match_end - begin)));
      last = match_end;
    });
  } catch (const qkv::Error&) {
  }
  return 0;
}
