// Images that the page works on, by the hash of their bytes: the original file, a small picture for the page, and the
// models' inputs. The decoded photo is dropped at once and decoded again for another model.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"
#include "qkv/image/image.h"
#include "qkv/inspect/maps.h"

namespace qkv::explore {

/// An image as input of one model.
struct ModelInput {
  std::weak_ptr<const LoadedModel> model;
  Tensor<float> pixels;  // [1, channels, height, width]
  image::Rect where;     // the patches in the photo
};

struct StoredImage {
  std::string id;
  std::vector<std::byte> source;             // a file, or grey or coloured pixels
  std::vector<int64_t> shape;                // of pixels: [H, W] or [H, W, 3]; empty: a file
  int64_t height = 0, width = 0;             // of the photo
  std::string png;                           // of it, for the page
  std::map<std::string, ModelInput> inputs;  // by the model's id
};

/// One image prepared for one model.
struct PreparedImage {
  const StoredImage* image = nullptr;
  View<const float> pixels;  // [1, channels, height, width]
  image::Rect where;         // the patches in the photo
  inspect::TokenGrid grid;
};

/// Called with the bytes that decoding a photo takes, before they are allocated, as image::DecodeOptions::admit; may
/// throw.
using AdmitPhoto = std::function<void(int64_t bytes)>;

/// Not thread-safe.
class ExploredImages {
 public:
  static constexpr size_t kMaxImages = 4096;

  /// memory: limit for all images, in bytes. The least recently used go first; the last one stays.
  ExploredImages(int64_t max_pixels, int64_t memory) : max_pixels_(max_pixels), memory_(memory) {}

  /// The image in a request, prepared for a model, which must be an image model. It is the request's "file" or
  /// "pixels", its "sample", or its "image", the id of an earlier one. Valid until the next call. Throws Error if none
  /// is given, the id is not known (any more), or the bytes are no image of at most max_pixels.
  PreparedImage Prepare(const ExploredModel& model, const Packet& request, const AdmitPhoto& admit);

  /// Bytes of all kept images.
  int64_t bytes() const { return bytes_; }

 private:
  using Images = std::list<StoredImage>;

  StoredImage& Find(const Packet& request);
  StoredImage* FindStored(const std::string& id);
  StoredImage& Store(std::span<const std::byte> source, std::vector<int64_t> shape, std::string id);
  void Trim();

  const int64_t max_pixels_, memory_;
  int64_t bytes_ = 0;
  Images images_;                                             // most recently used first
  std::unordered_map<std::string, Images::iterator> places_;  // by id
};

/// The answer to "image": facts about it, and where the model's patches are.
Packet DescribeImage(const PreparedImage& image);

/// The images that come with the explorer.
struct Sample {
  std::string id, title;
  std::string_view file;
};
const std::vector<Sample>& Samples();

}  // namespace qkv::explore
