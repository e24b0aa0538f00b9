#include "qkv/app/images/image_reader.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "qkv/core/await.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"

namespace qkv::app {
namespace {

constexpr size_t kMaxStdinBytes = size_t{1} << 30, kStdinBlock = size_t{1} << 16;
// Scratch memory above this is released after an image: photos of most cameras keep theirs.
constexpr int64_t kKeptBytes = int64_t{1} << 27;

std::string ReadStdin() {
  std::string bytes;
  for (size_t got = 1; got > 0;) {
    const size_t end = bytes.size();
    Require(end < kMaxStdinBytes, "-: more than {} bytes on stdin", kMaxStdinBytes);
    bytes.resize(end + kStdinBlock);
    got = std::fread(bytes.data() + end, 1, kStdinBlock, stdin);
    bytes.resize(end + got);
  }
  return bytes;
}

}  // namespace

void ReadImage(const std::filesystem::path& file, const image::DecodeOptions& options, image::Workspace& workspace,
               image::Image& image) {
  if (file != "-") return image::DecodeFile(file, options, workspace, image);
  const std::string bytes = ReadStdin();
  image::Decode(std::as_bytes(std::span(bytes)), options, "-", workspace, image);
}

void ReadImage(const ImageList& images, size_t index, const image::DecodeOptions& options, image::Workspace& workspace,
               image::Image& image) {
  if (images.read) return images.read(index, options, workspace, image);
  ReadImage(images.files[index], options, workspace, image);
}

void DecodingBudget::Acquire(int64_t bytes) {
  std::unique_lock lock(mutex_);
  AwaitOrCancel(changed_, lock, [&] { return used_ == 0 || used_ + bytes <= limit_; });
  used_ += bytes;
}

void DecodingBudget::Release(int64_t bytes) {
  if (bytes == 0) return;
  {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
  }
  changed_.notify_all();
}

PixelReader::PixelReader(const ImageList& images, const image::DecodeOptions& options, const InspectImage& inspect,
                         const model::Model& model, int threads, DecodingBudget& budget)
    : images_(images),
      inspect_(inspect),
      model_(model),
      budget_(budget),
      shape_(model.FixedPixelsShape()),
      lanes_(static_cast<size_t>(threads)) {
  for (Lane& lane : lanes_) {
    lane.options = options;
    lane.options.admit = [this, &lane](int64_t bytes) { Admit(bytes, lane); };
    if (options.remark) lane.options.remark = [&lane](std::string_view text) { lane.remarks.emplace_back(text); };
  }
}

void PixelReader::Admit(int64_t bytes, Lane& lane) {
  // A waiting thread gives back its bytes, or two could wait for each other.
  budget_.Release(std::exchange(lane.admitted, 0));
  budget_.Acquire(bytes);
  lane.admitted = bytes;
}

void PixelReader::ReadFile(size_t file, int64_t row, Lane& lane) {
  ReadImage(images_, file, lane.options, lane.workspace, lane.image);
  if (inspect_) inspect_(images_.files[file], lane.image);
  if (!shape_) {
    const Shape shape = model_.PixelsShape(lane.image);
    pixels_.Reuse({1, shape[0], shape[1], shape[2]});
  }
  model_.Pixels(lane.image, lane.workspace, pixels_.view()[row]);
}

void PixelReader::Read(PixelBatch& batch) {
  const size_t count = batch.end - batch.begin;
  Require(shape_ || count <= 1, "images: a batch of {} images of different sizes", count);
  if (shape_) pixels_.Reuse({static_cast<int64_t>(count), (*shape_)[0], (*shape_)[1], (*shape_)[2]});
  if (batch.errors.size() < count) batch.errors.resize(count);
  ParallelTasks(static_cast<int64_t>(count), [&](int64_t task, int thread) {
    const auto i = static_cast<size_t>(task);
    Lane& lane = lanes_[static_cast<size_t>(thread)];
    std::string& error = batch.errors[i];
    error.clear();
    try {
      ReadFile(batch.begin + i, task, lane);
    } catch (const Cancelled&) {
      budget_.Release(std::exchange(lane.admitted, 0));
      throw;
    } catch (const WrongImages&) {
      budget_.Release(std::exchange(lane.admitted, 0));
      throw;
    } catch (const std::exception& caught) {
      const std::string& path = images_.files[batch.begin + i].native();
      error = caught.what();
      if (error.find(path) == std::string::npos) error = path + ": " + error;
    }
    if (lane.admitted > kKeptBytes) lane.workspace = {}, lane.image = {};
    budget_.Release(std::exchange(lane.admitted, 0));
  });
  batch.remarks.clear();
  for (Lane& lane : lanes_) {
    std::ranges::move(lane.remarks, std::back_inserter(batch.remarks));
    lane.remarks.clear();
  }
  batch.files.clear();
  for (size_t i = 0; i < count; ++i) {
    if (!batch.errors[i].empty()) continue;
    const auto row = static_cast<int64_t>(batch.files.size());
    if (row < static_cast<int64_t>(i)) {  // a file before it could not be read
      const View<float> from = pixels_.view()[static_cast<int64_t>(i)];
      std::copy_n(from.data(), from.size(), pixels_.view()[row].data());
    }
    batch.files.push_back(batch.begin + i);
  }
  batch.pixels = batch.files.empty() ? View<const float>()
                                     : View<const float>(pixels_).slice(0, 0, static_cast<int64_t>(batch.files.size()));
}

}  // namespace qkv::app
