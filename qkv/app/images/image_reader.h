// Reads image files into batches of pixels.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "qkv/app/images/image_list.h"
#include "qkv/image/workspace.h"
#include "qkv/model/model.h"

namespace qkv::app {

/// A limit on the bytes that all threads together hold while they decode; a larger image waits until it is alone.
class DecodingBudget {
 public:
  explicit DecodingBudget(int64_t limit) : limit_(limit) {}
  void Acquire(int64_t bytes);
  void Release(int64_t bytes);

 private:
  const int64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t used_ = 0;
};

/// Decodes a file, or standard input if it is "-".
void ReadImage(const std::filesystem::path& file, const image::DecodeOptions& options, image::Workspace& workspace,
               image::Image& image);
/// The same for an image of a list.
void ReadImage(const ImageList& images, size_t index, const image::DecodeOptions& options, image::Workspace& workspace,
               image::Image& image);

/// Consecutive files and their pixels.
struct PixelBatch {
  size_t begin = 0, end = 0;         // range of the files
  std::vector<std::string> errors;   // [end − begin] why a file could not be read, or empty
  std::vector<std::string> remarks;  // what DecodeOptions::remark was to receive
  std::vector<size_t> files;         // [B] files that were read
  View<const float> pixels;          // [B, channels, height, width], owned by the reader
};

/// Reads one batch after the other, on up to `threads` threads. The files of a batch are tasks of the thread pool: they
/// are read in parallel if the caller is outside the pool, one after the other if the caller is one of its tasks. From
/// the second batch on, images of the same kind allocate nothing, except in the libraries of their formats.
class PixelReader {
 public:
  PixelReader(const ImageList& images, const image::DecodeOptions& options, const InspectImage& inspect,
              const model::Model& model, int threads, DecodingBudget& budget);
  PixelReader(const PixelReader&) = delete;
  PixelReader& operator=(const PixelReader&) = delete;

  /// The caller sets begin and end, and passes the remarks on if the options have where to; one file at a time if the
  /// shape of the model's pixels depends on the image. Throws Cancelled, and WrongImages from `inspect`; files that
  /// cannot be read are errors in the batch.
  void Read(PixelBatch& batch);

 private:
  // Memory of one thread.
  struct Lane {
    image::DecodeOptions options;
    image::Workspace workspace;
    image::Image image;
    int64_t admitted = 0;  // bytes
    std::vector<std::string> remarks;
  };

  void ReadFile(size_t file, int64_t row, Lane& lane);
  void Admit(int64_t bytes, Lane& lane);

  const ImageList& images_;
  const InspectImage& inspect_;
  const model::Model& model_;
  DecodingBudget& budget_;
  const std::optional<Shape> shape_;
  std::vector<Lane> lanes_;  // one for each thread
  Tensor<float> pixels_;
};

}  // namespace qkv::app
