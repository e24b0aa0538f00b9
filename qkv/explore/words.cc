#include "qkv/explore/words.h"

#include <algorithm>

#include "qkv/explore/fields.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/nn/training/linear.h"
#include "qkv/nn/training/norm.h"
#include "qkv/nn/training/pool.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::explore {
namespace {

float Dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

}  // namespace

Tensor<float> ProjectAlone(const OpenModel& model, View<const float> x) {
  const model::VitConfig& c = model.config();
  const train::NetworkParameters parameters(c);
  const auto p = parameters.Output(model.weights());
  const int64_t R = x.dim(0);
  Tensor<float> now = Tensor<float>::Uninitialised({R, x.dim(1)});
  for (int64_t r = 0; r < R; ++r) std::copy_n(x.row(r), x.dim(1), now.view().row(r));
  const auto replace = [&](int64_t width, auto compute) {
    auto next = Tensor<float>::Uninitialised({R, width});
    compute(View<const float>(now), next.view());
    now = std::move(next);
  };
  const auto norm = [&](const nn::NormParameters<const float>& of) {
    Tensor<float> moments({R, 2});
    replace(now.dim(1), [&](View<const float> from, View<float> to) { nn::NormForward<float>(from, of, to, moments); });
  };
  if (c.pool == model::Pool::kMap) {
    Arena arena;
    nn::AttentionPoolCache<float> cache;
    const nn::AttentionPoolSettings settings{.heads = c.pool_heads(),
                                             .mlp = {.config = {.activation = c.block.mlp.activation}}};
    replace(now.dim(1), [&](View<const float> from, View<float> to) {
      nn::AttentionPoolForward<float>(from.reshape({R, 1, from.dim(1)}), 0, p.pool, settings, to, cache, arena);
    });
  }
  if (c.pooler_width > 0) {
    replace(c.pooler_width, [&](View<const float> from, View<float> to) {
      Tensor<float> before(to.shape());
      nn::LinearForward<float>(from, p.pooler, before);
      simd::Activate<float>(c.pooler_activation, before.data(), to.data(), to.size());
    });
  }
  if (c.fc_norm) norm(p.fc_norm);
  if (c.projection_width > 0) {
    replace(c.projection_width,
            [&](View<const float> from, View<float> to) { nn::LinearForward<float>(from, p.projection, to); });
  }
  return now;
}

Packet AnswerWords(ExploredModel& model, const PreparedImage& image, const io::Json& request) {
  const std::string text = TextField(request, "text");
  Require(!text.empty(), "\"text\" is empty; give words that the image may show");
  const model::TwoTowerModel& towers = model.towers();
  const Tensor<float> words = model.text_encoder().Embed({&text, 1});  // [1, width]
  const Tensor<float> whole = towers.ImageEmbeds(image.pixels);
  const int64_t N = image.grid.tokens(), P = image.grid.patches(), D = towers.image().config().block.width;
  Tensor<float> tokens({1, N, D});
  model::Outputs<float> outputs;
  outputs.tokens = tokens;
  towers.image().Forward(image.pixels, model.workspace(), outputs);
  OpenModel& open = model.open(image.pixels.dim(2), image.pixels.dim(3));
  Tensor<float> patches = ProjectAlone(open, tokens.view()[0].slice(0, N - P, N));
  Require(patches.dim(1) == words.dim(1), "words: patches become vectors of {} numbers, texts of {}", patches.dim(1),
          words.dim(1));
  const int64_t lost = model::NormaliseRows(patches);
  Require(lost < 0, "words: patch {} has no direction in the space of texts", lost);
  Tensor<float> answers({image.grid.height, image.grid.width});
  for (int64_t n = 0; n < P; ++n) answers[n] = Dot(patches.view().row(n), words.data(), words.dim(1));
  Packet answer;
  answer.arrays["answers"] = MakeArray(answers);
  answer.json["score"] = Dot(whole.data(), words.data(), words.dim(1));
  return answer;
}

}  // namespace qkv::explore
