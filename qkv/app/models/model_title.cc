#include "qkv/app/models/model_title.h"

#include <filesystem>
#include <system_error>

namespace qkv::app {

std::string ModelTitle(std::string_view path) {
  if (path.empty()) return "built-in digits";
  std::error_code ignored;
  std::filesystem::path whole = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const std::string last = whole.filename().string(), before = whole.parent_path().filename().string();
  for (const std::string_view common : {"best", "last", "final", "model.safetensors", "pytorch_model.bin"}) {
    if (last != common || before.empty()) continue;
    return common.find('.') == common.npos ? before + "/" + last : before;
  }
  return last.empty() ? std::string(path) : last;
}

}  // namespace qkv::app
