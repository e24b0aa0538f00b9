#include "qkv/model/layout/bound_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/nn/rotary.h"

namespace qkv::model {

const BoundTensor* FindTensor(const std::vector<BoundTensor>& tensors, std::string_view canonical) {
  const auto found =
      std::ranges::find_if(tensors, [&](const BoundTensor& tensor) { return tensor.spec.name == canonical; });
  return found == tensors.end() ? nullptr : &*found;
}

namespace {

// The extract of a stored tensor, [rows, columns], in the table's shape.
template <typename T>
Tensor<T> ReadExtract(const io::StoredTensor& stored, const Extract& extract, const Shape& shape) {
  const Tensor<T> all = io::Convert<T>(stored);
  const int64_t piece = all.size() / extract.pieces, begin = extract.begin * piece;
  auto tensor = Tensor<T>::Uninitialised(shape);
  if (extract.columns) {
    const int64_t rows = shape[0], all_columns = all.size() / rows,
                  first = extract.begin * (all_columns / extract.pieces);
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(all.data() + row * all_columns + first, shape[1], tensor.data() + row * shape[1]);
    }
    return tensor;
  }
  if (!extract.transposed) {
    std::copy_n(all.data() + begin, tensor.size(), tensor.data());
    return tensor;
  }
  const int64_t rows = shape[0], columns = shape[1];  // stored: [columns, rows]
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      tensor[row * columns + column] = all[begin + column * rows + row];
    }
  }
  return tensor;
}

template <typename Config>
HalfSplitRows HalfSplitRowsOf(const Config& config, std::string_view canonical) {
  const nn::AttentionConfig& a = config.block.attention;
  if (!config.rotary_halves || canonical.find(".attn.") == std::string_view::npos) return {};
  const int64_t r = a.query_width();
  if (canonical.find(".attn.qkv.") != std::string_view::npos) return {(a.heads + a.kv_heads()) * r, r};
  const bool norm =
      canonical.find(".q_norm.") != std::string_view::npos || canonical.find(".k_norm.") != std::string_view::npos;
  return norm ? HalfSplitRows{r, r} : HalfSplitRows{};
}

}  // namespace

HalfSplitRows FindHalfSplitRows(const VitConfig& config, std::string_view canonical) {
  return HalfSplitRowsOf(config, canonical);
}
HalfSplitRows FindHalfSplitRows(const SequenceConfig& config, std::string_view canonical) {
  return HalfSplitRowsOf(config, canonical);
}

ScaledRows FindScaledRows(const SequenceConfig& config, std::string_view canonical) {
  if (!config.unscaled_scores) return {};
  const bool of_cross = canonical.find(".cross_attn.q.") != std::string_view::npos;
  if (!of_cross && canonical.find(".attn.qkv.") == std::string_view::npos) return {};
  const nn::AttentionConfig& a = of_cross ? *config.block.cross : config.block.attention;
  return {a.heads * a.query_width(), std::sqrt(static_cast<double>(a.head_width))};
}

LastTokens FindLastTokens(const VitConfig& c, std::string_view canonical) {
  if (c.detection_tokens == 0 || (canonical != "pos_embed" && canonical != "block_pos_embed")) return {};
  return {c.detection_begin(), c.patches(), c.detection_tokens};
}

void ReorderRows(const HalfSplitRows& split, RowOrder order, int64_t row_bytes, std::byte* rows) {
  if (split.rows == 0) return;
  const std::vector<int64_t> from = nn::HalfSplitToNeighbours(split.head);
  const auto bytes = static_cast<size_t>(row_bytes), of_head = static_cast<size_t>(split.head) * bytes;
  std::vector<std::byte> old(of_head);
  for (int64_t head = 0; head < split.rows / split.head; ++head, rows += of_head) {
    std::memcpy(old.data(), rows, of_head);
    for (size_t f = 0; f < from.size(); ++f) {
      const auto half = static_cast<size_t>(from[f]);
      const auto [to, at] = order == RowOrder::kToNeighbours ? std::pair(f, half) : std::pair(half, f);
      std::memcpy(rows + to * bytes, old.data() + at * bytes, bytes);
    }
  }
}

template <typename T>
Tensor<T> Read(const BoundTensor& bound) {
  auto tensor = bound.extract.whole() ? Tensor<T>::Uninitialised(bound.spec.shape)
                                      : ReadExtract<T>(*bound.parts[0], bound.extract, bound.spec.shape);
  T* to = tensor.data();
  if (bound.zero_part >= 0) std::fill_n(to, tensor.size(), T(0));
  for (size_t i = 0; i < bound.parts.size() && bound.extract.whole(); ++i) {
    const io::StoredTensor* const part = bound.parts[i];
    if (static_cast<int>(i) == bound.zero_part) to += part->shape.size();
    io::ConvertTo<T>(*part, to);
    to += part->shape.size();
    // Otherwise memory holds the weights twice while the model is built, stored and packed.
    if (part->file != nullptr) ReleasePages(part->bytes);
  }
  if (bound.split.rows > 0) {
    const int64_t row = tensor.size() / tensor.dim(0) * static_cast<int64_t>(sizeof(T));
    ReorderRows(bound.split, RowOrder::kToNeighbours, row, reinterpret_cast<std::byte*>(tensor.data()));
  }
  if (const auto& [rows, factor] = bound.scaled; rows > 0) {
    const auto of_rows = static_cast<T>(factor);
    T* const end = tensor.data() + tensor.size() / tensor.dim(0) * rows;
    for (T* value = tensor.data(); value < end; ++value) *value *= of_rows;
  }
  if (const LastTokens& order = bound.last_tokens; order.last > 0) {
    const int64_t width = tensor.dim(tensor.shape().rank() - 1), table = order.rows() * width;
    for (T* rows = tensor.data(); rows < tensor.data() + tensor.size(); rows += table) {
      std::rotate(rows + order.first * width, rows + (order.first + order.patches) * width, rows + table);
    }
  }
  // x − x is 0 for finite numbers only, and the sum vectorises.
  constexpr int kLanes = 16;
  T sums[kLanes] = {};
  const T* x = tensor.data();
  int64_t i = 0;
  for (; i + kLanes <= tensor.size(); i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] - x[i + lane];
  }
  bool finite = true;
  for (; i < tensor.size(); ++i) finite &= std::isfinite(x[i]);
  for (const T sum : sums) finite &= sum == T(0);
  Require(finite, "checkpoint: tensor \"{}\" holds NaN or infinity", bound.spec.name);
  return tensor;
}

template Tensor<float> Read(const BoundTensor&);
template Tensor<double> Read(const BoundTensor&);

void RequirePlainWeights(const io::TensorSet& tensors) {
  constexpr std::string_view kAdapters[] = {".lora_", ".base_layer.", ".hada_w", ".ia3_l", ".oft_", ".boft_"};
  constexpr std::string_view kQuantised[] = {".qweight", ".qzeros", ".SCB", ".absmax", ".weight_packed"};
  const auto has = [](std::span<const std::string_view> parts, const std::string& name) {
    return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != name.npos; });
  };
  for (const io::StoredTensor& tensor : tensors.tensors()) {
    Require(!has(kAdapters, tensor.name),
            "{}: the layers still have an adapter (LoRA or one of its kind): merge it into its base model "
            "(merge_and_unload of PEFT) and save that",
            EscapedText{tensor.name});
    const bool narrow = tensor.name.ends_with("weight") && tensor.shape.rank() > 1 && ElementSize(tensor.dtype) == 1;
    Require(
        !narrow && !has(kQuantised, tensor.name),
        "tensor {} is {}: quantised weights are not read; take the model in float, bfloat16 or half, and --dtype int8 "
        "makes it small",
        io::Quoted(tensor.name), Name(tensor.dtype));
  }
}

}  // namespace qkv::model
