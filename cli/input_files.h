// The files that a command reads, none of which it writes over.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qkv::cli {

class InputFiles {
 public:
  /// Of the model in this folder or file (empty: none) that can be read by -m: weights and configuration.
  explicit InputFiles(const std::string& model);

  void Add(const std::filesystem::path& file);
  void Add(std::span<const std::filesystem::path> files);

  /// Throws Error when `file` (empty: nothing is written) cannot be written without loss: its folder does not exist, it
  /// is a folder itself, it is one of these files, or it was asked for before: two results in one file. To be asked
  /// before long work, not after it.
  void RequireOutput(const std::string& file);

 private:
  using Identity = std::pair<dev_t, ino_t>;
  static std::optional<Identity> IdentityOf(const std::filesystem::path& file);

  std::vector<std::filesystem::path> files_;
  std::set<std::filesystem::path> outputs_;
  // Looked up once an output is there already.
  std::map<Identity, const std::filesystem::path*> known_;
};

}  // namespace qkv::cli
