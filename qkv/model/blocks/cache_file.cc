// Files of the cache of built models: the identity of their sources, checksums, reading and writing.
#include "qkv/model/blocks/cache_file.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "qkv/core/checksum.h"
#include "qkv/core/hash.h"
#include "qkv/model/families/describe.h"
#include "qkv/simd/isa.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// Raise this whenever the same checkpoint, options and instruction set give different layers, or different names.
constexpr int kFormat = 5;
constexpr const char *kIdentityKey = "qkv.identity", *kModelSumKey = "qkv.checksum.model",
                     *kLayersSumKey = "qkv.checksum.layers";

std::string Hex(const Fnv1a& hash) { return fmt::format("{:016x}", hash.value()); }

// Choices that decide which layers result from the same weights.
std::string FormatBuildOptions(const BuildOptions& options) {
  const auto& [precision, fold_norms, fold_scales, fold_key_value_bias, read_rows, merge, absorb] = options;
  // The kernel's name does not imply the precision: the float kernel may read widened bfloat16 weights.
  return fmt::format("{} {} {} {}{}{}{}{}{}", Name(simd::ActiveIsa()), static_cast<int>(precision),
                     simd::Describe(precision).kernel, int{fold_norms}, int{fold_scales}, int{fold_key_value_bias},
                     int{read_rows}, int{merge}, int{absorb});
}

// Everything that determines the layers, as far as it is known without reading all weights.
std::string CacheIdentity(const CacheSource& source, const BuildOptions& options) {
  // Names, shapes, and the first bytes of each tensor: these reveal new weights even if the file system has no reliable
  // times.
  constexpr size_t kSample = 64;
  Fnv1a tensors;
  for (const io::StoredTensor& tensor : source.tensors.tensors()) {
    const auto sample = tensor.bytes.first(std::min(kSample, tensor.bytes.size()));
    tensors.Add(fmt::format("{} {} {} ", tensor.name, Name(tensor.dtype), tensor.shape))
        .Add({reinterpret_cast<const char*>(sample.data()), sample.size()});
  }
  std::string text = fmt::format("format {}, qkv {}\n{}\nconfiguration {}\ntensors {}\n", kFormat, QKV_VERSION,
                                 FormatBuildOptions(options), Hex(Fnv1a().Add(source.configuration)), Hex(tensors));
  for (const io::SafeTensors::File& file : source.tensors.files()) {
    const FileStamp& stamp = file.mapped.stamp();
    text += fmt::format("file {} {} {} {} {}\n", stamp.device, stamp.inode, stamp.size, stamp.modified, stamp.changed);
  }
  return text;
}

int64_t Now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

bool IsSettled(const CacheSource& source, std::chrono::nanoseconds rest) {
  const int64_t now = Now();
  for (const io::SafeTensors::File& file : source.tensors.files()) {
    if (now - file.mapped.stamp().changed < rest.count()) return false;
  }
  return true;
}

// Checksum of all bytes of the model's files.
std::string ModelSum(const CacheSource& source) {
  uint64_t sum = 0;
  for (const io::SafeTensors::File& file : source.tensors.files()) {
    sum = CombineChecksums(sum, Checksum(file.mapped.bytes()));
  }
  source.tensors.RequireUnchanged();
  return fmt::format("{:016x}", sum);
}

// Checksum of the layers' bytes, in the order of their names.
std::string LayersSum(const std::vector<io::StoredTensor>& tensors) {
  std::vector<const io::StoredTensor*> sorted;
  for (const io::StoredTensor& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, {}, &io::StoredTensor::name);
  uint64_t sum = 0;
  for (const io::StoredTensor* tensor : sorted) sum = CombineChecksums(sum, Checksum(tensor->bytes));
  return fmt::format("{:016x}", sum);
}

// The metadata entry of a key; empty if the file has none.
std::string ReadMetadata(const io::SafeTensors& kept, const char* key) {
  const auto found = kept.metadata().find(key);
  return found == kept.metadata().end() ? "" : found->second;
}

}  // namespace

fs::path CacheFolder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path own = variable("QKV_CACHE"); !own.empty()) return own;
  // The XDG specification ignores relative paths.
  if (const fs::path xdg = variable("XDG_CACHE_HOME"); xdg.is_absolute()) return xdg / "qkv";
  const fs::path home = variable("HOME");
  return home.empty() ? home : home / ".cache" / "qkv";
}

fs::path CacheFile(const CacheSource& source, const BuildOptions& options, const fs::path& folder) {
  std::error_code error;
  fs::path path = fs::canonical(source.path, error);
  if (error) path = source.path;
  const std::string key = Hex(Fnv1a().Add(path.string()).Add("\n").Add(FormatBuildOptions(options)));
  return folder / fmt::format("{}-{}.safetensors", path.stem().string().substr(0, 64), key);
}

CachedLayers::CachedLayers(const CacheSource& source, const BuildOptions& options, const Cache& cache)
    : source_(source),
      cache_(cache),
      path_(CacheFile(source, options, cache.folder)),
      identity_(CacheIdentity(source, options)),
      settled_(IsSettled(source, cache.rest)) {}

bool CachedLayers::exists() const {
  std::error_code ignored;
  return fs::exists(path_, ignored);
}

std::shared_ptr<const io::SafeTensors> CachedLayers::Open() const {
  auto kept = std::make_shared<const io::SafeTensors>(io::SafeTensors::Open(path_));
  Require(ReadMetadata(*kept, kIdentityKey) == identity_, "it was made from other files, or by another version");
  if (cache_.verify) {
    Require(ReadMetadata(*kept, kLayersSumKey) == LayersSum(kept->tensors()), "its bytes are not those that were kept");
    Require(ReadMetadata(*kept, kModelSumKey) == ModelSum(source_),
            "the model's bytes are not those that it was made of");
  }
  return kept;
}

void CachedLayers::Keep(const std::vector<io::StoredTensor>& layers) const {
  Require(settled_, "the model changed only just now");
  for (const io::SafeTensors::File& file : source_.tensors.files()) {
    Require(ReadFileStamp(file.path) == file.mapped.stamp(), "{} changed while it was read", file.path.string());
  }
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  Require(!error, "cannot make the folder: {}", error.message());
  // Writing to a pipe would block.
  const fs::file_status there = fs::status(path_, error);
  Require(!fs::exists(there) || fs::is_regular_file(there), "what is there is no regular file; remove it");
  io::WriteSafeTensors(
      path_, layers, {{kIdentityKey, identity_}, {kModelSumKey, ModelSum(source_)}, {kLayersSumKey, LayersSum(layers)}},
      kAlignment);
}

void CachedLayers::Note(std::string_view what, std::string_view why) const {
  if (cache_.note) cache_.note(fmt::format("cache {}: {}: {}", path_.string(), what, why));
}

}  // namespace qkv::model
