// The processes that a launcher of MPI (mpirun, srun) has started this one among.
#pragma once

#include <memory>

#include "qkv/train/optimizer/communicator.h"

namespace qkv::cli {

/// All of them; alone where no launcher has started several. Throws Error where there are several and this qkv has not
/// been built with MPI, was installed without it, or would load a module that others than root and the user who runs it
/// can change: neither the file nor its folder may belong to them or be writable by them.
std::unique_ptr<train::Communicator> JoinProcesses();

}  // namespace qkv::cli
