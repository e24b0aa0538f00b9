// Cleaning of texts (qkv/text/clean.h): any bytes become valid UTF-8, which has no spaces that cleaning takes.
#include <cstdlib>
#include <string>
#include <string_view>

#include "qkv/core/work.h"
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
  // Work grows as the text does.
  std::string more;
  for (int i = 0; i < 4; ++i) more += text;
  const auto steps = [](std::string_view of) {
    const int64_t before = qkv::StepsDone();
    qkv::text::CleanCanonical(of);
    return qkv::StepsDone() - before;
  };
  Check(steps(more) <= 16 * steps(text) + 100'000);
  Check(canonical.find_first_of("_&!\"") == canonical.npos);
  return 0;
}
