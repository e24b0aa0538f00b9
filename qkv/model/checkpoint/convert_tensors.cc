// Converts tensors: narrows types, joins and splits parts, moves positions between tokens and table.
#include "qkv/model/checkpoint/convert_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/families/families.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {
namespace {

using io::StoredTensor;

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF64;
}

std::string_view LongName(DType dtype) {
  return dtype == DType::kF16 ? "fp16" : dtype == DType::kBF16 ? "bf16" : dtype == DType::kF32 ? "fp32" : Name(dtype);
}

std::span<std::byte> NewMemory(TensorList* list, size_t bytes) { return list->memory.emplace_back(bytes); }

// Narrows values into `to`, which has room for as many elements of T.
template <typename T, typename From, typename Narrow, typename Widen>
void NarrowAll(const Tensor<From>& values, const std::string& name, DType dtype, Narrow narrow, Widen widen,
               std::byte* to) {
  for (int64_t i = 0; i < values.size(); ++i) {
    const T narrowed = narrow(static_cast<float>(values[i]));
    Require(std::isfinite(widen(narrowed)) || !std::isfinite(values[i]),
            "convert: tensor {} holds {}, too large for {}{}", io::Quoted(name), values[i], LongName(dtype),
            dtype == DType::kF16 ? " (at most 65504); bf16 has room for it" : "");
    std::memcpy(to + static_cast<size_t>(i) * sizeof(T), &narrowed, sizeof(T));
  }
}

template <typename From>
void Narrow(const Tensor<From>& values, const std::string& name, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::kF32:
      return NarrowAll<float>(
          values, name, dtype, [](float x) { return x; }, [](float x) { return x; }, to);
    case DType::kF16:
      return NarrowAll<Half>(
          values, name, dtype, ToHalf, [](Half x) { return ToFloat(x); }, to);
    case DType::kBF16:
      return NarrowAll<BFloat16>(
          values, name, dtype, ToBFloat16, [](BFloat16 x) { return ToFloat(x); }, to);
    case DType::kF64:
      for (int64_t i = 0; i < values.size(); ++i) {
        const auto x = static_cast<double>(values[i]);
        std::memcpy(to + static_cast<size_t>(i) * sizeof(x), &x, sizeof(x));
      }
      return;
    default:
      Fail("convert: cannot write {}", Name(dtype));
  }
}

// The tensor in another type; without a copy if it already has that type, or does not hold floating-point numbers.
StoredTensor Cast(const StoredTensor& tensor, DType dtype, TensorList* list) {
  if (tensor.dtype == dtype || !IsFloat(tensor.dtype)) return tensor;
  const std::span<std::byte> memory = NewMemory(list, static_cast<size_t>(tensor.shape.size()) * ElementSize(dtype));
  if (tensor.dtype == DType::kF64) {
    Narrow(io::Convert<double>(tensor), tensor.name, dtype, memory.data());
  } else {
    Narrow(io::Convert<float>(tensor), tensor.name, dtype, memory.data());
  }
  return {tensor.name, dtype, tensor.shape, memory};
}

int64_t RowBytes(const Shape& shape, DType dtype) {
  return shape.size() / shape[0] * static_cast<int64_t>(ElementSize(dtype));
}

// Joins the parts of a tensor, in the table's shape and order of rows, under its canonical name.
StoredTensor Join(const BoundTensor& bound, std::optional<DType> dtype, TensorList* list) {
  const bool alike = std::all_of(bound.parts.begin(), bound.parts.end(),
                                 [&](const StoredTensor* part) { return part->dtype == bound.parts[0]->dtype; });
  const DType type = dtype ? *dtype : alike ? bound.parts[0]->dtype : DType::kF32;
  if (!bound.extract.whole()) return StoreAs(bound.spec.name, Read<double>(bound), type, list);
  std::vector<StoredTensor> parts;
  for (const StoredTensor* part : bound.parts) parts.push_back(Cast(*part, type, list));
  StoredTensor joined = parts[0];
  if (parts.size() > 1 || bound.split.rows > 0) {
    const std::span<std::byte> memory =
        NewMemory(list, static_cast<size_t>(bound.spec.shape.size()) * ElementSize(joined.dtype));
    std::byte* to = memory.data();
    for (size_t i = 0; i < parts.size(); ++i) {
      if (static_cast<int>(i) == bound.zero_part) to += parts[i].bytes.size();  // new memory is zero
      to = std::copy(parts[i].bytes.begin(), parts[i].bytes.end(), to);
    }
    ReorderRows(bound.split, RowOrder::kToNeighbours, RowBytes(bound.spec.shape, joined.dtype), memory.data());
    for (const StoredTensor* part : bound.parts) part->RequireIntact();
    joined.bytes = memory, joined.file = nullptr, joined.checksum = nullptr;
  }
  joined.name = bound.spec.name;
  joined.shape = bound.spec.shape;
  return joined;
}

// The fused projection of queries, keys and values of every block, for attention kinds that are stored differently.
std::vector<StoredTensor> FusedProjections(const Checkpoint& checkpoint, std::optional<DType> dtype, TensorList* list) {
  std::vector<StoredTensor> tensors;
  const VitConfig& config = checkpoint.description.config;
  for (int64_t block = 0; block < config.depth && !nn::StacksProjections(config.block.attention.kind); ++block) {
    const std::string qkv = fmt::format("blocks.{}.attn.qkv", block);
    const FusedProjection<double> fused = ReadFusedProjection<double>(checkpoint, block);
    const auto found = std::ranges::find_if(checkpoint.bound, [&](const BoundTensor& bound) {
      return bound.spec.name.starts_with(fmt::format("blocks.{}.attn.qk.", block));
    });
    const DType type = dtype.value_or(found->parts[0]->dtype);
    tensors.push_back(StoreAs(qkv + ".weight", fused.weight, type, list));
    if (!fused.bias.empty()) tensors.push_back(StoreAs(qkv + ".bias", fused.bias, type, list));
  }
  return tensors;
}

// Rewrites tokens and positions if the two configurations give positions to different numbers of prefix tokens.
class PositionShift {
 public:
  PositionShift(const VitConfig& from, const VitConfig& to, std::map<std::string, StoredTensor>* tensors,
                TensorList* list)
      : width_(from.block.width), from_(from.position_prefix), to_(to.position_prefix), tensors_(tensors), list_(list) {
    if (from_ == to_ || from.positions != Positions::kLearned) return;
    const Tensor<float> old = io::Convert<float>(tensors_->at("pos_embed"));
    int64_t first = 0;  // index of this tensor's first token
    for (const char* name : {"cls_token", "dist_token", "reg_token"}) {
      if (tensors_->contains(name)) first = AddPositions(name, first, old);
    }
    MovePositions(old, from.patches());
  }

 private:
  // Adds positions that the target has no row for to the tokens. Returns the index after this tensor's last token.
  int64_t AddPositions(const std::string& name, int64_t first, const Tensor<float>& old) {
    Tensor<float> tokens = io::Convert<float>(tensors_->at(name));
    const int64_t end = first + tokens.size() / width_;
    const int64_t begin = std::max(first, to_), stop = std::min(end, from_);
    if (begin < stop) {
      for (int64_t token = begin; token < stop; ++token) {
        for (int64_t d = 0; d < width_; ++d) tokens[(token - first) * width_ + d] += old[token * width_ + d];
      }
      Replace(name, tokens, tensors_->at(name).shape);
    }
    return end;
  }

  void MovePositions(const Tensor<float>& old, int64_t patches) {
    Tensor<float> moved({1, to_ + patches, width_});
    std::copy_n(old.data(), std::min(from_, to_) * width_, moved.data());
    std::copy_n(old.data() + from_ * width_, patches * width_, moved.data() + to_ * width_);
    Replace("pos_embed", moved, moved.shape());
  }

  void Replace(const std::string& name, const Tensor<float>& values, const Shape& shape) {
    StoredTensor& tensor = tensors_->at(name);
    const std::span<std::byte> memory = NewMemory(list_, static_cast<size_t>(shape.size()) * ElementSize(tensor.dtype));
    Narrow(values, name, tensor.dtype, memory.data());
    tensor.shape = shape;
    tensor.bytes = memory;
  }

  const int64_t width_, from_, to_;  // prefix tokens with a position, before and after
  std::map<std::string, StoredTensor>* const tensors_;
  TensorList* const list_;
};

}  // namespace

StoredTensor StoreAs(const std::string& name, const Tensor<double>& values, DType dtype, TensorList* list) {
  const std::span<std::byte> memory = NewMemory(list, static_cast<size_t>(values.size()) * ElementSize(dtype));
  Narrow(values, name, dtype, memory.data());
  return {name, dtype, values.shape(), memory};
}

void AddParts(const StoredTensor& tensor, const std::vector<std::string>& names, std::vector<StoredTensor>* out) {
  const auto count = static_cast<int64_t>(names.size());
  std::vector<int64_t> extents(tensor.shape.extents().begin(), tensor.shape.extents().end());
  if (count > 1) extents[0] /= count;
  const size_t bytes = tensor.bytes.size() / names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == kZeroPart) {
      const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
      Require(std::ranges::all_of(tensor.bytes.subspan(i * bytes, bytes), is_zero),
              "convert: part {} of tensor {} is not zero, and its library has no place for it", i, tensor.name);
      continue;
    }
    out->push_back(
        {names[i], tensor.dtype, Shape(extents), tensor.bytes.subspan(i * bytes, bytes), tensor.file, tensor.checksum});
  }
}

TensorList SameTensors(const io::TensorSet& tensors, std::optional<DType> dtype) {
  TensorList list;
  for (const StoredTensor& tensor : tensors.tensors()) {
    list.tensors.push_back(dtype ? Cast(tensor, *dtype, &list) : tensor);
  }
  return list;
}

TensorList SeparateTensors(const Checkpoint& checkpoint, std::optional<DType> dtype) {
  TensorList list;
  const VitConfig target = AsSeparate(checkpoint.description.config);
  std::set<const StoredTensor*> replaced;
  for (const BoundTensor& bound : checkpoint.bound) {
    if (bound.spec.name.find(".attn.qk.") == std::string::npos &&
        bound.spec.name.find(".attn.v.") == std::string::npos) {
      continue;
    }
    replaced.insert(bound.parts.begin(), bound.parts.end());
  }
  for (const StoredTensor& tensor : checkpoint.tensors->tensors()) {
    if (!replaced.contains(&tensor)) list.tensors.push_back(dtype ? Cast(tensor, *dtype, &list) : tensor);
  }
  for (const StoredTensor& fused : FusedProjections(checkpoint, dtype, &list)) {
    AddParts(fused, StoredNames(GetLayout(target), BasePrefix(*checkpoint.tensors), fused.name), &list.tensors);
  }
  return list;
}

TensorList TranslatedTensors(const Checkpoint& checkpoint, const VitConfig& target, std::string_view prefix,
                             std::optional<DType> dtype) {
  TensorList list;
  std::map<std::string, StoredTensor> canonical;
  for (const BoundTensor& bound : checkpoint.bound) canonical.emplace(bound.spec.name, Join(bound, dtype, &list));
  for (const StoredTensor& fused : FusedProjections(checkpoint, dtype, &list)) canonical.emplace(fused.name, fused);
  PositionShift(checkpoint.description.config, target, &canonical, &list);

  const Layout& layout = GetLayout(target);
  for (const TensorSpec& spec : TensorTable(target)) {
    const auto tensor = canonical.find(spec.name);
    Require(tensor != canonical.end() && tensor->second.shape == spec.shape,
            "convert: {} needs tensor {} {}, this model has {}", target.architecture, spec.name, spec.shape,
            tensor == canonical.end() ? "none" : fmt::format("{}", tensor->second.shape));
    StoredTensor& stored = tensor->second;
    if (const HalfSplitRows split = FindHalfSplitRows(target, spec.name); split.rows > 0) {
      const std::span<std::byte> memory = NewMemory(&list, stored.bytes.size());
      std::copy(stored.bytes.begin(), stored.bytes.end(), memory.data());
      ReorderRows(split, RowOrder::kToHalves, RowBytes(stored.shape, stored.dtype), memory.data());
      stored.bytes = memory, stored.file = nullptr;
    }
    AddParts(stored, StoredNames(layout, prefix, spec.name), &list.tensors);
  }
  for (const std::string& name : PlaceholderNames(layout, prefix)) {
    const DType type = canonical.at("cls_token").dtype;
    const std::span<std::byte> zeros = NewMemory(&list, static_cast<size_t>(target.block.width) * ElementSize(type));
    const int64_t D = target.block.width;
    list.tensors.push_back({name, type, layout.placeholder_rank == 3 ? Shape{1, 1, D} : Shape{1, D}, zeros});
  }
  return list;
}

}  // namespace qkv::model
