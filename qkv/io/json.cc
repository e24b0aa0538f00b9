#include "qkv/io/json.h"

#include "qkv/core/error.h"
#include "qkv/core/file.h"

namespace qkv::io {
namespace {

// The largest such files are tokenizers of text models, about 20 MB.
constexpr size_t kMaxFileBytes = size_t{64} << 20;

}  // namespace

Json ParseJson(std::string_view text, std::string_view where) {
  CheckJsonLimits(text, {}, where);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    Fail("{}: not valid JSON: {}", where, JsonErrorReason(error));
  }
}

Json ReadJson(const std::filesystem::path& path) { return ParseJson(ReadFile(path, kMaxFileBytes), path.string()); }

void CheckJsonLimits(std::string_view text, const JsonLimits& limits, std::string_view where) {
  int depth = 0;
  size_t token = 0, values = 0;  // bytes of the current token; commas outside of strings
  bool in_string = false, escaped = false;
  for (const char c : text) {
    Require(c != '\0', "{}: not valid JSON: it holds a zero byte", where);
    if (in_string) {
      in_string = escaped || c != '"';
      escaped = !escaped && c == '\\';
      ++token;
    } else {
      switch (c) {
        case '"':
          in_string = true;
          token = 0;
          break;
        case '{':
        case '[':
          Require(++depth <= limits.depth, "{}: JSON nested more than {} deep", where, limits.depth);
          token = 0;
          break;
        case ',':
          Require(++values <= limits.values, "{}: JSON with more than {} values", where, limits.values);
          token = 0;
          break;
        case '}':
        case ']':
          --depth;
          token = 0;
          break;
        case ':':
        case ' ':
        case '\n':
        case '\r':
        case '\t':
          token = 0;
          break;
        default:
          ++token;
      }
    }
    Require(token <= limits.token_bytes, "{}: JSON with a string or number of more than {} bytes", where,
            limits.token_bytes);
  }
}

std::string JsonErrorReason(const Json::exception& error) {
  constexpr size_t kShown = 160;
  std::string_view what = error.what();
  if (const size_t code = what.find("] "); what.starts_with("[json.exception") && code != what.npos) {
    what.remove_prefix(code + 2);
  }
  return what.size() <= kShown ? std::string(what) : std::string(what.substr(0, kShown)) + "…";
}

}  // namespace qkv::io

fmt::format_context::iterator fmt::formatter<qkv::io::Quoted>::format(const qkv::io::Quoted& quoted,
                                                                      fmt::format_context& context) const {
  constexpr size_t kShown = 120;
  const std::string_view name = quoted.name;
  const std::string shown = qkv::io::Json(name.substr(0, kShown))
                                .dump(-1, ' ', /*ensure_ascii=*/true, qkv::io::Json::error_handler_t::replace) +
                            (name.size() > kShown ? "…" : "");
  return fmt::formatter<std::string_view>::format(shown, context);
}
