// The program: qkv SUBCOMMAND. Each subcommand has a file of its own.
#pragma once

namespace qkv::cli {

/// Does what the arguments say, of which the first is the program's name, and returns the exit code. Once a process:
/// it sets signals and settings for all of it.
int RunProgram(int argc, char** argv);

}  // namespace qkv::cli
