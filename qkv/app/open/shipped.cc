#include "qkv/app/open/shipped.h"

#include <algorithm>
#include <array>
#include <exception>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/core/own_file.h"

namespace qkv::app {

namespace fs = std::filesystem;

namespace {
constexpr std::array kNames = {kTranslator, kSummarizer, kSharedDigits, kMergedDigits};
}

bool IsShippedModel(std::string_view name) { return std::find(kNames.begin(), kNames.end(), name) != kNames.end(); }

std::string_view ShippedNameOf(const std::string& path) {
  if (path.empty()) return kBuiltIn;
  for (const std::string_view name : kNames) {
    std::error_code missing;
    const bool by_name = path == name && !fs::exists(fs::symlink_status(path, missing));
    try {
      if (by_name || fs::equivalent(path, FindShippedModel(name), missing)) return name;
    } catch (const std::exception&) {  // a program without its data has no such folder
    }
  }
  return "";
}

fs::path FindShippedModel(std::string_view name) {
  // Beside Python's module, in the package of a system, in the source.
  const fs::path own = OwnFile().parent_path();
  const fs::path installed = own / QKV_MODELS, source = own / "../../models";
  for (const fs::path& models : {own / "models", installed, source}) {
    std::error_code ignored;
    if (fs::exists(models / name / "config.json", ignored)) return (models / name).lexically_normal();
  }
  Fail("cannot open model {}: it is neither in {} nor in {}; it comes with qkv's package and source", name,
       installed.lexically_normal().string(), source.lexically_normal().string());
}

}  // namespace qkv::app
