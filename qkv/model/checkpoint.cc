#include "qkv/model/checkpoint.h"

#include <algorithm>

namespace qkv::model {
namespace fs = std::filesystem;

Checkpoint Checkpoint::Open(const fs::path& path) {
  Require(fs::exists(path), "cannot open model {}: no such file or folder", path.string());
  Checkpoint checkpoint;
  checkpoint.source = path.string();
  checkpoint.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::Open(path));
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  const fs::path config = folder / "config.json", preprocessor = folder / "preprocessor_config.json";
  try {
    if (fs::exists(config)) {
      std::optional<io::Json> processor;
      if (fs::exists(preprocessor)) processor = io::ReadJson(preprocessor);
      const io::Json json = io::ReadJson(config);
      checkpoint.configuration = json.dump() + (processor ? processor->dump() : "");
      checkpoint.description = Describe(json, processor, *checkpoint.tensors);
    } else {
      checkpoint.description = DescribeFromTensors(*checkpoint.tensors);
    }
    checkpoint.bound = Bind(checkpoint.description.config, *checkpoint.tensors);
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find(folder.string()) != std::string::npos && !folder.empty()) throw;
    Fail("{}: {}", path.string(), Lines{message});
  }
  return checkpoint;
}

Checkpoint Checkpoint::FromBytes(std::string_view config, std::span<const std::byte> weights, std::string_view where) {
  Checkpoint checkpoint;
  checkpoint.source = where;
  checkpoint.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::FromBytes(weights, where));
  checkpoint.description = Describe(io::ParseJson(config, where), {}, *checkpoint.tensors);
  checkpoint.bound = Bind(checkpoint.description.config, *checkpoint.tensors);
  return checkpoint;
}

const BoundTensor* Checkpoint::Find(std::string_view canonical) const {
  const auto found = std::ranges::find(bound, canonical,
                                       [](const BoundTensor& tensor) -> std::string_view { return tensor.spec.name; });
  return found == bound.end() ? nullptr : &*found;
}

}  // namespace qkv::model
