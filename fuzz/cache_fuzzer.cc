// A kept file of a small model's layers: any bytes are restored, and answer, or are refused with an Error. How panels
// lie depends on the machine, so that no file could be a seed everywhere: an input whose first byte is odd changes
// bytes of a file that is made when the fuzzer starts; the others are files themselves.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/rng.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/vit.h"

namespace {

using namespace qkv;
using namespace qkv::model;

VitConfig SmallConfig() {
  VitConfig config;
  config.image_height = config.image_width = 8, config.patch_height = config.patch_width = 4, config.channels = 1;
  config.block.width = 8, config.depth = 1, config.block.mlp.width = 8;
  config.block.attention.heads = 2, config.block.attention.head_width = 4;
  config.classes = 2;
  return config;
}

// The file as WriteSafeTensors writes it.
std::string HonestFile() {
  std::vector<Tensor<float>> values;
  std::vector<io::StoredTensor> stored;
  std::vector<BoundTensor> bound;
  const std::vector<TensorSpec> table = TensorTable(SmallConfig());
  values.reserve(table.size()), stored.reserve(table.size());
  Rng rng(1);
  for (const TensorSpec& spec : table) {
    for (float& x : values.emplace_back(spec.shape).span()) x = static_cast<float>(rng.Normal());
    bound.push_back({spec, {&stored.emplace_back(io::Stored<float>(spec.name, values.back().view()))}});
  }
  const Vit<float> vit(SmallConfig(), bound);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("qkv-cache-fuzzer-{}", ::getpid());
  io::WriteSafeTensors(path, vit.Store({}), {{"qkv.identity", "fuzz"}}, kAlignment);
  const std::string bytes = ReadFile(path);
  std::filesystem::remove(path);
  return bytes;
}

// Each three bytes of `changes` put the third where the first two say; a place beyond the end cuts the file there.
std::string Changed(std::string file, const uint8_t* changes, size_t size) {
  for (size_t i = 0; i + 3 <= size; i += 3) {
    const size_t at = changes[i] | size_t{changes[i + 1]} << 8;
    if (at >= file.size()) {
      file.resize(at % (file.size() + 1));
      if (file.empty()) break;
    } else {
      file[at] = static_cast<char>(changes[i + 2]);
    }
  }
  return file;
}

void Restore(std::span<const std::byte> bytes) {
  const auto file = std::make_shared<const io::SafeTensors>(io::SafeTensors::FromBytes(bytes, "fuzz"));
  const auto vit = Vit<float>::Restore(SmallConfig(), {}, file);
  Tensor<float> logits({1, SmallConfig().outputs()});
  Workspace<float> workspace;
  vit.Forward(Tensor<float>({1, 1, 8, 8}), workspace, {.logits = logits});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string honest = HonestFile();
  try {
    if (size > 0 && data[0] % 2 == 1) {
      const std::string file = Changed(honest, data + 1, size - 1);
      Restore(std::as_bytes(std::span(file)));
    } else {
      Restore(std::as_bytes(std::span(data, size)));
    }
  } catch (const Error&) {  // what a bad file should do
  }
  return 0;
}
