#include "qkv/model/checkpoint/kind.h"

#include <optional>
#include <system_error>

#include "qkv/io/fields.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/families/hf_caption.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {

ModelKind FindKind(const std::filesystem::path& path) {
  std::error_code ignored;  // a path that leads nowhere is told by whoever opens it
  const std::filesystem::path folder = std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
  const std::optional<io::Json> config = ReadOptionalJson(folder / kConfigFile);
  if (!config || !config->is_object()) return ModelKind::kImages;
  // Only its folder opens one.
  if (DescribesSequenceModel(*config)) return folder == path ? ModelKind::kSequences : ModelKind::kImages;
  const io::Fields fields(*config, kConfigFile);
  if (FindTextFamily(fields) != nullptr) return ModelKind::kTexts;
  return IsHfCaption(fields) ? ModelKind::kCaptions : ModelKind::kImages;
}

}  // namespace qkv::model
