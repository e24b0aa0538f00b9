#include "qkv/io/torch_names.h"

#include <algorithm>
#include <iterator>

namespace qkv::io {
namespace {

// "torch.FloatStorage" and so on.
constexpr TorchStorageType kStorageTypes[] = {
    {"Float", 4, DType::kF32}, {"Double", 8, DType::kF64}, {"Half", 2, DType::kF16},   {"BFloat16", 2, DType::kBF16},
    {"Long", 8, DType::kI64},  {"Int", 4, DType::kI32},    {"Short", 2, DType::kI16},  {"Char", 1, DType::kI8},
    {"Byte", 1, DType::kU8},   {"Bool", 1, DType::kBool},  {"Untyped", 1, DType::kU8}, {"ComplexFloat", 8, {}},
    {"ComplexDouble", 16, {}}, {"QInt8", 1, {}},           {"QUInt8", 1, {}},          {"QInt32", 4, {}},
    {"QUInt4x2", 1, {}},       {"QUInt2x4", 1, {}},
};

struct TypeName {
  std::string_view name;
  DType dtype;
};
// "torch.float32" and so on.
constexpr TypeName kTypes[] = {
    {"float32", DType::kF32}, {"float64", DType::kF64}, {"float16", DType::kF16}, {"bfloat16", DType::kBF16},
    {"int64", DType::kI64},   {"int32", DType::kI32},   {"int16", DType::kI16},   {"int8", DType::kI8},
    {"uint8", DType::kU8},    {"uint16", DType::kU16},  {"uint32", DType::kU32},  {"uint64", DType::kU64},
    {"bool", DType::kBool},
};

}  // namespace

std::optional<DType> FindTorchType(std::string_view name) {
  constexpr std::string_view kModule = "torch.";
  if (!name.starts_with(kModule)) return std::nullopt;
  const auto found = std::ranges::find(kTypes, name.substr(kModule.size()), &TypeName::name);
  return found != std::end(kTypes) ? std::optional(found->dtype) : std::nullopt;
}

const TorchStorageType* FindTorchStorage(std::string_view global) {
  constexpr std::string_view kEnding = "Storage";
  if (!global.starts_with("torch.") || !global.ends_with(kEnding)) return nullptr;
  global.remove_suffix(kEnding.size());
  const auto found = std::ranges::find(kStorageTypes, global.substr(global.rfind('.') + 1), &TorchStorageType::name);
  return found != std::end(kStorageTypes) ? &*found : nullptr;
}

bool IsSystemCall(std::string_view global) {
  static constexpr std::string_view kModules[] = {"os.",     "posix.",    "nt.",     "subprocess.", "commands.", "sys.",
                                                  "shutil.", "socket.",   "ctypes.", "importlib.",  "runpy.",    "pty.",
                                                  "urllib.", "requests.", "http.",   "webbrowser.", "marshal."};
  static constexpr std::string_view kFunctions[] = {"eval",       "exec",     "compile", "open",
                                                    "__import__", "execfile", "input"};
  for (const std::string_view module : kModules) {
    if (global.starts_with(module)) return true;
  }
  for (const std::string_view module : {"builtins.", "__builtin__."}) {
    if (!global.starts_with(module)) continue;
    const std::string_view function = global.substr(module.size());
    return std::ranges::find(kFunctions, function) != std::end(kFunctions);
  }
  return false;
}

bool IsHarmless(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"numpy.core.multiarray.scalar",
                                                   "numpy._core.multiarray.scalar",
                                                   "numpy.dtype",
                                                   "pathlib.",
                                                   "datetime.",
                                                   "torch.Size",
                                                   "torch.device",
                                                   "torch.serialization.",
                                                   "argparse.",
                                                   "omegaconf.",
                                                   "collections.",
                                                   "enum.",
                                                   "_codecs.encode",
                                                   "decimal.",
                                                   "uuid.",
                                                   "builtins.",
                                                   "__builtin__.",
                                                   "copyreg.",
                                                   "copy_reg."};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace qkv::io
