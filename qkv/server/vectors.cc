#include "qkv/server/vectors.h"

#include <algorithm>

#include "qkv/app/embed.h"
#include "qkv/model/finite.h"
#include "qkv/server/images.h"
#include "qkv/server/tasks.h"

namespace qkv::server {

app::Pooling PoolingOf(const ModelFacts& facts) { return app::ParsePooling(facts.pool, "pool"); }

std::vector<std::vector<float>> ImageVectors(Context& context, const Call& call,
                                             const std::shared_ptr<const LoadedModel>& model,
                                             std::vector<Tensor<float>> pixels, const std::vector<std::string>& names) {
  std::vector<std::vector<float>> vectors;
  if (pixels.empty()) return vectors;
  const model::Model& encoder = *model->image();
  const bool pooled = PoolingOf(model->facts()) == app::Pooling::kModel;
  const std::vector<Tensor<float>> results =
      ComputePasses(context, call, model, pooled ? app::Wanted::kPooled : app::Wanted::kTokens, std::move(pixels));
  for (size_t i = 0; i < names.size(); ++i) {
    app::Embedding embedding = app::PoolEmbedding(encoder, PoolingOf(model->facts()), names[i], results[i]);
    if (model->towers() != nullptr) {
      const View<float> row(embedding.values.data(), {1, std::ssize(embedding.values)});
      if (model::NormaliseRows(row) >= 0) throw model::AnswerError(names[i] + ": its vector has no direction");
    }
    vectors.push_back(std::move(embedding.values));
  }
  return vectors;
}

std::vector<std::vector<float>> TextVectors(Context& context, const Call& call,
                                            const std::shared_ptr<const LoadedModel>& model,
                                            std::vector<std::string> texts) {
  std::vector<std::vector<float>> vectors;
  if (texts.empty()) return vectors;
  // A few at a time, between which others may be computed and the call may be cancelled.
  const auto most = static_cast<size_t>(context.config().batching.most_together);
  for (size_t begin = 0; begin < texts.size(); begin += most) {
    const auto from = texts.begin() + static_cast<int64_t>(begin);
    EmbedTask task(model, {from, from + static_cast<int64_t>(std::min(most, texts.size() - begin))});
    context.Compute(task, call);
    const Tensor<float>& some = task.vectors();
    for (int64_t i = 0; i < some.dim(0); ++i) {
      vectors.emplace_back(some.view().row(i), some.view().row(i) + some.dim(1));
    }
  }
  return vectors;
}

}  // namespace qkv::server
