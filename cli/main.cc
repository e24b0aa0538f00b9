#include "cli/program.h"

int main(int argc, char** argv) { return qkv::cli::RunProgram(argc, argv); }
