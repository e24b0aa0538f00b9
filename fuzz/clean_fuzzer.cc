// Cleaning of texts (qkv/text/clean.h): any bytes become valid UTF-8, which has no spaces that cleaning takes.
#include <cstdlib>
#include <string>
#include <string_view>

#include "qkv/text/clean.h"
#include "qkv/text/unicode.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

void CheckClean(const std::string& text) {
  Check(qkv::text::IsValidUtf8(text));
  Check(text.find("  ") == text.npos && !text.starts_with(' ') && !text.ends_with(' '));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckClean(qkv::text::CleanWhitespace(text));
  CheckClean(qkv::text::CleanLower(text));
  const std::string canonical = qkv::text::CleanCanonical(text);
  CheckClean(canonical);
  Check(canonical.find_first_of("_&!\"") == canonical.npos);
  return 0;
}
