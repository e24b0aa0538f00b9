// Images that the page works on, decoded and prepared, by the hash of their bytes.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "qkv/explore/loaded_model.h"
#include "qkv/explore/packet.h"
#include "qkv/image/image.h"
#include "qkv/inspect/maps.h"

namespace qkv::explore {

/// An image and what models read of it.
struct StoredImage {
  std::string id;
  image::Image photo;
  std::map<std::string, Tensor<float>> pixels;  // by the model's id, [1, channels, height, width]
};

/// Of one model and one image.
struct PreparedImage {
  const StoredImage* image = nullptr;
  View<const float> pixels;  // [1, channels, height, width]
  inspect::TokenGrid grid;
};

class ImageStore {
 public:
  static constexpr size_t kMost = 16;  // images; the least recently used goes first

  explicit ImageStore(int64_t max_pixels) : max_pixels_(max_pixels) {}

  /// The image of a request: its "file" or "pixels", its "sample", or its "image", the id of one before. Throws Error
  /// if there is none of them, the id is not known (any more), or the bytes are no image of at most max_pixels.
  StoredImage& Find(const Packet& request);
  /// Prepared for a model, which must be of images. Valid until the next call.
  PreparedImage Prepare(LoadedModel& model, StoredImage& image);
  PreparedImage Prepare(LoadedModel& model, const Packet& request) { return Prepare(model, Find(request)); }

 private:
  StoredImage& Store(image::Image photo, std::string id);
  StoredImage* FindStored(const std::string& id);

  int64_t max_pixels_;
  std::list<StoredImage> images_;  // most recently used first
};

/// The answer to "image": what is shown of it, and where the model's patches are.
Packet DescribeImage(LoadedModel& model, const PreparedImage& image);

/// The images that come with the explorer.
struct Sample {
  std::string id, title;
  std::string_view file;
};
const std::vector<Sample>& Samples();

}  // namespace qkv::explore
