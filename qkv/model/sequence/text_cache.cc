// The cache of the layers of a text model.
#include "qkv/model/sequence/text_cache.h"

#include <utility>

#include "qkv/model/blocks/cache_file.h"

namespace qkv::model {
namespace {

CacheSource TextSourceOf(const TextCheckpoint& checkpoint) {
  return {checkpoint.source, checkpoint.configuration, *checkpoint.tensors};
}

}  // namespace

std::filesystem::path CacheFile(const TextCheckpoint& checkpoint, const BuildOptions& options,
                                const std::filesystem::path& folder) {
  return CacheFile(TextSourceOf(checkpoint), options, folder);
}

TextModel BuildCached(const TextCheckpoint& checkpoint, const BuildOptions& options, const Cache& cache) {
  return BuildThroughCache(
      TextSourceOf(checkpoint), options, cache, [&] { return TextModel(checkpoint, options); },
      [&](std::shared_ptr<const io::SafeTensors> kept) {
        return TextModel::Restore(checkpoint.description, options, std::move(kept));
      });
}

}  // namespace qkv::model
