#include "qkv/app/capture/activations.h"

#include <algorithm>

#include "qkv/core/memory.h"

namespace qkv::app {
namespace {

void AddNames(std::string_view part, const nn::BlockConfig& block, int64_t depth, bool final_norm,
              std::vector<std::string>* names) {
  const auto add = [&](std::string_view name) { names->push_back(std::string(part).append(name)); };
  add("embed");
  for (int64_t i = 0; i < depth; ++i) std::ranges::for_each(nn::ActivationNames(block, i), add);
  if (final_norm) add("norm");
}

// Copies rows between views of one shape, both with a dense last axis.
void CopyRows(View<const float> from, View<float> to) {
  if (from.rank() == 1) {
    std::copy_n(from.data(), from.size(), to.data());
    return;
  }
  for (int64_t i = 0; i < from.dim(0); ++i) CopyRows(from[i], to[i]);
}

}  // namespace

model::BuildOptions AsStored() {
  return {.fold_norms = false,
          .fold_scales = false,
          .fold_key_value_bias = false,
          .read_rows = false,
          .merge = false,
          .absorb = false};
}

std::vector<std::string> ActivationNames(const ModelFacts& facts) {
  std::vector<std::string> names;
  const auto add_sequence = [&](std::string_view part, const model::SequenceConfig& c) {
    AddNames(part, c.block, c.depth, c.final_norm, &names);
  };
  if (facts.images) {
    const bool pair = facts.images->decoder.has_value();
    AddNames(pair ? kOfEncoder : "", facts.config.block, facts.config.depth, facts.config.final_norm, &names);
    if (pair) add_sequence(kOfDecoder, facts.images->decoder->config);
  } else if (facts.texts) {
    const bool pair = facts.texts->encoder && facts.texts->decoder;
    if (facts.texts->encoder) add_sequence(pair ? kOfEncoder : "", *facts.texts->encoder);
    if (facts.texts->decoder) add_sequence(pair ? kOfDecoder : "", *facts.texts->decoder);
  } else if (facts.sequences) {
    add_sequence("", *facts.sequences);
  }
  return names;
}

bool ActivationProbe::Wants(const nn::Site& site) const {
  const std::string name = NameOf(site);
  return request_.kept.contains(name) || request_.changed.contains(name);
}

void ActivationProbe::Visit(const nn::Site& site, View<float> activation) {
  const std::string name = NameOf(site);
  const bool keeps = request_.kept.contains(name);
  const double bytes = sizeof(float) * static_cast<double>(activation.size());
  if (keeps) bytes_ += bytes;
  RequireMemory(bytes_ + bytes, "run: the activations that are kept");
  auto copy = Tensor<float>::Uninitialised(activation.shape());
  CopyRows(activation, copy);
  if (request_.changed.contains(name)) {
    request_.change(name, &copy);
    CopyRows(copy, activation);
  }
  if (keeps) kept_.insert_or_assign(name, std::move(copy));
}

}  // namespace qkv::app
