#include "qkv/model/families/from_tensors.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"

namespace qkv::model {
namespace {

int64_t RoundedRoot(int64_t count) {
  return static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(0, count)))));
}

}  // namespace

int64_t HeadsGiven(const ModelHints& given, int64_t width) {
  Require(given.heads > 0,
          "checkpoint: there is no config.json, and the tensors do not tell how many attention heads the model has; "
          "give --heads N (its width of {} / N features each, often 64), or put its config.json beside the weights",
          width);
  Require(width % given.heads == 0, "checkpoint: {} attention heads were given, which do not divide the width of {}",
          given.heads, width);
  return given.heads;
}

int64_t Extent(const io::TensorSet& tensors, const std::string& name, int axis) {
  const io::StoredTensor* tensor = tensors.Find(name);
  Require(tensor && tensor->shape.rank() > axis && tensor->shape[axis] <= kMaxTensorExtent,
          "checkpoint: tensor \"{}\" is missing, or of a strange shape", name);
  return tensor->shape[axis];
}

bool IsSquare(int64_t count) { return count > 0 && RoundedRoot(count) * RoundedRoot(count) == count; }

int64_t SquareSide(int64_t count) {
  Require(IsSquare(count),
          "checkpoint: its {} patch positions are no square grid; give the image size in a config.json", count);
  return RoundedRoot(count);
}

}  // namespace qkv::model
