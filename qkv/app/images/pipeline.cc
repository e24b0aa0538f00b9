// Many images: each thread reads and computes batches of its own and waits for no other. All cores stay busy while some
// decode, and a thread's results stay in its own cache.
// Few images: all threads read one batch and compute it together.
#include "qkv/app/images/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "qkv/app/images/image_reader.h"
#include "qkv/core/await.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/vision/where_not_finite.h"

namespace qkv::app {
namespace {

// Batches for each thread that may be finished before their turn comes, so that one slow image does not stop the
// others.
constexpr size_t kAheadPerThread = 4;
// Bytes held at a time by decoding, for each thread: photos of most cameras do not wait for each other.
constexpr int64_t kBytesPerThread = int64_t{1} << 27;

// Batches in the order of the files: claimed by threads, finished at any time, used in order.
class Pipeline {
 public:
  Pipeline(const PipelineOptions& options, const ImageList& images, const model::Model& model, Wanted wanted,
           const std::function<void(const Batch&)>& use)
      : options_(options),
        files_(images.files),
        model_(model),
        wanted_(wanted),
        use_(use),
        budget_(kBytesPerThread * NumThreads()) {
    const auto threads = static_cast<size_t>(NumThreads());
    const bool many = wanted != Wanted::kPixels && files_.size() >= static_cast<size_t>(kManyPerThread) * threads;
    const size_t workers = many ? threads : 1;
    batch_ = BatchSize(options.batch, many ? 1 : threads);
    RequireMemoryFor(workers, many ? kAheadPerThread * workers : 1);
    for (size_t i = 0; i < workers; ++i) {
      workers_.emplace_back(
          new Worker{{images, options.decode, options.inspect, model, many ? 1 : NumThreads(), budget_}, {}});
    }
    slots_.resize(many ? kAheadPerThread * workers : 1);
  }

  /// Returns how many files could not be read.
  int Run() {
    ParallelTasks(static_cast<int64_t>(workers_.size()),
                  [&](int64_t worker, int) { Work(*workers_[static_cast<size_t>(worker)]); });
    return failed_;
  }

 private:
  struct Worker {
    PixelReader reader;
    model::Workspace<float> workspace;
  };
  struct Slot {
    PixelBatch pixels;
    Tensor<float> storage;
    Batch batch;
    bool finished = false;
  };

  size_t BatchSize(int asked, size_t threads) const {
    const std::optional<Shape> shape = model_.FixedPixelsShape();
    if (!shape) return 1;
    if (asked > 0) return static_cast<size_t>(asked);
    return std::max(threads, static_cast<size_t>(ImagesTogether(model_, (*shape)[1], (*shape)[2])));
  }

  /// For images whose size is known beforehand; any other image is checked when its size is known.
  void RequireMemoryFor(size_t workers, size_t slots) const {
    const std::optional<Shape> shape = model_.FixedPixelsShape();
    if (!shape) return;
    const model::VitConfig& c = model_.config();
    const auto batch = static_cast<int64_t>(batch_), height = (*shape)[1], width = (*shape)[2];
    const double pass = static_cast<double>(workers) * model_.vit().PassBytes(batch, height, width);
    double values = static_cast<double>(std::max(c.outputs(), c.pooled_width()));
    if (wanted_ == Wanted::kTokens) values = static_cast<double>(model_.TokensFor(height, width) * c.block.width);
    const double kept = static_cast<double>(slots) * static_cast<double>(batch) * sizeof(float) * values;
    RequireMemory(pass + kept,
                  fmt::format("{} batches of {} images of {}x{} at a time", workers, batch, height, width));
  }

  void Work(Worker& worker) {
    try {
      while (Slot* slot = Claim()) {
        Compute(worker, *slot);
        Finish(*slot);
      }
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
      }
      changed_.notify_all();
      throw;
    }
  }

  /// The next batch of files, or null when there are no more.
  Slot* Claim() {
    std::unique_lock lock(mutex_);
    AwaitOrCancel(changed_, lock,
                  [&] { return stopped_ || next_ == files_.size() || claimed_ - used_ < slots_.size(); });
    if (stopped_ || next_ == files_.size()) return nullptr;
    Slot& slot = slots_[claimed_++ % slots_.size()];
    // Batches shrink towards the end, so that all threads end at about the same time.
    const size_t share = workers_.size() == 1 ? batch_ : (files_.size() - next_) / (2 * workers_.size());
    slot.pixels.begin = next_;
    next_ = std::min(files_.size(), next_ + std::clamp<size_t>(share, 1, batch_));
    slot.pixels.end = next_;
    return &slot;
  }

  void Compute(Worker& worker, Slot& slot) {
    worker.reader.Read(slot.pixels);
    const View<const float> pixels = slot.pixels.pixels;
    if (pixels.empty()) return;
    if (wanted_ == Wanted::kPixels) {
      slot.batch.values = pixels;
      return;
    }
    ComputePass(model_, wanted_, pixels, worker.workspace, slot.storage);
    slot.batch.values = slot.storage;
    if (model::FirstNotFinite(slot.storage) >= 0) LeaveOutNotFinite(slot);
  }

  /// Images whose results hold NaN or infinity are errors, like unreadable ones.
  void LeaveOutNotFinite(Slot& slot) {
    PixelBatch& pixels = slot.pixels;
    View<float> values = slot.storage;
    const int64_t each = values.size() / values.dim(0);
    int64_t kept = 0;
    for (int64_t b = 0; b < values.dim(0); ++b) {
      const size_t file = pixels.files[static_cast<size_t>(b)];
      float* row = values.data() + b * each;
      if (model::AllFinite(row, each)) {
        std::copy_n(row, each, values.data() + kept * each);
        pixels.files[static_cast<size_t>(kept++)] = file;
        continue;
      }
      pixels.errors[file - pixels.begin] = WhyNotFinite(pixels.pixels.slice(0, b, b + 1), files_[file].native());
    }
    pixels.files.resize(static_cast<size_t>(kept));
    if (kept > 0) slot.batch.values = View<const float>(values).slice(0, 0, kept);
  }

  /// Names the block where it begins, for the first such image only: that takes a pass for each block.
  std::string WhyNotFinite(View<const float> pixels, const std::string& name) {
    std::string why = FormatShown("{}: the model's answer holds NaN or infinity, expected finite numbers", name);
    if (traced_.exchange(true)) return why;
    return why + FormatShown(
                     "; they begin in {}: weights or inputs there are too large for the precision, or broken "
                     "(see qkv run --hidden all)",
                     model::WhereNotFinite(model_.vit(), pixels));
  }

  /// Uses this batch and those that waited for it, unless another thread does so already.
  void Finish(Slot& finished) {
    std::unique_lock lock(mutex_);
    finished.finished = true;
    if (using_) return;
    using_ = true;
    for (Slot* slot = &slots_[used_ % slots_.size()]; !stopped_ && slot->finished;
         slot = &slots_[used_ % slots_.size()]) {
      lock.unlock();
      Use(*slot);
      lock.lock();
      slot->finished = false;
      ++used_;
      changed_.notify_all();
    }
    using_ = false;
  }

  void Use(Slot& slot) {
    const PixelBatch& pixels = slot.pixels;
    for (const std::string& text : pixels.remarks) options_.decode.remark(text);
    for (size_t i = 0; i < pixels.end - pixels.begin; ++i) {
      if (pixels.errors[i].empty()) continue;
      Notify(options_.note, FormatShown("{}", pixels.errors[i]));
      ++failed_;
    }
    slot.batch.files = pixels.files;
    slot.batch.paths.resize(pixels.files.size());
    for (size_t i = 0; i < pixels.files.size(); ++i) slot.batch.paths[i] = files_[pixels.files[i]].native();
    if (!pixels.files.empty()) use_(slot.batch);
    if (options_.advance) options_.advance(static_cast<int64_t>(pixels.end - pixels.begin));
  }

  const PipelineOptions& options_;
  const std::vector<std::filesystem::path>& files_;
  const model::Model& model_;
  const Wanted wanted_;
  const std::function<void(const Batch&)>& use_;
  size_t batch_ = 1;
  DecodingBudget budget_;
  std::vector<std::unique_ptr<Worker>> workers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  // a ring
  size_t next_ = 0;          // file
  size_t claimed_ = 0, used_ = 0;
  bool using_ = false, stopped_ = false;
  std::atomic<bool> traced_{false};
  int failed_ = 0;  // written by the thread that uses batches
};

}  // namespace

int ForEachBatch(const PipelineOptions& options, const ImageList& images, const model::Model& model, Wanted wanted,
                 const std::function<void(const Batch&)>& use) {
  const int64_t channels = model.config().channels;
  Require(channels == 1 || channels == 3,
          "the model takes {} channels, images have 1 or 3; give its pixels by qkv run --input", channels);
  return Pipeline(options, images, model, wanted, use).Run();
}

CollectedPixels CollectPixels(const PipelineOptions& options, const ImageList& images, const model::Model& model,
                              std::string_view what) {
  Tensor<float> all;
  int64_t count = 0;
  CollectedPixels pixels;
  pixels.failed = ForEachBatch(options, images, model, Wanted::kPixels, [&](const Batch& batch) {
    const View<const float> some = batch.values;
    const Shape shape({std::ssize(images.files), some.dim(1), some.dim(2), some.dim(3)});
    if (all.empty()) all = Tensor<float>(shape);
    Require(all.shape() == shape, "{}: images become tensors of different sizes, {} and {}; give --size", what,
            all.shape(), shape);
    std::copy_n(some.data(), some.size(), all.view().at(count));
    count += some.dim(0);
  });
  if (count == 0) return pixels;
  pixels.values = Tensor<float>::Uninitialised({count, all.dim(1), all.dim(2), all.dim(3)});
  std::copy_n(all.data(), pixels.values.size(), pixels.values.data());
  return pixels;
}

}  // namespace qkv::app
