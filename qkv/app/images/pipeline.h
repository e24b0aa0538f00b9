// Many images through a model, on all cores.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qkv/app/images/image_list.h"
#include "qkv/app/images/passes.h"
#include "qkv/app/open/note.h"
#include "qkv/core/error.h"
#include "qkv/image/image.h"
#include "qkv/model/model.h"

namespace qkv::app {

struct Batch {
  std::vector<std::string> paths;  // [B]
  std::vector<size_t> files;       // [B] indices into ImageList::files
  View<const float> values;        // [B, …] as wanted
};

struct PipelineOptions {
  image::DecodeOptions decode;                  // its remark is called as `note`
  int batch = 0;                                // images computed together; 0: what suits the model
  InspectImage inspect;                         // looks at each image before it becomes pixels; or empty
  Note note;                                    // receives why an image was left out
  std::function<void(int64_t images)> advance;  // receives how many more images are done; or empty
};

/// Calls `use` for one batch of consecutive images after the other, in order, while others are being read and computed.
/// `use`, `note` and `advance` are called from any thread, but never from two at a time. With kPixels the calling
/// thread has all cores for itself meanwhile. An image is left out, with a note, if it cannot be read or its result is
/// not finite; the first of the latter notes also name the block where that begins. Returns the number of images left
/// out. Throws Error if the model does not take images, and if the batches of all threads would need more than
/// MemoryLimit(), and what `inspect` throws as WrongImages.
int ForEachBatch(const PipelineOptions& options, const ImageList& images, const model::Model& model, Wanted wanted,
                 const std::function<void(const Batch&)>& use);

/// use(file, compute(path)) for one file after the other, which has all cores. file: its index into ImageList::files. A
/// file whose `compute` throws Error is left out, with a note that names it. Returns the number of these.
template <typename Compute, typename Use>
int ForEachFile(const PipelineOptions& options, const ImageList& images, Compute compute, Use use) {
  int failed = 0;
  for (size_t i = 0; i < images.files.size(); ++i) {
    const std::filesystem::path& file = images.files[i];
    std::optional<std::invoke_result_t<Compute, const std::filesystem::path&>> result;
    try {
      result.emplace(compute(file));
    } catch (const Error& error) {
      const std::string what = error.what(), path = file.string();
      Notify(options.note, what.find(path) == std::string::npos ? path + ": " + what : what);
      ++failed;
    }
    if (result) use(i, *result);
    if (options.advance) options.advance(1);
  }
  return failed;
}

struct CollectedPixels {
  Tensor<float> values;  // [B, channels, height, width]; empty if no image can be read
  int failed = 0;        // images left out
};

/// The pixels of all readable images in one tensor. Throws Error, which begins with `what`, if their shapes differ, and
/// as ForEachBatch.
CollectedPixels CollectPixels(const PipelineOptions& options, const ImageList& images, const model::Model& model,
                              std::string_view what);

}  // namespace qkv::app
