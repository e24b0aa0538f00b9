#include "cli/text_inputs.h"

#include <cstddef>
#include <string_view>
#include <system_error>

#include "qkv/app/texts/texts.h"
#include "qkv/core/error.h"
#include "qkv/core/lines.h"

namespace qkv::cli {

namespace fs = std::filesystem;

CollectedTexts CollectTexts(const std::vector<std::string>& given, bool lines) {
  constexpr size_t kMaxTextBytes = size_t{1} << 30;
  CollectedTexts inputs;
  const auto add_file = [&](const std::string& name) {
    if (name != "-") inputs.files.emplace_back(name);
    const std::string content = ReadFileOrInput(name, kMaxTextBytes, "the texts");
    if (!lines) {
      Require(!Trim(content).empty(), "{}: there is no text in it", name);
      inputs.texts.push_back(content);
      return;
    }
    for (const std::string_view line : SplitFilledLines(content)) inputs.texts.emplace_back(line);
  };
  if (given.empty()) add_file("-");
  for (const std::string& text : given) {
    std::error_code ignored;
    if (text == "-" || fs::is_regular_file(text, ignored)) {
      add_file(text);
    } else {
      app::RequireWords(text, "TEXT");
      inputs.texts.push_back(text);
    }
  }
  Require(!inputs.texts.empty(), "expected a text, got none");
  return inputs;
}

}  // namespace qkv::cli
