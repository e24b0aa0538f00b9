#include "qkv/model/checkpoint/checkpoint.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"

namespace qkv::model {
namespace fs = std::filesystem;

namespace {

Checkpoint OpenOnce(const fs::path& path, const ModelHints& given) {
  Checkpoint checkpoint;
  checkpoint.source = path.string();
  checkpoint.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::Open(path));
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  try {
    if (const std::optional<io::Json> config = ReadOptionalJson(folder / kConfigFile)) {
      const std::optional<io::Json> processor = ReadOptionalJson(folder / kPreprocessorFile);
      checkpoint.configuration = config->dump() + (processor ? processor->dump() : "");
      checkpoint.description = Describe(*config, processor, *checkpoint.tensors);
      RequireAgreement(checkpoint.description, given);
    } else {
      checkpoint.description = DescribeFromTensors(*checkpoint.tensors, given);
      checkpoint.configuration = fmt::format("heads {}", checkpoint.description.config.block.attention.heads);
    }
    checkpoint.bound = Bind(checkpoint.description.config, *checkpoint.tensors);
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find(folder.string()) != std::string::npos && !folder.empty()) throw;
    Fail("{}: {}", path.string(), EscapedText{message});
  }
  return checkpoint;
}

}  // namespace

Checkpoint Checkpoint::Open(const fs::path& path, const ModelHints& given) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  Require(error != std::errc::too_many_symbolic_link_levels,
          "cannot open model {}: a symbolic link that leads back to itself", path.string());
  Require(exists, "cannot open model {}: no such file or folder", path.string());
  return OpenWhole(path, [&] { return OpenOnce(path, given); });
}

Checkpoint Checkpoint::FromBytes(std::string_view config, std::span<const std::byte> weights, std::string_view where) {
  Checkpoint checkpoint;
  checkpoint.source = where;
  checkpoint.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::FromBytes(weights, where));
  checkpoint.description = Describe(io::ParseJson(config, where), {}, *checkpoint.tensors);
  checkpoint.bound = Bind(checkpoint.description.config, *checkpoint.tensors);
  return checkpoint;
}

const BoundTensor* Checkpoint::Find(std::string_view canonical) const { return FindTensor(bound, canonical); }

}  // namespace qkv::model
