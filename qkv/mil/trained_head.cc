#include "qkv/mil/trained_head.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/fields.h"
#include "qkv/io/safetensors.h"
#include "qkv/mil/gated_files.h"
#include "qkv/mil/gated_head.h"
#include "qkv/mil/network.h"

namespace qkv::mil {
namespace {

namespace fs = std::filesystem;

class TransformerHead : public Head {
 public:
  TransformerHead(const MilConfig& config, const io::TensorSet& set, const std::string& where)
      : network_(config), weights_({network_.layout().size()}) {
    name_ = fmt::format("qkv Transformer over tiles, {} attention", model::Name(config.block.attention.kind));
    width_ = config.inputs;
    classes_ = config.classes;
    const auto& slots = network_.layout().slots();
    for (const train::Slot& slot : slots) {
      const io::StoredTensor* const tensor = set.Find(slot.name);
      Require(tensor != nullptr && tensor->shape == slot.shape,
              "{}: tensor {} is missing or not {}, as its config.json says", where, slot.name, slot.shape);
      io::ConvertTo(*tensor, network_.layout().At(slot.name, weights_.view()).data());
    }
    Require(set.tensors().size() == slots.size(), "{}: {} tensors, and a model of its config.json has {}", where,
            set.tensors().size(), slots.size());
    Require(std::ranges::all_of(weights_.span(), [](float value) { return std::isfinite(value); }),
            "{}: the weights are not all numbers", where);
  }

  Answer Forward(View<const float> features, std::span<const std::array<int64_t, 2>> coords,
                 int64_t side) const override {
    RequireBag(*this, features, coords);
    const bool positions = network_.config().positions != TilePositions::kNone;
    Require(!positions || !coords.empty(), "{}: it reads tiles' positions, and the bag has no coordinates", name_);
    const Tensor<double> places = positions ? TilePlaces(coords, side) : Tensor<double>();
    MilNetwork<float>::Workspace workspace;
    Tensor<float> dense;
    if (!features.dense()) {
      dense = Tensor<float>::Uninitialised(features.shape());
      for (int64_t i = 0; i < features.dim(0); ++i) std::copy_n(features.row(i), width_, dense.view().row(i));
      features = dense.view();
    }
    return network_.Infer(weights_, {features, positions ? places.view() : View<const double>()}, workspace);
  }

 private:
  MilNetwork<float> network_;
  Tensor<float> weights_;
};

Tensor<float> MeanOf(const std::vector<Answer>& answers, Tensor<float> Answer::*part) {
  Tensor<float> mean = (answers[0].*part).Clone();
  for (size_t i = 1; i < answers.size(); ++i) {
    for (int64_t at = 0; at < mean.size(); ++at) mean[at] += (answers[i].*part)[at];
  }
  for (float& value : mean.span()) value /= static_cast<float>(answers.size());
  return mean;
}

class MeanHead : public Head {
 public:
  MeanHead(std::vector<std::unique_ptr<Head>> heads, const std::string& where) : heads_(std::move(heads)) {
    const Head& first = *heads_[0];
    for (const auto& head : heads_) {
      Require(head->width() == first.width() && head->classes() == first.classes(),
              "{}: its folds are models of different vectors or classes", where);
    }
    name_ = fmt::format("{}, mean of {} folds", first.name(), heads_.size());
    width_ = first.width();
    classes_ = first.classes();
  }

  Answer Forward(View<const float> features, std::span<const std::array<int64_t, 2>> coords,
                 int64_t side) const override {
    std::vector<Answer> answers;
    for (const auto& head : heads_) answers.push_back(head->Forward(features, coords, side));
    Answer answer;
    answer.scores = MeanOf(answers, &Answer::scores);
    answer.weights = MeanOf(answers, &Answer::weights);
    const int64_t hidden = answers[0].vector.size(), C = answers[0].logits.size();
    answer.vector = Tensor<float>({static_cast<int64_t>(answers.size()), hidden});
    std::vector<double> mean(static_cast<size_t>(C));
    for (size_t i = 0; i < answers.size(); ++i) {
      std::copy_n(answers[i].vector.data(), hidden, answer.vector.view().row(static_cast<int64_t>(i)));
      const std::vector<double> of_fold = Probabilities(answers[i].logits);
      for (size_t c = 0; c < mean.size(); ++c) mean[c] += of_fold[c] / static_cast<double>(answers.size());
    }
    answer.logits = Tensor<float>({C});
    // The least float above 0 keeps a logit finite.
    for (int64_t c = 0; c < C; ++c) {
      answer.logits[c] = static_cast<float>(std::log(std::max(mean[static_cast<size_t>(c)], 1e-38)));
    }
    return answer;
  }

 private:
  std::vector<std::unique_ptr<Head>> heads_;
};

}  // namespace

std::unique_ptr<Head> OpenTrainedHead(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const MilConfig config = MilConfigFromJson(io::ReadJson(file), file.string());
  io::SafeTensors set = io::SafeTensors::Open(folder / "model.safetensors");
  if (config.architecture == Architecture::kTransformer) {
    return std::make_unique<TransformerHead>(config, set, folder.string());
  }
  GatedWeights weights = ReadGatedWeights(&set, folder.string(), config.classes);
  weights.name = "qkv ABMIL";
  auto head = std::make_unique<GatedHead>(std::move(weights));
  Require(head->width() == config.inputs, "{}: the weights read vectors of {}, and config.json says {}",
          folder.string(), head->width(), config.inputs);
  return head;
}

std::unique_ptr<Head> OpenRunHead(const fs::path& folder, const io::Json& config) {
  const io::Fields fields(config, (folder / "config.json").string());
  Require(fields.RequiredInt(kRunKey) == kRunVersion, "{}: a run of version {}, expected {}; train it again",
          folder.string(), fields.RequiredInt(kRunKey), kRunVersion);
  const int64_t folds = fields.RequiredInt("folds");
  Require(folds > 0 && folds <= 1000, "{}: {} folds", folder.string(), folds);
  std::vector<std::unique_ptr<Head>> heads;
  for (int64_t fold = 0; fold < folds; ++fold) {
    const fs::path of_fold = folder / fmt::format("fold-{}", fold);
    if (FileExists(of_fold / "model.safetensors")) heads.push_back(OpenTrainedHead(of_fold));
  }
  Require(!heads.empty(), "{}: no fold of this run has a model yet; let qkv slide train run on", folder.string());
  if (heads.size() == 1) return std::move(heads[0]);
  return std::make_unique<MeanHead>(std::move(heads), folder.string());
}

}  // namespace qkv::mil
