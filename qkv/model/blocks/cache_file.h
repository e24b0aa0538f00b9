// A file of the cache of built models, for models of any kind: its sources, its name, reading and writing it. Not here:
// the layers themselves (vit_parts.cc, text_parts.cc).
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/blocks/cache.h"
#include "qkv/model/blocks/options.h"

namespace qkv::model {

/// The sources of the layers.
struct CacheSource {
  const std::string& path;           // of the model
  const std::string& configuration;  // text of its configuration files
  const io::TensorSet& tensors;
};

std::filesystem::path CacheFile(const CacheSource& source, const BuildOptions& options,
                                const std::filesystem::path& folder);

/// The cached file of a model and these options.
class CachedLayers {
 public:
  CachedLayers(const CacheSource& source, const BuildOptions& options, const Cache& cache);

  bool exists() const;
  /// Throws Error with the reason if the file cannot be used.
  std::shared_ptr<const io::SafeTensors> Open() const;
  /// Throws Error with the reason if the file cannot be written, or if the model changed.
  void Keep(const std::vector<io::StoredTensor>& layers) const;
  void Note(std::string_view what, std::string_view why) const;

 private:
  const CacheSource source_;
  const Cache& cache_;
  std::filesystem::path path_;
  std::string identity_;
  bool settled_;  // when this was made: building may take long
};

/// restore(tensors) of the cached file, or build(), whose layers are kept: model.Store(options).
template <typename Build, typename Restore>
auto BuildThroughCache(const CacheSource& source, const BuildOptions& options, const Cache& cache, Build&& build,
                       Restore&& restore) {
  if (cache.folder.empty() || source.tensors.files().empty()) return build();
  const CachedLayers cached(source, options, cache);
  if (cached.exists()) {
    try {
      return restore(cached.Open());
    } catch (const std::exception& error) {
      cached.Note("not used", error.what());
    }
  }
  auto model = build();
  try {
    cached.Keep(model.Store(options));
  } catch (const std::exception& error) {
    cached.Note("not kept", error.what());
  }
  return model;
}

}  // namespace qkv::model
