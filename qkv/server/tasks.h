// Work of the engine that is computed together when several requests wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "qkv/app/loaded_model.h"
#include "qkv/app/pipeline.h"
#include "qkv/server/engine.h"

namespace qkv::server {

using app::LoadedModel;

/// Scratch memory that passes have left for the next ones, in bytes. On the engine's thread.
int64_t ScratchBytes();
/// Frees it if it is more than this.
void TrimScratch(int64_t most_bytes);

/// A pass of some images through one model.
class PassTask final : public Task {
 public:
  /// wanted: kLogits, kPooled or kTokens. pixels: [1, channels, height, width] of each image; their sizes may differ.
  PassTask(std::shared_ptr<const LoadedModel> model, app::Wanted wanted, std::vector<Tensor<float>> pixels);

  std::string Key() const override;
  TaskLabels Labels() const override { return {model_->id(), "images"}; }
  int64_t size() const override { return std::ssize(pixels_); }
  void Run(std::span<Task* const> batch) override;

  /// Of each image: logits [C], pooled [D] or tokens [N, D]. Throws model::AnswerError if one is not finite.
  std::vector<Tensor<float>> TakeResults();

 private:
  std::shared_ptr<const LoadedModel> model_;
  const app::Wanted wanted_;
  std::vector<Tensor<float>> pixels_;
  std::vector<Tensor<float>> results_;
};

/// Vectors of some texts.
class EmbedTask final : public Task {
 public:
  /// The model has a text tower, or is an encoder of texts.
  EmbedTask(std::shared_ptr<const LoadedModel> model, std::vector<std::string> texts);

  std::string Key() const override;
  TaskLabels Labels() const override { return {model_->id(), "texts"}; }
  int64_t size() const override { return std::ssize(texts_); }
  void Run(std::span<Task* const> batch) override;

  /// [texts, width]
  const Tensor<float>& vectors() const { return vectors_; }

 private:
  std::shared_ptr<const LoadedModel> model_;
  const std::vector<std::string> texts_;
  Tensor<float> vectors_;
};

/// Texts that a decoder with a source writes. It ends with Cancelled once no caller of its batch waits any more.
class WriteTask final : public Task {
 public:
  /// cancelled: of the caller, asked from any thread. give_way: called between the steps of a task that is not short.
  WriteTask(std::shared_ptr<const LoadedModel> model, std::vector<std::string> texts, app::WritingOptions options,
            std::function<bool()> cancelled = {}, std::function<void()> give_way = {});

  std::string Key() const override;
  TaskLabels Labels() const override { return {model_->id(), "writing"}; }
  int64_t size() const override { return std::ssize(texts_); }
  int64_t rows() const override { return size() * options_.settings.beams; }
  /// By its cost: a text that is written token by token stands still meanwhile.
  bool is_short() const override;
  void Run(std::span<Task* const> batch) override;

  const std::vector<app::Written>& written() const { return written_; }

 private:
  std::shared_ptr<const LoadedModel> model_;
  const std::vector<std::string> texts_;
  app::WritingOptions options_;
  const std::function<bool()> cancelled_;
  const std::function<void()> give_way_;
  std::vector<app::Written> written_;
};

}  // namespace qkv::server
