// Writes a model with different attention tensors and everything else unchanged. Used by merge, split and truncate.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"

namespace qkv::lab {

struct WriteOptions {
  std::optional<DType> dtype;          // of the new tensors; nothing: that of the weights they replace
  bool force = false;                  // write into a folder that is not empty
  std::function<void()> advance = {};  // called after each block
};

/// Size of a model before or after rewriting.
struct Size {
  int64_t parameters = 0;    // of the whole model
  int64_t query_key = 0;     // of queries and keys
  double multiply_adds = 0;  // one image of the size that preprocessing gives
  size_t bytes = 0;          // of all tensors
};

struct Written {
  Size before, after;
  DType dtype = DType::kF32;       // of the new tensors
  std::vector<std::string> notes;  // as model::ModelFiles, and what should be known about the result
};

/// The sizes, the type of the new tensors and the notes.
io::Json ToJson(const Written& written);

/// Tensors by the part of their canonical name after "blocks.N.attn.".
using AttentionTensors = std::map<std::string, Tensor<double>>;

/// Which tensors of a block are replaced.
enum class ReplacedTensors {
  kMissing,  // those that the checkpoint lacks, or has in another shape
  kAllMade,  // all that are made
};

/// Writes `folder`: the checkpoint in its own layout with attention as in `target`. Tensors that are replaced come from
/// `make(block)`. Written as by model::WriteModel: atomically, or with `force` each
/// file atomically. Throws Error if a type cannot hold a number, or the folder cannot be written.
Written WriteRewritten(const model::Checkpoint& checkpoint, const model::VitConfig& target,
                       const std::function<AttentionTensors(int64_t block)>& make, const std::filesystem::path& folder,
                       const WriteOptions& options, ReplacedTensors replaced = ReplacedTensors::kMissing);

/// Throws Error with `operation` and the reason unless scores have the form s · (W_Q x + b_Q)·(W_K x + b_K): QK-norms
/// and positional scores do not.
void RequireLinearScores(const model::Checkpoint& checkpoint, const char* operation);

}  // namespace qkv::lab
