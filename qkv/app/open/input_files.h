// Protects the files that a command reads from being overwritten by what it writes.
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

namespace qkv::app {

class InputFiles {
 public:
  /// Adds the files of the model in this folder or file, or with this id of the hub: weights, shards, configuration and
  /// tokenizer. Empty: none. Throws Error if the hub's cache lacks the id.
  explicit InputFiles(const std::string& model);

  void Add(const std::filesystem::path& file);
  void Add(std::span<const std::filesystem::path> files);

  /// Throws Error if `file` cannot be written without loss: its folder does not exist, it is a folder, it is one of the
  /// input files, or it was required before (two results in one file). Empty: nothing is written. Call it before long
  /// work, not after.
  void RequireOutput(const std::string& file);

 private:
  using Identity = std::pair<dev_t, ino_t>;
  static std::optional<Identity> ReadIdentity(const std::filesystem::path& file);

  std::vector<std::filesystem::path> files_;
  std::set<std::filesystem::path> outputs_;
  // Filled when the first existing output is checked.
  std::map<Identity, const std::filesystem::path*> known_;
};

}  // namespace qkv::app
