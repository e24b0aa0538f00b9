#include "qkv/core/module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qkv/core/descriptor.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/own_file.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

// Throws Error unless only root or the user who runs the program can change the file of `descriptor`.
void RequireTrusted(int descriptor, const fs::path& path, const fs::path& module, std::string_view operation) {
  struct stat status = {};
  RequireCall(descriptor >= 0 && ::fstat(descriptor, &status) == 0, "open", path);
  Require(status.st_uid == 0 || status.st_uid == ::geteuid(),
          "{}: {} is not loaded: {} belongs to user {}; expected root or the user who runs qkv (install qkv and its "
          "module as root, or build them yourself)",
          operation, module.string(), path.string(), status.st_uid);
  Require((status.st_mode & (S_IWGRP | S_IWOTH)) == 0,
          "{}: {} is not loaded: {} may be written to by others than its owner; to forbid that: chmod go-w {}",
          operation, module.string(), path.string(), path.string());
}

}  // namespace

ModulePlace FindModule(std::string_view name) {
  const fs::path program = OwnFile().parent_path(), installed = (program / QKV_MODULES).lexically_normal();
  for (const fs::path& folder : {program, installed}) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) return {folder / name, {}};
  }
  return {{}, fmt::format("{} nor in {}", program.string(), installed.string())};
}

void* LoadModule(const fs::path& file, ModuleScope scope, std::string_view operation) {
  const fs::path target = fs::canonical(file), folder = target.parent_path();
  const internal::Descriptor in(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  RequireTrusted(in.get(), folder, target, operation);
  const internal::Descriptor module(::openat(in.get(), target.filename().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  RequireTrusted(module.get(), target, target, operation);
  const int flags = RTLD_NOW | (scope == ModuleScope::kProcess ? RTLD_GLOBAL : RTLD_LOCAL);
  void* const loaded = ::dlopen(fmt::format("/proc/self/fd/{}", module.get()).c_str(), flags);
  if (loaded == nullptr) Fail("{}: {} cannot be loaded: {}", operation, target.string(), ::dlerror());
  return loaded;
}

void* ModuleFunction(void* module, const char* function, const fs::path& file, std::string_view operation) {
  void* const found = ::dlsym(module, function);
  Require(found != nullptr, "{}: {} is no module of qkv", operation, file.string());
  return found;
}

}  // namespace qkv
