// Image files to a batch of pixels.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cli/images.h"
#include "qkv/image/workspace.h"
#include "qkv/model/model.h"

namespace qkv::cli {

/// A limit on the pixels that are being decoded at a time, over all threads; a larger image waits until it is alone.
class PixelBudget {
 public:
  explicit PixelBudget(int64_t limit) : limit_(limit) {}
  void Acquire(int64_t pixels);
  void Release(int64_t pixels);

 private:
  const int64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t used_ = 0;
};

/// A file, or what comes on stdin where it is "-".
void ReadImage(const std::filesystem::path& file, const image::DecodeOptions& options, image::Workspace& workspace,
               image::Image& image);

/// Consecutive files, and their pixels.
struct PixelBatch {
  size_t begin = 0, end = 0;        // of the files
  std::vector<std::string> errors;  // [files]: why one could not be read, or empty
  std::vector<size_t> files;        // [B]: those that could
  View<const float> pixels;         // [B, channels, height, width], the reader's
};

/// Reads one batch after the other, on up to `threads` threads. The files of a batch are tasks of the pool: read side
/// by side where the caller has it for itself, one after the other where the caller is one of its tasks. From the
/// second batch on nothing is allocated for images of the same kind, but for what the libraries of their formats do.
class PixelReader {
 public:
  PixelReader(const ImageList& images, const image::DecodeOptions& options, const model::Model& model, int threads,
              PixelBudget& budget);
  PixelReader(const PixelReader&) = delete;
  PixelReader& operator=(const PixelReader&) = delete;

  /// batch: begin and end are given; no more than one file where the model's pixels differ in shape.
  void Read(PixelBatch& batch);

 private:
  // A thread's memory.
  struct Lane {
    image::DecodeOptions options;
    image::Workspace workspace;
    image::Image image;
    int64_t admitted = 0;
  };

  void ReadFile(size_t file, int64_t row, Lane& lane);
  void Admit(int64_t pixels, Lane& lane);

  const ImageList& images_;
  const model::Model& model_;
  PixelBudget& budget_;
  const std::optional<Shape> shape_;
  std::vector<Lane> lanes_;  // one a thread
  Tensor<float> pixels_;
};

}  // namespace qkv::cli
