// What handlers use: the models, the engine and the counters of one server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/models/abilities.h"
#include "qkv/image/image.h"
#include "qkv/server/config.h"
#include "qkv/server/cores.h"
#include "qkv/server/engine.h"
#include "qkv/server/metrics.h"
#include "qkv/server/model_statistics.h"
#include "qkv/server/models.h"
#include "qkv/server/router.h"

namespace qkv::server {

using app::Ability, app::kAttendImage, app::kAttendText, app::kClassify, app::kClassifyByPrompts, app::kContinueText,
    app::kDetect, app::kEmbedBoth, app::kEmbedImages, app::kEmbedTexts, app::kRewriteText, app::kSegment,
    app::kSummarize, app::kTranslate;

/// The routes under /v1 that a model can answer.
std::vector<std::string_view> RoutesOf(const app::ModelFacts& facts);

class Context {
 public:
  /// memory: limit for all models. event: called after the counters are updated.
  Context(ServerConfig config, ModelEvent event);

  const ServerConfig& config() const { return config_; }
  Models& models() { return models_; }
  /// The model that a request names, in memory. Throws as Models::Get.
  std::shared_ptr<const LoadedModel> ModelFor(Call& call, const std::string& id);
  /// The same for a model with an ability. If the id is empty: of the models that have it, the one called `usual`, or
  /// else the first. Also throws HttpError 400, with the ids of models that have it, if the named one does not, or none
  /// does.
  std::shared_ptr<const LoadedModel> ModelFor(Call& call, const std::string& id, const Ability& ability,
                                              std::string_view usual = {});
  Metrics& metrics() { return metrics_; }
  ModelStatistics& statistics() { return statistics_; }

  /// Waits for the engine's result. Throws as Engine::Compute.
  void Compute(const std::shared_ptr<Task>& task, const Call& call);
  /// The same for a function, alone. Functions of all classes but kWhole call GiveWay between their steps.
  void Compute(const TaskLabels& labels, const Call& call, const std::function<void()>& work,
               TaskClass task_class = TaskClass::kWhole);
  void GiveWay() { engine_.GiveWay(); }
  /// For a long task to call between its steps: gives way, and throws Cancelled if no caller waits; else false, go on.
  std::function<bool()> Steps();
  /// As Engine::Together.
  int64_t Together(const TaskLabels& labels, std::span<const double> operations) const {
    return engine_.Together(labels, operations);
  }

  /// Runs a request's work (such as tokenizing texts) on its own thread beside the engine's, as many at a time as there
  /// are cores; clients take turns. Throws Cancelled if the call is cancelled before it begins.
  void Prepare(const Call& call, const std::function<void()>& work) { cores_.Run(call.turn->client, work); }

  /// Decodes an image of a request on this thread alone, scheduled as in Prepare. `where` is its name in errors. Throws
  /// HttpError 400 if it is no image or has too many pixels, and as ImageMemory::Reserve.
  image::Image Decode(const Call& call, std::span<const std::byte> bytes, std::string_view where);
  /// Bytes that Decode leaves reserved for an image; release them once it is gone. During decoding all that it takes is
  /// reserved.
  static int64_t BytesOf(const image::Image& image) { return image.pixels.size(); }
  /// For image::DecodeOptions::admit: reserves the part of `bytes` above `reserved`, and sets `reserved` to it.
  static void ReserveUpTo(int64_t bytes, const Call& call, int64_t& reserved);
  /// The model's input for an image, [1, channels, height, width]; likewise.
  Tensor<float> Pixels(const Call& call, const model::Model& model, const image::Image& image);
  /// The same, in the image's memory where that suffices.
  Tensor<float> Pixels(const Call& call, const model::Model& model, image::Image&& image);

  Levels levels();
  /// Requests from their header to the end of their answer.
  std::atomic<int64_t> admitted{0};
  /// Requests in their handlers.
  std::atomic<int64_t> active{0};
  /// Bytes of the images of all requests.
  std::atomic<int64_t> image_bytes{0};
  /// A signal has come: the server goes on for a moment, and reports that it is not ready.
  std::atomic<bool> ending{false};
  /// Seconds after which a rejected request should try again.
  int RetryAfter() const;

 private:
  template <typename AnyImage>
  Tensor<float> PreparePixels(const Call& call, const model::Model& model, AnyImage&& image);
  std::string FindAble(const Ability& ability, std::string_view usual);
  std::string ListAble(const Ability& ability);

  const ServerConfig config_;
  Metrics metrics_;
  ModelStatistics statistics_;
  Models models_;
  std::atomic<int64_t> in_engine_{0};
  Cores cores_;
  Engine engine_;
};

}  // namespace qkv::server
