#include "qkv/server/vectors.h"

#include <fmt/format.h>

#include <iterator>
#include <numeric>
#include <span>

#include "qkv/app/vectors/embed.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/server/images.h"
#include "qkv/server/tasks.h"

namespace qkv::server {

app::Pooling PoolingOf(const ModelFacts& facts) { return app::ParsePooling(facts.pool, "pool"); }

int64_t EmbeddingWidth(const ModelFacts& facts) {
  if (facts.is_text()) return facts.texts->encoder->block.width;
  return model::PooledWidth(facts.config, PoolingOf(facts));
}

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

int64_t TextVectors::tokens() const { return std::accumulate(read.begin(), read.end(), int64_t{0}); }

std::vector<app::TextIds> ReadTexts(Context& context, const Call& call, const LoadedModel& model,
                                    const std::vector<std::string>& texts, LongTexts long_texts) {
  std::vector<app::TextIds> ids;
  if (texts.empty()) return ids;  // the model may read none
  context.Prepare(call,
                  [&] { ids = model.texts() != nullptr ? model.texts()->Read(texts) : model.language()->Read(texts); });
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!ids[i].is_cut() || long_texts == LongTexts::kCut) continue;
    throw HttpError(413, "invalid_request_error",
                    fmt::format("text {} has {} tokens, and the model reads {}: send a shorter one, or truncate: true",
                                i + 1, ids[i].tokens, ids[i].read));
  }
  return ids;
}

TextVectors EmbedTexts(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                       std::vector<app::TextIds> ids) {
  TextVectors all;
  std::vector<double> operations;
  for (const app::TextIds& text : ids) {
    all.read.push_back(text.read);
    all.is_cut.push_back(text.is_cut());
    operations.push_back(TextOperations(*model, std::ssize(text.ids)));
  }
  for (auto from = ids.begin(); from != ids.end();) {
    const auto to = from + context.Together({model->id(), EmbedTask::kWork},
                                            std::span(operations).subspan(static_cast<size_t>(from - ids.begin())));
    const auto task = std::make_shared<EmbedTask>(
        model, std::vector<app::TextIds>(std::make_move_iterator(from), std::make_move_iterator(to)));
    context.Compute(task, call);
    const Tensor<float>& some = task->vectors();
    for (int64_t i = 0; i < some.dim(0); ++i) {
      all.vectors.emplace_back(some.view().row(i), some.view().row(i) + some.dim(1));
    }
    from = to;
  }
  return all;
}

LongTexts LongTextsOf(const RequestInput& input) {
  return input.Flag("truncate", true) ? LongTexts::kCut : LongTexts::kRefuse;
}

}  // namespace qkv::server
