// A kept file of the layers of a small model of images, or of a pair of texts: any bytes are restored, and answer, or
// are refused with an Error. How panels lie depends on the machine, so that no file could be a seed everywhere: an
// input whose first byte is odd changes bytes of a file that is made when the fuzzer starts; the others are files
// themselves. The second bit of the first byte chooses the model.
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
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/sequence/text_model.h"
#include "qkv/model/vision/vit.h"

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

TextDescription SmallPair() {
  SequenceConfig encoder;
  encoder.vocabulary = 6, encoder.outputs = 0, encoder.length = 5, encoder.depth = 1;
  encoder.block.width = 8, encoder.block.mlp.width = 8;
  encoder.block.attention.heads = 2, encoder.block.attention.head_width = 4;
  SequenceConfig decoder = encoder;
  decoder.outputs = 6, decoder.causal = true, decoder.tied_head = true;
  decoder.block.cross = decoder.block.attention;
  decoder.block.cross->of_source = true;
  TextDescription description;
  description.architecture = "fuzz";
  description.encoder = encoder, description.decoder = decoder;
  return description;
}

// Random tensors of a table.
class RandomTensors {
 public:
  explicit RandomTensors(const std::vector<TensorSpec>& table) {
    values_.reserve(table.size()), stored_.reserve(table.size());
    Rng rng(1);
    for (const TensorSpec& spec : table) {
      for (float& x : values_.emplace_back(spec.shape).span()) x = static_cast<float>(rng.Normal());
      bound.push_back({spec, {&stored_.emplace_back(io::Stored<float>(spec.name, values_.back().view()))}});
    }
  }
  std::vector<BoundTensor> bound;

 private:
  std::vector<Tensor<float>> values_;
  std::vector<io::StoredTensor> stored_;
};

// The file as WriteSafeTensors writes it.
std::string Written(const std::vector<io::StoredTensor>& layers) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("qkv-cache-fuzzer-{}", ::getpid());
  io::WriteSafeTensors(path, layers, {{"qkv.identity", "fuzz"}}, kAlignment);
  const std::string bytes = ReadFile(path);
  std::filesystem::remove(path);
  return bytes;
}

std::string HonestFile() {
  const RandomTensors tensors(TensorTable(SmallConfig()));
  return Written(Vit<float>(SmallConfig(), tensors.bound).Store({}));
}

std::string HonestPair() {
  TextCheckpoint checkpoint;
  checkpoint.description = SmallPair();
  const RandomTensors encoder(TensorTable(*checkpoint.description.encoder)),
      decoder(TensorTable(*checkpoint.description.decoder));
  checkpoint.encoder = encoder.bound, checkpoint.decoder = decoder.bound;
  return Written(TextModel(checkpoint).Store({}));
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

void RestorePair(std::span<const std::byte> bytes) {
  const auto file = std::make_shared<const io::SafeTensors>(io::SafeTensors::FromBytes(bytes, "fuzz"));
  const TextModel model = TextModel::Restore(SmallPair(), {}, file);
  const Tensor<int32_t> ids({1, 3});
  Tensor<float> logits({1, 3, model.decoder().config().outputs});
  TextWorkspace workspace;
  model.Forward({.ids = ids, .decoder_ids = ids}, workspace, {.logits = logits});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string honest = HonestFile(), honest_pair = HonestPair();
  const bool pair = size > 0 && (data[0] & 2) != 0;
  const auto restore = pair ? RestorePair : Restore;
  try {
    if (size > 0 && data[0] % 2 == 1) {
      const std::string file = Changed(pair ? honest_pair : honest, data + 1, size - 1);
      restore(std::as_bytes(std::span(file)));
    } else {
      restore(std::as_bytes(std::span(data, size)));
    }
  } catch (const Error&) {  // what a bad file should do
  }
  return 0;
}
