// What qkv/io reads: safetensors, alone and in shards, PyTorch files, npy, JSON.
#include <filesystem>
#include <memory>
#include <string>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "qkv/io/weights.h"
#include "tests/hostile/reader.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::hostile {
namespace {

namespace fs = std::filesystem;

void Use(const io::TensorSet& file) {
  for (const io::StoredTensor& tensor : file.tensors()) {
    if (tensor.dtype == DType::kF32 || tensor.dtype == DType::kBF16) io::Convert<double>(tensor);
  }
}

Reading SafeTensorsInMemory() {
  Reading reading;
  for (const fs::path& path : {SourceFolder() / "tests/io/golden/python.safetensors",
                               GoldenFolder("hf_vit_sharded") / "model-00004-of-00004.safetensors"}) {
    reading.seeds.push_back(SafeTensorsSeed(path.filename().string(), ReadFile(path)));
  }
  reading.read = [](const Seed&, const std::string& bytes) {
    Use(io::SafeTensors::FromBytes(std::as_bytes(std::span(bytes)), "file"));
  };
  return reading;
}

// Zip archive, old format, compressed, whole module, training checkpoint.
Reading TorchInMemory() {
  Reading reading;
  for (const char* name : {"protocol_2.pth", "protocol_2_old.pth", "deflated.pth", "module.pth", "training_old.pth"}) {
    reading.seeds.push_back({name, ReadFile(SourceFolder() / "tests/io/golden/torch" / name)});
  }
  reading.read = [](const Seed&, const std::string& bytes) {
    Use(io::ReadWeights(std::as_bytes(std::span(bytes)), "file"));
  };
  return reading;
}

// A model in shards of which one file is changed: `changed`.
Reading Shards(const std::string& changed) {
  const auto folder = std::make_shared<TemporaryFolder>();
  for (const auto& entry : fs::directory_iterator(GoldenFolder("hf_vit_sharded"))) {
    fs::copy_file(entry.path(), *folder / entry.path().filename().string());
  }
  const std::string bytes = ReadFile(*folder / changed);
  Reading reading;
  reading.seeds.push_back(changed.ends_with(".json") ? JsonSeed(changed, bytes) : SafeTensorsSeed(changed, bytes));
  reading.read = [folder, changed](const Seed&, const std::string& text) {
    WriteFile(*folder / changed, text);
    Use(io::SafeTensors::Open(folder->path()));
  };
  return reading;
}

Reading Npy() {
  const auto folder = std::make_shared<TemporaryFolder>();
  Reading reading;
  for (const char* name : {"numpy_f4.npy", "numpy_f8_vector.npy"}) {
    reading.seeds.push_back({name, ReadFile(SourceFolder() / "tests/io/golden" / name)});
  }
  reading.read = [folder](const Seed& seed, const std::string& bytes) {
    WriteFile(*folder / "array.npy", bytes);
    if (seed.name == "numpy_f4.npy") {
      io::ReadNpy<float>(*folder / "array.npy");
    } else {
      io::ReadNpy<double>(*folder / "array.npy");
    }
  };
  return reading;
}

Reading Json() {
  const auto folder = std::make_shared<TemporaryFolder>();
  Reading reading;
  for (const char* name : {"timm_vit", "hf_vit_labels", "vit_pytorch_vit"}) {
    reading.seeds.push_back(JsonSeed(name, ReadFile(GoldenFolder(name) / "config.json")));
  }
  reading.read = [folder](const Seed&, const std::string& bytes) {
    WriteFile(*folder / "any.json", bytes);
    io::ReadJson(*folder / "any.json");
  };
  return reading;
}

}  // namespace

std::vector<Reader> TensorReaders() {
  return {{.name = "SafeTensors", .open = SafeTensorsInMemory, .inputs = 160},
          {.name = "Torch", .open = TorchInMemory, .inputs = 160},
          {.name = "ShardIndex", .open = [] { return Shards("model.safetensors.index.json"); }},
          {.name = "Shard", .open = [] { return Shards("model-00002-of-00004.safetensors"); }},
          {.name = "Npy", .open = Npy},
          {.name = "Json", .open = Json}};
}

}  // namespace qkv::hostile
