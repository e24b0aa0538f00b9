// Runs the program as a user would, and keeps what it says.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "qkv/core/file.h"
#include "tests/support/files.h"

namespace qkv {

struct Said {
  int exit_code = 0;
  std::string out, err;
};

/// Runs `qkv ARGUMENTS` by the shell; `before` stands before the program's name (VARIABLE=value, or a pipe).
inline Said Qkv(const std::string& arguments, const std::string& before = "") {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  const int status = std::system((before + " " QKV_PROGRAM " " + arguments + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ReadFile(out), ReadFile(err)};
}

inline std::string Golden(const std::string& name) { return (SourceFolder() / "tests/golden" / name).string(); }
inline std::string Digits() { return (SourceFolder() / "examples/digits").string(); }

}  // namespace qkv
