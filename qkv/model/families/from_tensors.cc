#include "qkv/model/families/from_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/model/families/timm_registry.h"

namespace qkv::model {
namespace {

int64_t RoundedRoot(int64_t count) {
  return static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(0, count)))));
}

}  // namespace

int64_t HeadsGiven(const ModelHints& given, int64_t width, int64_t depth) {
  int64_t heads = given.heads;
  for (const char* key : {"num_heads", "num_attention_heads"}) {
    const io::Json value = given.settings.value(key, io::Json());
    if (value.is_number_integer()) heads = value.get<int64_t>();
  }
  if (heads <= 0) {
    const std::vector<int64_t> known = TimmHeads(width, depth);
    Fail(
        "checkpoint: there is no config.json, and the tensors do not tell how many attention heads the model has; give "
        "--heads N{}, or --architecture NAME, or put its config.json beside the weights",
        known.empty() ? fmt::format(" (its width of {} / N features each)", width)
                      : fmt::format(" (timm's models of this width and depth have {})", fmt::join(known, " or ")));
  }
  Require(width % heads == 0, "checkpoint: {} attention heads were given, which do not divide the width of {}", heads,
          width);
  return heads;
}

void AddAssumed(const std::vector<Assumed>& values, const ModelHints& given, std::vector<std::string>* assumptions) {
  std::string sentence;
  for (const Assumed& value : values) {
    const bool stated =
        std::ranges::any_of(value.keys, [&](std::string_view key) { return given.settings.contains(key); });
    if (!stated) sentence += (sentence.empty() ? "" : ", ") + value.text;
  }
  if (!sentence.empty()) assumptions->push_back(std::move(sentence));
}

int64_t Extent(const io::TensorSet& tensors, const std::string& name, int axis) {
  const io::StoredTensor* tensor = tensors.Find(name);
  Require(tensor && tensor->shape.rank() > axis && tensor->shape[axis] <= kMaxTensorExtent,
          "checkpoint: tensor \"{}\" is missing, or of a strange shape", name);
  return tensor->shape[axis];
}

int64_t RelativeBiasRows(const VitConfig& c) {
  RequireRange("the image height", c.image_height, 1, kMaxExtent);
  RequireRange("the image width", c.image_width, 1, kMaxExtent);
  RequireRange("the patch height", c.patch_height, 1, c.image_height);
  RequireRange("the patch width", c.patch_width, 1, c.image_width);
  return c.relative_bias_rows();
}

int64_t SideOfRelativeBiases(int64_t rows) {
  const int64_t offsets = RoundedRoot(rows - 3);  // 2 · side − 1
  Require(offsets % 2 == 1 && offsets * offsets == rows - 3,
          "checkpoint: a table of {} biases by relative position is of no square grid; give the image size in a "
          "config.json",
          rows);
  return (offsets + 1) / 2;
}

bool IsSquare(int64_t count) { return count > 0 && RoundedRoot(count) * RoundedRoot(count) == count; }

int64_t SquareSide(int64_t count) {
  Require(IsSquare(count),
          "checkpoint: its {} patch positions are no square grid; give the image size in a config.json", count);
  return RoundedRoot(count);
}

}  // namespace qkv::model
