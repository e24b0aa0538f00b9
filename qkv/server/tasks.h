// Tasks of the engine that are computed together when several requests wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "qkv/app/images/pipeline.h"
#include "qkv/app/models/loaded_model.h"
#include "qkv/server/engine.h"

namespace qkv::server {

using app::LoadedModel;

/// Bytes of scratch memory that passes keep for the next ones. Call it on the engine's thread.
int64_t ScratchBytes();
/// Frees the scratch memory if it is more than this.
void TrimScratch(int64_t most_bytes);

/// Estimate of the arithmetic of one image, whose pixels are [1, channels, height, width].
double PassOperations(const LoadedModel& model, const Shape& pixels);
/// Likewise for embedding a text of so many tokens.
double TextOperations(const LoadedModel& model, int64_t tokens);

/// A pass of some images through one model.
class PassTask final : public Task {
 public:
  /// wanted: kLogits, kPooled or kTokens. pixels: [1, channels, height, width] of each image; their sizes may differ.
  PassTask(std::shared_ptr<const LoadedModel> model, app::Wanted wanted, std::vector<Tensor<float>> pixels);

  std::string Key() const override;
  static constexpr const char* kWork = "images";
  TaskLabels Labels() const override { return {model_->id(), kWork}; }
  int64_t size() const override { return std::ssize(pixels_); }
  double operations() const override { return operations_; }
  void Run(std::span<Task* const> batch) override;

  /// One for each image: logits [C], pooled [D] or tokens [N, D]. Throws model::AnswerError if one is not finite.
  std::vector<Tensor<float>> TakeResults();

 private:
  std::shared_ptr<const LoadedModel> model_;
  const app::Wanted wanted_;
  std::vector<Tensor<float>> pixels_;
  std::vector<Tensor<float>> results_;
  double operations_ = 0;
};

/// Vectors of some texts.
class EmbedTask final : public Task {
 public:
  /// The model has a text tower, or is a text encoder; it has tokenized the texts.
  EmbedTask(std::shared_ptr<const LoadedModel> model, std::vector<app::TextIds> texts);

  std::string Key() const override;
  static constexpr const char* kWork = "texts";
  TaskLabels Labels() const override { return {model_->id(), kWork}; }
  int64_t size() const override { return std::ssize(texts_); }
  double operations() const override;
  void Run(std::span<Task* const> batch) override;

  /// [texts, width]
  const Tensor<float>& vectors() const { return vectors_; }

 private:
  std::shared_ptr<const LoadedModel> model_;
  const std::vector<app::TextIds> texts_;
  Tensor<float> vectors_;
};

/// kShort if writing so many texts one after the other, each to its greatest length, takes about a second at most, by
/// the bytes of weights read; else kLong.
TaskClass WritingClass(const LoadedModel& model, const model::GenerationSettings& settings, int64_t texts = 1);

/// Texts that an encoder-decoder writes.
class WriteTask final : public Task {
 public:
  /// texts: from LanguageModel::ReadSources. give_way: called between its steps.
  WriteTask(std::shared_ptr<const LoadedModel> model, std::vector<app::TextIds> texts, app::WritingOptions options,
            std::function<void()> give_way = {});

  std::string Key() const override;
  TaskLabels Labels() const override { return {model_->id(), "writing"}; }
  int64_t size() const override { return std::ssize(texts_); }
  int64_t rows() const override { return size() * options_.settings.beams; }
  /// Bytes of weights read if every text has its greatest length.
  double operations() const override;
  bool Joins(const Task& other) const override;
  TaskClass task_class() const override;
  void Run(std::span<Task* const> batch) override;

  const std::vector<app::Written>& written() const { return written_; }

 private:
  std::shared_ptr<const LoadedModel> model_;
  const std::vector<app::TextIds> texts_;
  app::WritingOptions options_;
  const std::function<void()> give_way_;
  std::vector<app::Written> written_;
};

}  // namespace qkv::server
