#include "qkv/explore/image_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "qkv/app/attend.h"
#include "qkv/app/thumbnail.h"
#include "qkv/core/checksum.h"
#include "qkv/explore/fields.h"
#include "qkv/explore/samples.h"

namespace qkv::explore {
namespace {

std::string IdOf(std::span<const std::byte> bytes, std::string_view kind) {
  return fmt::format("{}{:016x}", kind, Checksum(bytes));
}

// Grey [H, W] or colours [H, W, 3].
image::Image FromPixels(const Array& array, int64_t max_pixels) {
  Require(array.type == ArrayType::kU8 &&
              (array.shape.size() == 2 || (array.shape.size() == 3 && array.shape[2] == 3)) && array.size() > 0,
          "image: \"pixels\" are u8 [height, width] or [height, width, 3]");
  const int64_t height = array.shape[0], width = array.shape[1];
  Require(height <= max_pixels / width, "image: {}×{} pixels, at most {} are taken", height, width, max_pixels);
  image::Image image{Tensor<uint8_t>({height, width, array.shape.size() == 3 ? 3 : 1})};
  std::memcpy(image.pixels.data(), array.bytes.data(), array.bytes.size());
  return image;
}

}  // namespace

const std::vector<Sample>& Samples() {
  static const std::vector<Sample> samples = {
      {"digit-0", "0", Digit0()}, {"digit-1", "1", Digit1()}, {"digit-2", "2", Digit2()}, {"digit-3", "3", Digit3()},
      {"digit-4", "4", Digit4()}, {"digit-5", "5", Digit5()}, {"digit-6", "6", Digit6()}, {"digit-7", "7", Digit7()},
      {"digit-8", "8", Digit8()}, {"digit-9", "9", Digit9()}};
  return samples;
}

StoredImage* ImageStore::FindStored(const std::string& id) {
  const auto found = std::find_if(images_.begin(), images_.end(), [&](const StoredImage& i) { return i.id == id; });
  if (found == images_.end()) return nullptr;
  images_.splice(images_.begin(), images_, found);
  return &images_.front();
}

StoredImage& ImageStore::Store(image::Image photo, std::string id) {
  images_.push_front({std::move(id), std::move(photo), {}});
  if (images_.size() > kMost) images_.pop_back();
  return images_.front();
}

StoredImage& ImageStore::Find(const Packet& request) {
  std::span<const std::byte> file;
  if (const Array* bytes = request.Find("file")) {
    file = bytes->bytes;
  } else if (const Array* pixels = request.Find("pixels")) {
    const std::string shape = fmt::format("p{}x{}-", pixels->shape.empty() ? 0 : pixels->shape.back(),
                                          pixels->shape.size() > 1 ? pixels->shape[1] : 0);
    const std::string id = IdOf(pixels->bytes, shape);
    if (StoredImage* known = FindStored(id)) return *known;
    return Store(FromPixels(*pixels, max_pixels_), id);
  } else if (const std::string name = TextField(request.json, "sample", ""); !name.empty()) {
    for (const Sample& sample : Samples()) {
      if (sample.id == name) file = std::as_bytes(std::span<const char>(sample.file));
    }
    Require(!file.empty(), "image: no sample is called \"{}\"", name);
  } else {
    const std::string id = TextField(request.json, "image", "");
    Require(!id.empty(),
            "image: send an array \"file\" or \"pixels\", the name of a sample, or the id of an image before");
    StoredImage* const known = FindStored(id);
    Require(known != nullptr, "image: \"{}\" is not kept any more (the last {} are); send its bytes again", id, kMost);
    return *known;
  }
  const std::string id = IdOf(file, "f");
  if (StoredImage* known = FindStored(id)) return *known;
  image::DecodeOptions options;
  options.max_pixels = max_pixels_;
  return Store(image::Decode(file, options, "image"), id);
}

PreparedImage ImageStore::Prepare(LoadedModel& model, StoredImage& image) {
  const model::Model& layers = model.image_model();
  Tensor<float>& pixels = image.pixels[model.entry().id];
  if (pixels.empty()) {
    try {
      pixels = layers.Pixels(image.photo);
    } catch (...) {
      image.pixels.erase(model.entry().id);
      throw;
    }
  }
  return {&image, pixels, inspect::MakeTokenGrid(layers.config(), pixels.dim(2), pixels.dim(3))};
}

Packet DescribeImage(LoadedModel& model, const PreparedImage& prepared) {
  const image::Image& photo = prepared.image->photo;
  const View<const float>& pixels = prepared.pixels;
  const image::Rect where =
      app::PatchesIn(model.image_model(), prepared.grid, photo, {pixels.dim(1), pixels.dim(2), pixels.dim(3)});
  Packet answer;
  answer.json = {{"image", prepared.image->id},
                 {"photo", {photo.height(), photo.width()}},
                 {"where", {where.top, where.left, where.height, where.width}},
                 {"grid", {prepared.grid.height, prepared.grid.width}},
                 {"prefix", prepared.grid.prefix}};
  answer.arrays["png"] = MakeArray(app::PagePhoto(photo));
  return answer;
}

}  // namespace qkv::explore
