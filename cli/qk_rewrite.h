// Shared by the commands that write a rewritten model: options, and what they print about it.
#pragma once

#include <map>
#include <string>

#include "cli/command.h"
#include "qkv/lab/rewrite.h"

namespace qkv::cli {

/// Options of the commands that write a rewritten model.
struct RewriteOptions {
  ModelOptions model;
  std::string output, dtype;
  bool force = false;

  void AddTo(Command command);
  lab::WriteOptions Write() const;
};

/// "fp32", "fp16", "bf16", …
std::string ShortName(DType dtype);

/// Prints notes, and parameters, multiply-adds and bytes before and after, on stderr.
void PrintSizes(const std::string& output, const lab::Written& written);

}  // namespace qkv::cli
