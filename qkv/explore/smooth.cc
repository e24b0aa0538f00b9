#include "qkv/explore/smooth.h"

#include <algorithm>
#include <cmath>

#include "qkv/explore/fields.h"
#include "qkv/explore/passes.h"
#include "qkv/lab/claims/associative_memory.h"

namespace qkv::explore {
namespace {

constexpr int64_t kFirstOfModel = 3;  // steps from here on read the model's weights

struct StepWords {
  const char* formula;
  const char* note;
};
constexpr StepWords kSteps[] = {
    {"w_j ∝ exp(−‖p_i − p_j‖² / 2σ²)", "Weights depend on places alone: near patches count, whatever they show."},
    {"w_j = 1 for the key nearest to the query's patch", "The patch itself is the key and finds only what is equal."},
    {"w_j ∝ exp(−‖x_i − x_j‖² / 2τ)", "A temperature lets patches that look alike answer together."},
    {"w_j ∝ exp(q_i · k_j / √E), q = W_Q x, k = W_K x",
     "Learned queries and keys decide what counts as alike; q and k may differ."},
    {"the same in each head", "Each head has a similarity of its own, and they look at different things."}};

struct Patches {
  int64_t height = 0, width = 0;  // of one patch, in pixels
  Tensor<float> values;           // [P, height · width · 3], from 0 to 255
};

// The patches as the model sees them, its normalisation undone.
Patches PatchesOf(const model::Model& model, const PreparedImage& image) {
  const model::VitConfig& c = model.config();
  const image::Preprocess& p = model.preprocess();
  Patches patches{c.patch_height, c.patch_width, {}};
  const int64_t features = c.patch_height * c.patch_width * 3;
  patches.values = Tensor<float>({image.grid.patches(), features});
  for (int64_t n = 0; n < image.grid.patches(); ++n) {
    const int64_t top = n / image.grid.width * c.patch_height, left = n % image.grid.width * c.patch_width;
    for (int64_t y = 0; y < c.patch_height; ++y) {
      for (int64_t x = 0; x < c.patch_width; ++x) {
        for (int64_t channel = 0; channel < 3; ++channel) {
          const int64_t from = std::min(channel, c.channels - 1);
          const auto at = static_cast<size_t>(from);
          const float mean = p.mean.empty() ? 0 : p.mean[at], deviation = p.std.empty() ? 1 : p.std[at];
          const float value = *image.pixels.at(0, from, top + y, left + x) * deviation + mean;
          patches.values[n * features + (y * c.patch_width + x) * 3 + channel] =
              std::clamp(value / static_cast<float>(p.rescale), 0.0f, 255.0f);
        }
      }
    }
  }
  return patches;
}

// Raw patches as queries and keys: ½‖x_i − x_j‖² is half the mean square difference of their pixels, from 0 to 1.
Tensor<float> RawKeys(const Patches& patches) {
  Tensor<float> keys = patches.values.Clone();
  const float factor = 1 / (255 * std::sqrt(static_cast<float>(keys.dim(1))));
  for (float& value : keys.span()) value *= factor;
  return keys;
}

// Weights of one query over all patches by a memory of keys, [1, P].
Tensor<float> RecallWeights(const lab::Memory<float>& memory, const Tensor<float>& keys, int64_t query) {
  const int64_t P = keys.dim(0);
  Tensor<float> weights({1, P}), values({P, 1}), out({1, 1});
  lab::Recall<float>(memory, keys.view().slice(0, query, query + 1), keys, values, out, weights);
  return weights;
}

// Attention in the heads of the first block: the query's row without the prefix, [heads, P].
Tensor<float> AttentionRows(ExploredModel& model, const PreparedImage& image, const std::vector<int64_t>& heads,
                            int64_t query) {
  const io::Json none = io::Json::object();
  const Tensor<float> attention = AttentionOf({model, image, none}, {{0}});  // [1, H, N, N]
  const int64_t P = image.grid.patches(), prefix = image.grid.tokens() - P;
  Tensor<float> rows({std::ssize(heads), P});
  for (size_t h = 0; h < heads.size(); ++h) {
    std::copy_n(attention.view().at(0, heads[h], prefix + query, prefix), P, rows.data() + static_cast<int64_t>(h) * P);
  }
  return rows;
}

// Picture of the weighted mean of the patches, of all heads together: [h, w, 3].
Tensor<uint8_t> Mix(const Patches& patches, const Tensor<float>& weights) {
  const int64_t P = patches.values.dim(0), features = patches.values.dim(1), heads = weights.size() / P;
  std::vector<double> mean(static_cast<size_t>(features));
  double sum = 0;
  for (int64_t i = 0; i < heads * P; ++i) {
    const auto weight = static_cast<double>(weights[i]);
    sum += weight;
    const float* patch = patches.values.view().row(i % P);
    for (int64_t f = 0; f < features; ++f) mean[static_cast<size_t>(f)] += weight * static_cast<double>(patch[f]);
  }
  Tensor<uint8_t> mixed({patches.height, patches.width, 3});
  for (int64_t f = 0; f < features; ++f) {
    mixed[f] = static_cast<uint8_t>(std::lround(sum > 0 ? std::min(255.0, mean[static_cast<size_t>(f)] / sum) : 0));
  }
  return mixed;
}

int64_t QueryOf(const io::Json& request, const inspect::TokenGrid& grid) {
  const auto found = request.find("query");
  Require(found != request.end() && found->is_array() && found->size() == 2,
          "\"query\": expected [row, column] of a patch, from [0, 0] to [{}, {}]", grid.height - 1, grid.width - 1);
  const io::Json fields = {{"row", (*found)[0]}, {"column", (*found)[1]}};
  return IntegerField(fields, "row", 0, grid.height - 1) * grid.width +
         IntegerField(fields, "column", 0, grid.width - 1);
}

}  // namespace

Packet AnswerSmooth(ExploredModel& model, const PreparedImage& image, const io::Json& request) {
  const model::Model& layers = model.image_model();
  const int64_t step = IntegerField(request, "step", 0, std::ssize(kSteps) - 1), query = QueryOf(request, image.grid),
                H = layers.config().block.attention.heads;
  const Patches patches = PatchesOf(layers, image);
  Tensor<float> weights;
  if (step == 0) {
    const auto sigma = static_cast<float>(NumberField(request, "sigma", 1e-3, 1e3, 1));
    weights = RecallWeights(lab::SoftDictionary(sigma * sigma),
                            lab::GridPositions<float>({image.grid.height, image.grid.width}), query);
  } else if (step < kFirstOfModel) {
    const auto temperature = static_cast<float>(NumberField(request, "temperature", 0, 1e3, 0.05));
    weights =
        RecallWeights(step == 1 ? lab::NearestKey<float>() : lab::SoftDictionary(temperature), RawKeys(patches), query);
  } else {
    std::vector<int64_t> heads = ListField(request, "heads", H);
    Require(!heads.empty(), "\"heads\": expected a head at least, from 0 to {}", H - 1);
    if (step == kFirstOfModel) heads.resize(1);
    weights = AttentionRows(model, image, heads, query);
  }
  Packet answer;
  const int64_t rows = weights.dim(0);
  answer.arrays["weights"] = MakeArray(View<const float>(weights.data(), {rows, image.grid.height, image.grid.width}));
  answer.arrays["mixed"] = MakeArray(Mix(patches, weights));
  answer.json = {{"formula", kSteps[step].formula}, {"note", kSteps[step].note}};
  return answer;
}

}  // namespace qkv::explore
