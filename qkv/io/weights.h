// Opens the weights of a model in any format: safetensors or PyTorch, one file or shards. The format is recognised by
// content, and errors name files that are often passed by mistake.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "qkv/io/tensor_set.h"

namespace qkv::io {

struct WeightOptions {
  // The path of the dictionary to read in a PyTorch file with several, such as "model" or "ema.state_dict"; "." is the
  // top level. Empty: the one that timm would load, see TorchFile::Choose.
  std::string state_dict;
};

/// Key of TensorSet::metadata for TorchContents::training.
inline constexpr const char* kTrainingKey = "timm_training";

/// `path`: a file by safetensors or torch.save, an index of shards, or a folder with model.safetensors,
/// pytorch_model.bin, or the index of either (the first that is there), or else model_best.pth.tar or last.pth.tar, as
/// timm's training script writes them, which a remark says. Throws Error as SafeTensors::Open and
/// TorchFile; the error says what a path is instead: an empty file, a pointer of Git LFS, an HTML page, a file of
/// another library, a folder whose subfolders hold models.
TensorSet OpenWeights(const std::filesystem::path& path, const WeightOptions& options = {});
/// The same for the bytes of one file in memory, which must outlive the result. `where` is the prefix of errors.
TensorSet ReadWeights(std::span<const std::byte> bytes, std::string_view where, const WeightOptions& options = {});

/// Names of weight files in a folder, in the order in which OpenWeights looks for them.
std::span<const char* const> WeightFileNames();
/// Names of weight files in the folder of a training run, likewise.
std::span<const char* const> RunFileNames();

}  // namespace qkv::io
