#include "qkv/app/open/json_line.h"

#include "qkv/core/text.h"

namespace qkv::app {

std::string JsonLine(const io::Json& json) {
  constexpr auto kReplace = io::Json::error_handler_t::replace;
  std::string line = json.dump(-1, ' ', /*ensure_ascii=*/false, kReplace);
  // JSON escapes only some of the characters that a terminal would execute.
  if (Printable(line) != line) line = json.dump(-1, ' ', /*ensure_ascii=*/true, kReplace);
  return line;
}

std::string JsonInScript(const io::Json& json) {
  std::string script = json.dump(-1, ' ', /*ensure_ascii=*/true, io::Json::error_handler_t::replace);
  for (size_t at = 0; (at = script.find('<', at)) != std::string::npos;) script.replace(at, 1, "\\u003c");
  return script;
}

}  // namespace qkv::app
