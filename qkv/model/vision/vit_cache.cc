// The cache of a Vit's layers.
#include "qkv/model/vision/vit_cache.h"

#include <utility>

#include "qkv/model/blocks/cache_file.h"

namespace qkv::model {
namespace {

CacheSource SourceOf(const Checkpoint& checkpoint) {
  return {checkpoint.source, checkpoint.configuration, *checkpoint.tensors};
}

}  // namespace

std::filesystem::path CacheFile(const Checkpoint& checkpoint, const BuildOptions& options,
                                const std::filesystem::path& folder) {
  return CacheFile(SourceOf(checkpoint), options, folder);
}

Vit<float> BuildCached(const Checkpoint& checkpoint, const BuildOptions& options, const Cache& cache) {
  const VitConfig& config = checkpoint.description.config;
  return BuildThroughCache(
      SourceOf(checkpoint), options, cache, [&] { return Vit<float>(config, checkpoint.bound, options); },
      [&](std::shared_ptr<const io::SafeTensors> kept) {
        return Vit<float>::Restore(config, options, std::move(kept));
      });
}

}  // namespace qkv::model
