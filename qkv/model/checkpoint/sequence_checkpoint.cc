#include "qkv/model/checkpoint/sequence_checkpoint.h"

#include <optional>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/layout/binder.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {

namespace {

SequenceCheckpoint OpenSequenceOnce(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kConfigFile;
  const std::optional<io::Json> config = ReadOptionalJson(file);
  Require(config.has_value(), "cannot open sequence model {}: there is no {}", folder.string(), kConfigFile);
  SequenceCheckpoint checkpoint;
  checkpoint.source = folder.string();
  checkpoint.config = ParseSequenceConfig(*config, file.string());
  checkpoint.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::Open(folder));
  try {
    checkpoint.bound = Bind(TensorTable(checkpoint.config), *checkpoint.tensors, "this sequence model");
  } catch (const Error& error) {
    Fail("{}: {}", folder.string(), EscapedText{error.what()});
  }
  return checkpoint;
}

}  // namespace

SequenceCheckpoint SequenceCheckpoint::Open(const std::filesystem::path& folder) {
  std::error_code ignored;
  Require(std::filesystem::is_directory(folder, ignored), "cannot open sequence model {}: it is no folder",
          folder.string());
  return OpenWhole(folder, [&] { return OpenSequenceOnce(folder); });
}

}  // namespace qkv::model
