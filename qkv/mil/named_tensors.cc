#include "qkv/mil/named_tensors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "qkv/io/json.h"

namespace qkv::mil {

std::vector<int64_t> NamedTensors::Layers(std::string_view prefix) const {
  constexpr std::string_view kWeight = ".weight";
  std::vector<int64_t> layers;
  for (const io::StoredTensor& tensor : set_.tensors()) {
    const std::string_view name = tensor.name;
    if (!name.starts_with(prefix) || !name.ends_with(kWeight) || name.size() <= prefix.size() + kWeight.size()) {
      continue;
    }
    const std::string_view number = name.substr(prefix.size(), name.size() - prefix.size() - kWeight.size());
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), layer);
    if (error == std::errc() && end == number.data() + number.size() && layer >= 0) layers.push_back(layer);
  }
  std::sort(layers.begin(), layers.end());
  return layers;
}

Tensor<float> NamedTensors::Take(const std::string& name, int rank) {
  const io::StoredTensor* const tensor = set_.Find(name);
  Require(tensor != nullptr, "{}: no tensor {}", where_, io::Quoted(name));
  Require(tensor->shape.rank() == rank && tensor->shape.size() > 0, "{}: tensor {} is {}, expected {} axes", where_,
          io::Quoted(name), tensor->shape, rank);
  taken_.insert(name);
  Tensor<float> values = io::Convert<float>(*tensor);
  Require(std::ranges::all_of(values.span(), [](float value) { return std::isfinite(value); }),
          "{}: tensor {} has values that are no numbers; the file is damaged, or its training diverged", where_,
          io::Quoted(name));
  return values;
}

StoredLinear NamedTensors::TakeLinear(const std::string& prefix) {
  StoredLinear layer{.weight = Take(prefix + "weight", 2), .bias = Take(prefix + "bias", 1)};
  Require(layer.bias.size() == layer.weight.dim(0), "{}: {}bias has {} elements, expected {}", where_, prefix,
          layer.bias.size(), layer.weight.dim(0));
  return layer;
}

Stage NamedTensors::TakeStage(const std::string& prefix, simd::Activation activation) {
  return {PackLinear(TakeLinear(prefix)), activation};
}

void NamedTensors::Skip(std::string_view prefix) {
  for (const io::StoredTensor& tensor : set_.tensors()) {
    if (tensor.name.starts_with(prefix)) taken_.insert(tensor.name);
  }
}

void NamedTensors::Finish(std::string_view layout) const {
  for (const io::StoredTensor& tensor : set_.tensors()) {
    Require(taken_.contains(tensor.name), "{}: {} has no tensor {}; it is of another version, or of another model",
            where_, layout, io::Quoted(tensor.name));
  }
}

nn::Linear<float> PackLinear(StoredLinear layer) {
  return {simd::PackedMatrix<float>(layer.weight.view()), std::move(layer.bias)};
}

Stage JoinStages(const std::vector<StoredLinear>& layers, simd::Activation activation, std::string_view where) {
  int64_t outputs = 0;
  const int64_t inputs = layers.empty() ? 0 : layers[0].weight.dim(1);
  for (const StoredLinear& layer : layers) {
    Require(layer.weight.dim(1) == inputs, "{}: layers that read the same have {} and {} inputs", where, inputs,
            layer.weight.dim(1));
    outputs += layer.weight.dim(0);
  }
  StoredLinear joined{.weight = Tensor<float>({outputs, inputs}), .bias = Tensor<float>({outputs})};
  int64_t at = 0;
  for (const StoredLinear& layer : layers) {
    std::copy_n(layer.weight.data(), layer.weight.size(), joined.weight.data() + at * inputs);
    std::copy_n(layer.bias.data(), layer.bias.size(), joined.bias.data() + at);
    at += layer.bias.size();
  }
  return {PackLinear(std::move(joined)), activation};
}

}  // namespace qkv::mil
