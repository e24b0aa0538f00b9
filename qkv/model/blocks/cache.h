// Where built layers are cached, and how strictly cached files are checked.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace qkv::model {

/// Location and policy of the cache. A failure of the cache (full disk, no permission, a broken file) never prevents
/// building a model: it is only noted.
struct Cache {
  std::filesystem::path folder = {};                       // created if missing; empty: no cache
  std::function<void(const std::string& text)> note = {};  // receives why a file was not used, or not written; or empty
  // A model whose files changed more recently is not cached: another change could leave the same time.
  std::chrono::nanoseconds rest = std::chrono::milliseconds(100);
  // Reads all bytes of the model and of the cached file, and uses it only if both match the stored checksums. This
  // finds flipped bits on disk, and weights changed through a mapping, whose file time moves only when written back.
  // Otherwise only names, shapes, the first bytes of each tensor, sizes and times are compared.
  bool verify = false;
};

/// $QKV_CACHE, else $XDG_CACHE_HOME/qkv, else $HOME/.cache/qkv; empty if none of them is set.
std::filesystem::path CacheFolder();

}  // namespace qkv::model
