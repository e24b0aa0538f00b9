#include "cli/processes.h"

#include <cstdlib>

#include "qkv/core/error.h"
#include "qkv/core/module.h"

namespace qkv::cli {
namespace {

constexpr const char* kMpiModule = "qkv_mpi.so";

// Environment variables of Open MPI, of MPICH and its derivatives, and of Slurm.
int LaunchedProcesses() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) return std::atoi(value);
  }
  return 1;
}

}  // namespace

std::unique_ptr<train::Communicator> JoinProcesses() {
  const int launched = LaunchedProcesses();
  if (launched <= 1) return std::make_unique<train::Communicator>();
  const ModulePlace place = FindModule(kMpiModule);
  Require(!place.file.empty(),
          "train: started as one of {} processes, and this qkv is without MPI: {} is neither in {} (Debian: package "
          "qkv-mpi; from source: built where libopenmpi-dev is)",
          launched, kMpiModule, place.looked_in);
  // MPI's own modules look up its symbols.
  void* const module = LoadModule(place.file, ModuleScope::kProcess, "train");
  using Join = train::Communicator* (*)(const char*);
  const auto join = reinterpret_cast<Join>(ModuleFunction(module, "qkv_join_processes", place.file, "train"));
  return std::unique_ptr<train::Communicator>(join(QKV_VERSION));
}

}  // namespace qkv::cli
