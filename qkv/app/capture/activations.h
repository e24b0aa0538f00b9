// The activations of a pass by name, kept and changed: "blocks.3.attn.q" and all others of nn/probe.h, "embed", the
// tokens entering the first block, and "norm", the output of the final norm. An encoder-decoder's begin with "encoder."
// or "decoder.".
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/capture/captured.h"
#include "qkv/app/models/model_facts.h"
#include "qkv/model/blocks/options.h"
#include "qkv/nn/probe.h"

namespace qkv::app {

inline constexpr std::string_view kOfEncoder = "encoder.", kOfDecoder = "decoder.";

/// Builds layers as the files store them: folded, merged and skipped ones would have other activations, or none.
model::BuildOptions AsStored();

/// The names of all activations of a model, in the order of a pass; of two towers those of the images'.
std::vector<std::string> ActivationNames(const ModelFacts& facts);

/// What a pass does with its activations.
struct ActivationRequest {
  std::set<std::string> kept, changed;  // names
  /// Changes an activation in place; its shape stays. Called on the thread of the pass.
  std::function<void(const std::string& name, Tensor<float>* activation)> change;

  bool empty() const { return kept.empty() && changed.empty(); }
};

/// Carries out a request in one part of a model.
class ActivationProbe final : public nn::Probe<float> {
 public:
  /// part: kOfEncoder, kOfDecoder or empty. Kept activations go to `kept`, dense and as changed. All outlive the probe.
  /// Throws Error from the pass if they exceed MemoryLimit().
  ActivationProbe(std::string_view part, const ActivationRequest& request, Captured* kept)
      : part_(part), request_(request), kept_(*kept) {}

  /// What a pass takes: itself, or null for an empty request.
  nn::Probe<float>* ForPass() { return request_.empty() ? nullptr : this; }

  bool Wants(const nn::Site& site) const override;
  void Visit(const nn::Site& site, View<float> activation) override;

 private:
  std::string NameOf(const nn::Site& site) const { return part_ + site.Name(); }

  std::string part_;
  const ActivationRequest& request_;
  Captured& kept_;
  double bytes_ = 0;
};

}  // namespace qkv::app
