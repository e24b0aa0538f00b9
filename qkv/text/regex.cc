#include "qkv/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <memory>
#include <string>

#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "qkv/text/pattern.h"

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
// Characters that a pattern may look back: where there are fewer in front, that costs steps which are not counted.
constexpr uint32_t kMaxLookBehind = 255;
// Bytes of a literal that is searched for without counting: each may be compared at every byte of the text.
constexpr size_t kMaxLiteral = 32;
// Steps of an item of a pattern, and of a match, besides the bytes that they pass.
constexpr int64_t kItemSteps = 8, kMatchSteps = 16;
// A class may have so many ranges that a character takes long to look up: more steps for longer patterns.
constexpr size_t kPatternBytesPerStep = 1024;

constexpr std::string_view kLinearPatterns[] = {
    // GPT-2, RoBERTa, GPT-NeoX, StarCoder
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    // CLIP
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
    // Qwen2, Qwen3
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Llama 3, GLM-4
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // GPT-4 (cl100k)
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++)"
    R"([\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
    // GPT-4o (o200k), Llama 4
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Mistral's Tekken
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // DeepSeek-V3
    R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // DeepSeek-Coder, DeepSeek-LLM
    R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", R"(\p{N}+)",
    // Falcon
    "[0-9][0-9][0-9]",
    // Normalizers of CLIP and ALBERT, and splits by hand
    R"(\s+)", R"(\s)", " {2,}", " +", R"(\n+)", R"(\w+|[^\w\s])", R"(\w+|[^\w\s]+)"};

// True if the pattern is a short text that stands for itself, as EscapeRegex writes it.
bool IsShortLiteral(std::string_view pattern) {
  size_t bytes = 0;
  for (size_t i = 0; i < pattern.size(); ++i, ++bytes) {
    const char c = pattern[i];
    const bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter || c == ' ' || static_cast<unsigned char>(c) >= 0x80) continue;
    if (!pattern.substr(i).starts_with("\\x{")) return false;
    i = pattern.find_first_not_of("0123456789abcdef", i + 3);
    if (i == pattern.npos || pattern[i] != '}') return false;
  }
  return bytes <= kMaxLiteral;
}

struct FreeContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

// What the callouts of a match count.
struct Counter {
  size_t weight = 1;  // steps of a byte that is passed
  bool has_references = false;
  size_t last = 0;            // the byte at which the item before began
  std::exception_ptr thrown;  // no exception may pass through PCRE2
};

// Before each item of a counted pattern. What a repeat has passed, forward or backwards, is told by the place of the
// item behind it, within look-arounds and atomic groups too, which PCRE2's limits do not count.
int CountItem(pcre2_callout_block* block, void* data) noexcept {
  auto& counter = *static_cast<Counter*>(data);
  const size_t at = block->current_position;
  size_t bytes = at > counter.last ? at - counter.last : counter.last - at;
  counter.last = at;
  // A reference to a group compares its text.
  for (uint32_t i = 1; counter.has_references && i < block->capture_top; ++i) {
    const size_t begin = block->offset_vector[2 * i], end = block->offset_vector[2 * i + 1];
    if (begin != PCRE2_UNSET && end > begin) bytes += end - begin;
  }
  try {
    Spend(kItemSteps + static_cast<int64_t>(bytes * counter.weight));
  } catch (...) {
    counter.thrown = std::current_exception();
    return PCRE2_ERROR_CALLOUT;
  }
  return 0;
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

std::span<const std::string_view> LinearPatterns() { return kLinearPatterns; }

struct Regex::Compiled {
  ~Compiled() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
  std::string pattern;  // as given
  bool counted = false;
  size_t weight = 1;
  bool has_references = false;
};

Regex::Regex(std::string_view pattern, std::string_view where, Steps steps) {
  Require(pattern.size() <= kMaxPattern, "{}: expected a pattern of at most {} bytes, got {}", where, kMaxPattern,
          pattern.size());
  const std::string translated = TranslatePattern(pattern, where);
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern;
  compiled->counted =
      steps == Steps::kCounted ||
      (std::ranges::find(kLinearPatterns, pattern) == std::end(kLinearPatterns) && !IsShortLiteral(pattern));
  compiled->weight = 1 + pattern.size() / kPatternBytesPerStep;
  const std::unique_ptr<pcre2_compile_context, FreeContext> context(pcre2_compile_context_create(nullptr));
  Require(context != nullptr, "regular expression: out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    options | (compiled->counted ? PCRE2_AUTO_CALLOUT : 0), &error, &offset, context.get());
  if (compiled->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    Fail("{}: expected a regular expression, got \"{}\": {}", where, pattern,
         reinterpret_cast<const char*>(message.data()));
  }
  uint32_t references = 0, behind = 0;
  pcre2_pattern_info(compiled->code, PCRE2_INFO_BACKREFMAX, &references);
  pcre2_pattern_info(compiled->code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
  Require(behind <= kMaxLookBehind, "{}: expected a pattern that looks back at most {} characters, got {}: \"{}\"",
          where, kMaxLookBehind, behind, pattern);
  compiled->has_references = references > 0;
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);  // without it the interpreter matches
  compiled_ = std::move(compiled);
}

void Regex::ForEachMatch(std::string_view text, const std::function<void(size_t begin, size_t end)>& found) const {
  thread_local const MatchData match;
  Require(match.data != nullptr && match.context != nullptr, "regular expression: out of memory");
  pcre2_set_match_limit(match.context, MatchLimit(text.size()));
  Counter counter{.weight = compiled_->weight, .has_references = compiled_->has_references};
  pcre2_set_callout(match.context, compiled_->counted ? &CountItem : nullptr, &counter);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.data);
  size_t at = 0, last = std::string_view::npos;  // the end of the match before
  while (at <= text.size()) {
    counter.last = at;
    const int result =
        pcre2_match(compiled_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.data, match.context);
    if (counter.thrown != nullptr) std::rethrow_exception(counter.thrown);
    if (result == PCRE2_ERROR_NOMATCH) {
      Spend(kMatchSteps + static_cast<int64_t>(text.size() - at));
      return;
    }
    Require(result >= 0, "regular expression \"{}\": takes too many steps on a text of {} bytes (PCRE2 error {})",
            compiled_->pattern, text.size(), result);
    const size_t begin = range[0], end = range[1];
    Spend(kMatchSteps + static_cast<int64_t>(std::max(at, end) - at));
    if (begin == end && end == last) {
      ++at;
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
