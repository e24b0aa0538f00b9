// A model whose attention is made of other tensors, everything else as it was: what merge, split and truncate write.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/model/checkpoint/checkpoint.h"

namespace qkv::lab {

struct WriteOptions {
  std::optional<DType> dtype;  // of the new tensors; nothing: that of the weights whose place they take
  bool force = false;          // write into a folder that is not empty
};

/// One side of a rewriting, by which it is judged.
struct Size {
  int64_t parameters = 0;    // of the whole model
  int64_t query_key = 0;     // of these, of queries and keys
  double multiply_adds = 0;  // of one image of the trained size
  size_t bytes = 0;          // of all tensors
};

struct Written {
  Size before, after;
  DType dtype = DType::kF32;       // of the new tensors
  std::vector<std::string> notes;  // as model::ModelFiles
};

/// Tensors by what follows "blocks.N.attn." in their canonical name.
using AttentionTensors = std::map<std::string, Tensor<double>>;

/// Writes `folder`: the checkpoint in its own layout, but with attention as `target` says, whose tensors that the
/// checkpoint has not got (or not in that shape) come from `make(block)`. It appears as model::WriteModel has it: whole
/// or not at all, with `force` each file whole. Throws Error when a type cannot hold a number, or the folder cannot be
/// written.
Written WriteRewritten(const model::Checkpoint& checkpoint, const model::VitConfig& target,
                       const std::function<AttentionTensors(int64_t block)>& make, const std::filesystem::path& folder,
                       const WriteOptions& options);

/// Throws Error with `operation` and the reason unless scores are s · (W_Q x + b_Q)·(W_K x + b_K) or the like: a norm
/// on queries and keys stands between, and scores of places come from no tokens.
void RequireLinearScores(const model::Checkpoint& checkpoint, const char* operation);

}  // namespace qkv::lab
