// What the commands that write a model say of it.
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

/// Parameters, multiply-adds and bytes before and after, on stderr, and what is to be noted.
void PrintSizes(const std::string& output, const lab::Written& written);

/// Whether the model became larger or slower, in so many words: what merging does to narrow heads.
void PrintWhetherMergingPays(const model::VitConfig& config, const lab::Written& written);

}  // namespace qkv::cli
