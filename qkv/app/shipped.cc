#include "qkv/app/shipped.h"

#include <system_error>

#include "qkv/core/error.h"

namespace qkv::app {

namespace fs = std::filesystem;

bool IsShippedModel(std::string_view name) {
  return name == kTranslator || name == kSummarizer || name == kSharedDigits || name == kMergedDigits;
}

fs::path FindShippedModel(std::string_view name) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path installed = program / QKV_MODELS, source = program / "../../models";
  for (const fs::path& models : {installed, source}) {
    std::error_code ignored;
    if (fs::exists(models / name / "config.json", ignored)) return (models / name).lexically_normal();
  }
  Fail("cannot open model {}: it is neither in {} nor in {}; it comes with qkv's package and source", name,
       installed.lexically_normal().string(), source.lexically_normal().string());
}

}  // namespace qkv::app
