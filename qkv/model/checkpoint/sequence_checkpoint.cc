#include "qkv/model/checkpoint/sequence_checkpoint.h"

#include <optional>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/open_once.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/layout/binder.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {

SequenceCheckpoint OpenSequencesOnce(const std::filesystem::path& folder, std::optional<io::Json> config) {
  const std::filesystem::path file = folder / kConfigFile;
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

SequenceCheckpoint SequenceCheckpoint::Open(const std::filesystem::path& folder) {
  std::error_code ignored;
  Require(std::filesystem::is_directory(folder, ignored), "cannot open sequence model {}: it is no folder",
          folder.string());
  return OpenWhole(folder, [&] { return OpenSequencesOnce(folder, ReadOptionalJson(folder / kConfigFile)); });
}

}  // namespace qkv::model
