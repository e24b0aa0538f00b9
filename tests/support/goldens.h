// The golden models of tests/golden.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace qkv {

inline std::filesystem::path GoldenFolder(const std::string& name) { return SourceFolder() / "tests/golden" / name; }

/// All models with stored outputs of the original library, sorted.
inline std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SourceFolder() / "tests/golden")) {
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace qkv
