// Runs the program as a user would, and keeps what it says.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv {

struct CommandOutput {
  int exit_code = 0;
  std::string out, err;
};

/// Runs `qkv ARGUMENTS` by the shell; `before` stands before the program's name (VARIABLE=value, or a pipe).
/// `out_to` takes what it prints, which is then not kept.
inline CommandOutput Qkv(const std::string& arguments, const std::string& before = "", const std::string& out_to = "") {
  const TemporaryFolder folder;
  WriteFile(folder / "out", "");
  const std::string out = out_to.empty() ? (folder / "out").string() : out_to, err = (folder / "err").string();
  const int status = std::system((before + " " QKV_PROGRAM " " + arguments + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ReadFile(folder / "out"), ReadFile(err)};
}

inline bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// What a subcommand with --json printed.
inline std::vector<io::Json> JsonLines(const std::string& text) {
  std::vector<io::Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(io::Json::parse(line));
  return lines;
}

inline std::string Golden(const std::string& name) { return GoldenFolder(name).string(); }
/// A golden model with other weights, written to `folder`; `change` gets each tensor by its name.
inline void WriteChanged(const std::string& golden, const std::filesystem::path& folder,
                         const std::function<void(const std::string& name, Tensor<float>& tensor)>& change) {
  const std::filesystem::path from = Golden(golden);
  WriteFile(folder / "config.json", ReadFile(from / "config.json"));
  const auto file = io::SafeTensors::Open(from / "model.safetensors");
  std::vector<Tensor<float>> tensors;
  std::vector<io::StoredTensor> stored;
  for (const io::StoredTensor& tensor : file.tensors()) {
    tensors.push_back(io::Convert<float>(tensor));
    change(tensor.name, tensors.back());
    stored.push_back(io::Stored<float>(tensor.name, tensors.back()));
  }
  io::WriteSafeTensors(folder / "model.safetensors", stored);
}
inline std::string Digits() { return (SourceFolder() / "examples/digits").string(); }

/// Whether `attend` writes pages of images, which takes Node.js when qkv is built. Without it the program says so.
inline bool HasImagePages() {
  const TemporaryFolder folder;
  const std::string page = (folder / "map.html").string();
  const CommandOutput said = Qkv("attend -o " + page + " " + Digits() + "/3-white.png");
  if (said.exit_code == 0) return true;
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "tools/setup.sh page")) << said.err;
  EXPECT_FALSE(std::filesystem::exists(page));
  return false;
}

}  // namespace qkv
