#include "qkv/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "qkv/core/error.h"
#include "qkv/text/unicode_versions.h"

namespace qkv::text {
namespace {

constexpr size_t kMaxPattern = size_t{64} << 10;
// Steps of one match: the patterns in use need a few for a character. Fewer for short texts bound the time of a pattern
// that backtracks at every character.
uint32_t MatchLimit(size_t size) {
  constexpr size_t kLeast = 10'000, kPerByte = 64, kMost = size_t{1} << 31;
  return static_cast<uint32_t>(std::min(kLeast + kPerByte * size, kMost));
}
constexpr size_t kJitStack = size_t{512} << 10;

// As in Oniguruma and Rust; PCRE2's \s has U+180E too, its \w has neither marks nor connectors.
constexpr std::string_view kSpaces = R"(\x{9}-\x{d}\x{20}\x{85}\p{Z})";
constexpr std::string_view kNoSpaces = R"(\x{0}-\x{8}\x{e}-\x{1f}!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
                                       R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff})"
                                       R"(\x{3001}-\x{10ffff})";
// Oniguruma counts the digits and fractions of Latin-1 too.
constexpr std::string_view kWordClass = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

// Categories that have more members in later versions of Unicode.
struct Property {
  std::string_view name, more;
};
constexpr Property kProperties[] = {
    {R"(\p{L})", kNewLetters}, {R"(\p{N})", kNewNumbers}, {R"(\p{M})", kNewMarks}, {R"(\p{P})", kNewPunctuation}};

const Property* PropertyAt(std::string_view pattern) {
  const auto* found = std::find_if(std::begin(kProperties), std::end(kProperties),
                                   [&](const Property& property) { return pattern.starts_with(property.name); });
  return found == std::end(kProperties) ? nullptr : found;
}

// Rewrites the classes that differ. \W inside of a class stays PCRE2's.
std::string Translate(std::string_view pattern) {
  std::string to;
  int depth = 0;  // of brackets
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      const bool within = depth > 0;
      if (next == 's') {
        to += within ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
      } else if (next == 'S') {
        to += within ? std::string(kNoSpaces) : fmt::format("[^{}]", kSpaces);
      } else if (next == 'w') {
        to += within ? std::string(kWordClass) : fmt::format("[{}]", kWordClass);
        to.insert(to.size() - (within ? 0 : 1), kNewWord);
      } else if (next == 'W' && !within) {
        to += fmt::format("[^{}{}]", kWordClass, kNewWord);
      } else if (const Property* property = PropertyAt(pattern.substr(i - 1))) {
        to += fmt::format(R"({}{}{}{})", within ? "" : "[", property->name, property->more, within ? "" : "]");
        i += property->name.size() - 2;
      } else {
        to += c;
        to += next;
      }
      continue;
    }
    if (c == '[' && depth == 0) {
      depth = 1;
      to += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') to += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') to += pattern[++i];
      continue;
    }
    if (c == ']') depth = 0;
    to += c;
  }
  return to;
}

struct MatchData {
  MatchData() : data(pcre2_match_data_create(1, nullptr)), context(pcre2_match_context_create(nullptr)) {
    stack = pcre2_jit_stack_create(32 << 10, kJitStack, nullptr);
    if (context != nullptr && stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~MatchData() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

}  // namespace

struct Regex::Compiled {
  ~Compiled() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
  std::string pattern;  // as given
};

Regex::Regex(std::string_view pattern, std::string_view where) {
  Require(pattern.size() <= kMaxPattern, "{}: expected a pattern of at most {} bytes, got {}", where, kMaxPattern,
          pattern.size());
  const std::string translated = Translate(pattern);
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern;
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (compiled->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    Fail("{}: expected a regular expression, got \"{}\": {}", where, pattern,
         reinterpret_cast<const char*>(message.data()));
  }
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);  // without it the interpreter matches
  compiled_ = std::move(compiled);
}

void Regex::ForEachMatch(std::string_view text, const std::function<void(size_t begin, size_t end)>& found) const {
  thread_local const MatchData match;
  Require(match.data != nullptr && match.context != nullptr, "regular expression: out of memory");
  pcre2_set_match_limit(match.context, MatchLimit(text.size()));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.data);
  size_t at = 0, last = std::string_view::npos;  // the end of the match before
  while (at <= text.size()) {
    const int result =
        pcre2_match(compiled_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.data, match.context);
    if (result == PCRE2_ERROR_NOMATCH) return;
    Require(result >= 0, "regular expression \"{}\": takes too many steps on a text of {} bytes (PCRE2 error {})",
            compiled_->pattern, text.size(), result);
    const size_t begin = range[0], end = range[1];
    if (begin >= end) {
      if (begin == end && begin != last) found(begin, end);
      last = end;
      at = end + 1;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
      continue;
    }
    found(begin, end);
    at = last = end;
  }
}

std::string EscapeRegex(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') &&
        !(c >= 'a' && c <= 'z')) {
      fmt::format_to(std::back_inserter(escaped), "\\x{{{:x}}}", static_cast<unsigned>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace qkv::text
