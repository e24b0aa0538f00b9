// The texts that a command takes: words, or files of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace qkv::cli {

struct CollectedTexts {
  std::vector<std::string> texts;
  std::vector<std::filesystem::path> files;  // that were read
};

/// given: words, names of files, or "-", standard input, which is also read if there are none. lines: each line of a
/// file is a text of its own, else the whole file. Throws Error if there is no text, or for a name of a file that is
/// missing.
CollectedTexts CollectTexts(const std::vector<std::string>& given, bool lines);

}  // namespace qkv::cli
