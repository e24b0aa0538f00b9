// Small vocabularies of tests/text/golden, and the ids that the original libraries give.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/text/tokenizer.h"
#include "tests/support/files.h"

namespace qkv::text {

inline std::filesystem::path GoldenFolder() { return SourceFolder() / "tests/text/golden"; }

/// Texts of texts.json, which are hexadecimal there.
inline std::vector<std::string> GoldenTexts() {
  std::vector<std::string> texts;
  for (const auto& hex : io::ReadJson(SourceFolder() / "tests/text/golden/texts.json")) {
    std::string text;
    const auto& digits = hex.get_ref<const std::string&>();
    for (size_t i = 0; i < digits.size(); i += 2) {
      text += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    }
    texts.push_back(text);
  }
  return texts;
}

inline Tokenizer OpenGolden(const std::string& name) { return Tokenizer::Open(GoldenFolder() / name); }

}  // namespace qkv::text
