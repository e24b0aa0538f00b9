#include "qkv/mil/gated_files.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "qkv/io/json.h"
#include "qkv/mil/named_tensors.h"

namespace qkv::mil {
namespace {

using simd::Activation;

std::string Layer(std::string_view prefix, int64_t number) { return fmt::format("{}{}.", prefix, number); }

// σ(v) = (1 + tanh(v / 2)) / 2, and halving is exact.
void Halve(StoredLinear* layer) {
  for (float& value : layer->weight.span()) value *= 0.5f;
  for (float& value : layer->bias.span()) value *= 0.5f;
}

// CLAM's and MIL-Lab's attention, gated (attention_a, _b, _c) or a Sequential `module`. Its scores are branches.
void ReadAttentionNet(NamedTensors& tensors, const std::string& prefix, GatedWeights* w) {
  std::vector<StoredLinear> gates;
  StoredLinear scores;
  w->gated = tensors.Has(prefix + "attention_a.0.weight");
  if (w->gated) {
    gates.push_back(tensors.TakeLinear(prefix + "attention_a.0."));
    gates.push_back(tensors.TakeLinear(prefix + "attention_b.0."));
    Halve(&gates[1]);
    scores = tensors.TakeLinear(prefix + "attention_c.");
  } else {
    // Behind the first layer stand tanh and, if it was trained with it, dropout.
    const std::vector<int64_t> layers = tensors.Layers(prefix + "module.");
    Require(layers.size() == 2 && layers[0] == 0, "{}: attention {}… is neither gated nor two linear layers",
            tensors.where(), prefix);
    gates.push_back(tensors.TakeLinear(Layer(prefix + "module.", layers[0])));
    scores = tensors.TakeLinear(Layer(prefix + "module.", layers[1]));
  }
  w->hidden = gates[0].weight.dim(0);
  w->gates = JoinStages(gates, Activation::kTanh, tensors.where());
  w->scores.push_back(PackLinear(std::move(scores)));
}

// A Sequential of linear layers with activations between them; `last` is that of the last one.
std::vector<Stage> ReadSequential(NamedTensors& tensors, const std::string& prefix, Activation between,
                                  Activation last) {
  std::vector<Stage> stages;
  const std::vector<int64_t> layers = tensors.Layers(prefix);
  for (const int64_t layer : layers) {
    stages.push_back(tensors.TakeStage(Layer(prefix, layer), layer == layers.back() ? last : between));
  }
  return stages;
}

GatedWeights ReadClam(NamedTensors& tensors) {
  GatedWeights w;
  w.embed.push_back(tensors.TakeStage("attention_net.0.", Activation::kRelu));
  // Older versions have dropout between the two only if they were trained with it.
  const std::string attention =
      tensors.Has("attention_net.2.attention_c.weight") || tensors.Has("attention_net.2.module.0.weight")
          ? "attention_net.2."
          : "attention_net.3.";
  ReadAttentionNet(tensors, attention, &w);
  if (tensors.Has("classifiers.weight")) {
    w.name = "CLAM, one branch";
    w.classifier.push_back(tensors.TakeStage("classifiers.", Activation::kNone));
  } else {
    w.name = "CLAM, a branch per class";
    for (const int64_t layer : tensors.Layers("classifiers.")) {
      w.branch_classifiers.push_back(PackLinear(tensors.TakeLinear(Layer("classifiers.", layer))));
    }
    Require(!w.branch_classifiers.empty(), "{}: CLAM without classifiers", tensors.where());
  }
  tensors.Skip("instance_classifiers.");  // of the training's loss over single tiles
  return w;
}

GatedWeights ReadMilLab(NamedTensors& tensors) {
  GatedWeights w;
  w.name = "FEATHER (ABMIL of MIL-Lab)";
  w.embed = ReadSequential(tensors, "patch_embed.", Activation::kRelu, Activation::kRelu);
  ReadAttentionNet(tensors, "global_attn.", &w);
  if (tensors.Has("classifier.weight")) w.classifier.push_back(tensors.TakeStage("classifier.", Activation::kNone));
  return w;
}

// TRIDENT's attention heads, with the layers before and behind them of its slide encoder if the file has these.
GatedWeights ReadTrident(NamedTensors& tensors, const std::string& pooler, const std::optional<std::string>& encoder) {
  GatedWeights w;
  w.name = "ABMIL of TRIDENT";
  if (encoder) {
    w.embed = ReadSequential(tensors, *encoder + "pre_attention_layers.", Activation::kGelu, Activation::kGelu);
  }
  std::vector<StoredLinear> gates;
  w.gated = tensors.Has(pooler + "gating_layers.0.0.weight");
  while (tensors.Has(fmt::format("{}attention_heads.{}.0.weight", pooler, gates.size()))) {
    gates.push_back(tensors.TakeLinear(fmt::format("{}attention_heads.{}.0.", pooler, gates.size())));
    Require(gates.back().weight.dim(0) == gates[0].weight.dim(0),
            "{}: attention heads of {} and {} features, expected equal ones", tensors.where(), gates[0].weight.dim(0),
            gates.back().weight.dim(0));
  }
  w.hidden = gates[0].weight.dim(0);
  const int64_t width = gates[0].weight.dim(1);
  const size_t heads = gates.size();
  for (size_t head = 0; head < heads; ++head) {
    if (w.gated) {
      gates.push_back(tensors.TakeLinear(fmt::format("{}gating_layers.{}.0.", pooler, head)));
      Halve(&gates.back());
    }
    w.scores.push_back(PackLinear(tensors.TakeLinear(fmt::format("{}branching_layers.{}.", pooler, head))));
  }
  w.gates = JoinStages(gates, Activation::kTanh, tensors.where());
  if (heads > 1) {
    w.after.push_back(tensors.TakeStage(pooler + "condensing_layer.", Activation::kNone));
    Require(w.after[0].outputs() == width, "{}: the condensing layer makes {} features, expected {}", tensors.where(),
            w.after[0].outputs(), width);
  }
  if (encoder) {
    for (Stage& stage :
         ReadSequential(tensors, *encoder + "post_attention_layers.", Activation::kGelu, Activation::kGelu)) {
      w.after.push_back(std::move(stage));
    }
  }
  if (tensors.Has("classifier.weight")) w.classifier.push_back(tensors.TakeStage("classifier.", Activation::kNone));
  for (Stage& stage : ReadSequential(tensors, "classifier.", Activation::kRelu, Activation::kNone)) {
    w.classifier.push_back(std::move(stage));
  }
  if (!w.classifier.empty()) w.name += " with a classifier";
  w.one_logit = !w.classifier.empty() && w.classifier.back().outputs() == 1;
  return w;
}

// Names of classes, if the file's classifier has any.
void NameClasses(const std::vector<std::string>& names, std::string_view where, GatedWeights* w) {
  const size_t classes = w->one_logit                     ? 2
                         : !w->branch_classifiers.empty() ? w->branch_classifiers.size()
                         : w->classifier.empty()          ? 0
                                                          : static_cast<size_t>(w->classifier.back().outputs());
  Require(names.empty() || classes == 0 || names.size() == classes, "{}: {} names for {} classes", where, names.size(),
          classes);
  if (!names.empty() && classes > 0) w->classes = names;
  while (w->classes.size() < classes) w->classes.push_back(fmt::format("class {}", w->classes.size()));
}

// What the tensors are of, if not of a head that is read here.
[[noreturn]] void Refuse(const io::TensorSet& set, std::string_view where) {
  const auto has = [&](std::string_view begin) {
    return std::ranges::any_of(set.tensors(), [&](const auto& tensor) { return tensor.name.starts_with(begin); });
  };
  constexpr std::string_view kRead =
      "expected CLAM_SB, CLAM_MB, FEATHER (MIL-Lab's ABMIL), TRIDENT's ABMIL, or a run of qkv slide train";
  Require(!has("fc.") && !(has("classifier.") && set.tensors().size() <= 4),
          "{}: this is CLAM's MIL_fc, which takes the greatest score of a tile and has no attention; {}", where, kRead);
  Require(!has("layer1.attn.") && !has("pos_layer."), "{}: this is TransMIL, which is not read; {}", where, kRead);
  Require(!has("i_classifier.") && !has("b_classifier."), "{}: this is DSMIL, which is not read; {}", where, kRead);
  Fail("{}: no known head over tiles: its first tensor is {}; {}", where,
       io::Quoted(set.tensors().empty() ? std::string_view("none") : std::string_view(set.tensors()[0].name)), kRead);
}

}  // namespace

GatedWeights ReadGatedWeights(io::TensorSet* set, std::string_view where, const std::vector<std::string>& classes) {
  static constexpr std::array<std::string_view, 2> kWrappers = {"module.", "model."};
  constexpr std::string_view kHead = "attention_heads.0.0.weight", kPooler = "image_pooler.";
  set->StripPrefixes(kWrappers);
  NamedTensors tensors(*set, where);
  const auto head = std::ranges::find_if(set->tensors(),
                                         [&](const io::StoredTensor& tensor) { return tensor.name.ends_with(kHead); });
  GatedWeights w;
  if (head != set->tensors().end()) {
    const std::string pooler = head->name.substr(0, head->name.size() - kHead.size());
    const bool encoder = pooler.ends_with(kPooler);
    w = ReadTrident(tensors, pooler,
                    encoder ? std::optional(pooler.substr(0, pooler.size() - kPooler.size())) : std::nullopt);
  } else if (tensors.Has("attention_net.0.weight")) {
    w = ReadClam(tensors);
  } else if (tensors.Has("global_attn.attention_c.weight") || tensors.Has("global_attn.module.0.weight")) {
    w = ReadMilLab(tensors);
  } else {
    Refuse(*set, where);
  }
  tensors.Finish(w.name);
  NameClasses(classes, where, &w);
  return w;
}

}  // namespace qkv::mil
