#include "cli/processes.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "qkv/core/error.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "qkv_mpi.so";

// As Open MPI, MPICH and its kin, and Slurm tell their processes.
int Launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) return std::atoi(value);
  }
  return 1;
}

}  // namespace

std::unique_ptr<train::Communicator> JoinProcesses() {
  const int launched = Launched();
  if (launched <= 1) return std::make_unique<train::Communicator>();
  // Beside the program where it was built, else where it was installed.
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& file : {program / kModule, program / QKV_MODULES / kModule}) {
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    // Never closed: MPI has threads and handlers of its own. Its own modules look for its names.
    void* const module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) Fail("train: {}", ::dlerror());
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
