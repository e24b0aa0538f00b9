// The golden models of tests/golden.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace qkv {

inline std::filesystem::path GoldenFolder(const std::string& name) { return SourceFolder() / "tests/golden" / name; }

/// The models in a folder with stored outputs of the original library, sorted.
inline std::vector<std::string> GoldensIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// All image models. Looked for once: several suites of a process ask.
inline const std::vector<std::string>& GoldenNames() {
  static const std::vector<std::string> names = GoldensIn(GoldenFolder(""));
  return names;
}

inline std::filesystem::path TextGoldenFolder(const std::string& name) { return GoldenFolder("text") / name; }

/// All text models.
inline std::vector<std::string> TextGoldenNames() { return GoldensIn(GoldenFolder("text")); }

}  // namespace qkv
