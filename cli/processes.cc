#include "cli/processes.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/own_file.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "qkv_mpi.so";

// Environment variables of Open MPI, of MPICH and its derivatives, and of Slurm.
int LaunchedProcesses() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) return std::atoi(value);
  }
  return 1;
}

// A file descriptor, closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Throws Error unless only root or the user who runs the program can change the file of `descriptor`.
void RequireTrusted(int descriptor, const fs::path& path, const fs::path& module) {
  struct stat status = {};
  RequireCall(descriptor >= 0 && ::fstat(descriptor, &status) == 0, "open", path);
  Require(status.st_uid == 0 || status.st_uid == ::geteuid(),
          "train: {} is not loaded: {} belongs to user {}; expected root or the user who runs qkv (install qkv and its "
          "module as root, or build them yourself)",
          module.string(), path.string(), status.st_uid);
  Require((status.st_mode & (S_IWGRP | S_IWOTH)) == 0,
          "train: {} is not loaded: {} may be written to by others than its owner; to forbid that: chmod go-w {}",
          module.string(), path.string(), path.string());
}

// Loads the module for the rest of the process: MPI has threads and handlers of its own. Throws Error if anyone but
// root and the user could have written it. Loads through the checked descriptor, so replacing the path has no effect.
void* LoadModule(const fs::path& found) {
  const fs::path file = fs::canonical(found), folder = file.parent_path();
  const Descriptor in(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  RequireTrusted(in.get(), folder, file);
  const Descriptor module(::openat(in.get(), file.filename().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  RequireTrusted(module.get(), file, file);
  // MPI's own modules look up its symbols.
  void* const loaded = ::dlopen(fmt::format("/proc/self/fd/{}", module.get()).c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (loaded == nullptr) Fail("train: {} cannot be loaded: {}", file.string(), ::dlerror());
  return loaded;
}

}  // namespace

std::unique_ptr<train::Communicator> JoinProcesses() {
  const int launched = LaunchedProcesses();
  if (launched <= 1) return std::make_unique<train::Communicator>();
  // In the build folder beside the program, otherwise in the installed place.
  const fs::path program = OwnFile().parent_path();
  for (const fs::path& file : {program / kModule, program / QKV_MODULES / kModule}) {
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    void* const module = LoadModule(file);
    using Join = train::Communicator* (*)(const char*);
    const auto join = reinterpret_cast<Join>(::dlsym(module, "qkv_join_processes"));
    Require(join != nullptr, "train: {} is no module of qkv", file.string());
    return std::unique_ptr<train::Communicator>(join(QKV_VERSION));
  }
  Fail(
      "train: started as one of {} processes, and this qkv is without MPI: {} is neither in {} nor in {} (Debian: "
      "package qkv-mpi; from source: built where libopenmpi-dev is)",
      launched, kModule, program.string(), (program / QKV_MODULES).lexically_normal().string());
}

}  // namespace qkv::cli
