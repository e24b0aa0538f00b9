#include "qkv/lab/pairs.h"

#include <algorithm>
#include <initializer_list>

namespace qkv::lab {
namespace {

using algebra::Projection;
using algebra::ProjectionView;
using algebra::QueryKey;
using Side = Projection QueryKey::*;

Tensor<double> Copy(View<const double> from) {
  auto to = Tensor<double>::Uninitialised(from.shape());
  if (from.size() > 0) std::copy_n(from.data(), to.size(), to.data());
  return to;
}

// Rows of a layer are dense.
Projection CopyProjection(const ProjectionView& head) {
  return {Copy(head.weight), head.bias.empty() ? Tensor<double>() : Copy(head.bias)};
}

// The heads' weights of one side, stacked: [H·r, D].
Tensor<double> StackWeights(const HeadPairs& pairs, Side side) {
  const Shape& one = (pairs.front().*side).weight.shape();
  auto all = Tensor<double>::Uninitialised({std::ssize(pairs) * one[0], one[1]});
  double* to = all.data();
  for (const QueryKey& pair : pairs) to = std::ranges::copy((pair.*side).weight.span(), to).out;
  return all;
}

// Their biases, [H·r], or zeros.
Tensor<double> StackBiases(const HeadPairs& pairs, Side side) {
  const int64_t rows = (pairs.front().*side).weight.dim(0);
  Tensor<double> all({std::ssize(pairs) * rows});
  for (size_t head = 0; head < pairs.size(); ++head) {
    const Tensor<double>& bias = (pairs[head].*side).bias;
    if (!bias.empty()) std::ranges::copy(bias.span(), all.data() + static_cast<int64_t>(head) * rows);
  }
  return all;
}

// Stacks rows.
Tensor<double> Concatenate(std::initializer_list<const Tensor<double>*> parts) {
  const Shape& first = (*parts.begin())->shape();
  int64_t rows = 0;
  for (const Tensor<double>* part : parts) rows += part->dim(0);
  auto all = Tensor<double>::Uninitialised(first.rank() == 2 ? Shape{rows, first[1]} : Shape{rows});
  double* to = all.data();
  for (const Tensor<double>* part : parts) to = std::ranges::copy(part->span(), to).out;
  return all;
}

}  // namespace

HeadPairs MakeHeadPairs(const inspect::AttentionWeights& layer) {
  HeadPairs pairs;
  for (int64_t head = 0; head < layer.heads; ++head) {
    pairs.push_back({CopyProjection(algebra::Head(layer.query, head, layer.heads)),
                     CopyProjection(algebra::Head(layer.key, head, layer.heads))});
  }
  return pairs;
}

AttentionTensors UnfusedTensors(const HeadPairs& pairs, const inspect::AttentionWeights& layer) {
  AttentionTensors tensors;
  tensors.emplace("qk.query.weight", StackWeights(pairs, &QueryKey::query));
  tensors.emplace("qk.key.weight", StackWeights(pairs, &QueryKey::key));
  tensors.emplace("qk.query.bias", StackBiases(pairs, &QueryKey::query));
  tensors.emplace("qk.key.bias", StackBiases(pairs, &QueryKey::key));
  AddValues(layer, &tensors);
  return tensors;
}

AttentionTensors FusedTensors(const HeadPairs& pairs, const inspect::AttentionWeights& layer) {
  const AttentionTensors apart = UnfusedTensors(pairs, layer);
  const auto fused = [&](const std::string& part) {
    return Concatenate({&apart.at("qk.query." + part), &apart.at("qk.key." + part), &apart.at("v." + part)});
  };
  AttentionTensors tensors;
  tensors.emplace("qkv.weight", fused("weight"));
  if (apart.contains("v.bias")) tensors.emplace("qkv.bias", fused("bias"));
  return tensors;
}

void AddValues(const inspect::AttentionWeights& layer, AttentionTensors* tensors) {
  tensors->emplace("v.weight", Copy(layer.value.weight));
  if (!layer.value.bias.empty()) tensors->emplace("v.bias", Copy(layer.value.bias));
}

}  // namespace qkv::lab
