// The processes that an MPI launcher (mpirun, srun) started together with this one.
#pragma once

#include <memory>

#include "qkv/train/communicator.h"

namespace qkv::cli {

/// All processes; only this one if no launcher started several. Throws Error if there are several and this qkv was
/// built or installed without MPI, or if anyone but root and the user who runs it could change the module: the file and
/// its folder must belong to one of the two and must not be writable by others.
std::unique_ptr<train::Communicator> JoinProcesses();

}  // namespace qkv::cli
