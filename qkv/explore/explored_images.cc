#include "qkv/explore/explored_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "qkv/app/attention/attend.h"
#include "qkv/app/images/thumbnail.h"
#include "qkv/core/checksum.h"
#include "qkv/core/pause.h"
#include "qkv/explore/fields.h"
#include "qkv/explore/samples.h"

namespace qkv::explore {
namespace {

std::string IdOf(std::span<const std::byte> bytes, std::string_view kind) {
  return fmt::format("{}{:016x}", kind, Checksum(bytes));
}

// Grey [H, W] or colours [H, W, 3].
void CheckPixels(const Array& array, int64_t max_pixels) {
  Require(array.type == ArrayType::kU8 &&
              (array.shape.size() == 2 || (array.shape.size() == 3 && array.shape[2] == 3)) && array.size() > 0,
          "image: \"pixels\" are u8 [height, width] or [height, width, 3]");
  const int64_t height = array.shape[0], width = array.shape[1];
  Require(height <= max_pixels / width, "image: {}×{} pixels, at most {} are taken", height, width, max_pixels);
}

image::Image PhotoOf(const StoredImage& stored, int64_t max_pixels, const AdmitPhoto& admit) {
  if (stored.shape.empty()) {
    image::DecodeOptions options;
    options.max_pixels = max_pixels;
    options.admit = admit;
    return image::Decode(stored.source, options, "image");
  }
  const int64_t height = stored.shape[0], width = stored.shape[1];
  if (admit) admit(std::ssize(stored.source));
  image::Image image{Tensor<uint8_t>({height, width, stored.shape.size() == 3 ? 3 : 1})};
  std::memcpy(image.pixels.data(), stored.source.data(), stored.source.size());
  return image;
}

int64_t BytesOf(const StoredImage& image) {
  int64_t bytes = std::ssize(image.source) + std::ssize(image.png) + static_cast<int64_t>(sizeof(image));
  for (const auto& [id, input] : image.inputs) bytes += input.pixels.size() * static_cast<int64_t>(sizeof(float));
  return bytes;
}

}  // namespace

const std::vector<Sample>& Samples() {
  static const std::vector<Sample> samples = {
      {"digit-0", "0", Digit0()}, {"digit-1", "1", Digit1()}, {"digit-2", "2", Digit2()}, {"digit-3", "3", Digit3()},
      {"digit-4", "4", Digit4()}, {"digit-5", "5", Digit5()}, {"digit-6", "6", Digit6()}, {"digit-7", "7", Digit7()},
      {"digit-8", "8", Digit8()}, {"digit-9", "9", Digit9()}};
  return samples;
}

StoredImage* ExploredImages::FindStored(const std::string& id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return nullptr;
  images_.splice(images_.begin(), images_, found->second);
  return &images_.front();
}

StoredImage& ExploredImages::Store(std::span<const std::byte> source, std::vector<int64_t> shape, std::string id) {
  images_.push_front({std::move(id), {source.begin(), source.end()}, std::move(shape), 0, 0, {}, {}});
  places_[images_.front().id] = images_.begin();
  return images_.front();
}

StoredImage& ExploredImages::Find(const Packet& request) {
  std::span<const std::byte> file;
  if (const Array* bytes = request.Find("file")) {
    file = bytes->bytes;
  } else if (const Array* pixels = request.Find("pixels")) {
    CheckPixels(*pixels, max_pixels_);
    const std::string id = IdOf(pixels->bytes, fmt::format("p{}-", fmt::join(pixels->shape, "x")));
    if (StoredImage* known = FindStored(id)) return *known;
    return Store(pixels->bytes, pixels->shape, id);
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
    Require(known != nullptr, "image: \"{}\" is not kept any more; send its bytes again", id);
    return *known;
  }
  const std::string id = IdOf(file, "f");
  if (StoredImage* known = FindStored(id)) return *known;
  return Store(file, {}, id);
}

PreparedImage ExploredImages::Prepare(const ExploredModel& model, const Packet& request, const AdmitPhoto& admit) {
  const model::Model& layers = model.image_model();
  StoredImage& image = Find(request);
  ModelInput& input = image.inputs[model.entry().id];
  try {
    // A model that replaced another with this id may read another size.
    if (input.pixels.empty() || input.model.lock() != model.loaded()) {
      const image::Image photo = PhotoOf(image, max_pixels_, admit);
      Pause();
      input = {model.loaded(), layers.Pixels(photo), {}};
      Pause();
      const inspect::TokenGrid grid = inspect::MakeTokenGrid(layers.config(), input.pixels.dim(2), input.pixels.dim(3));
      input.where =
          app::PatchesIn(layers, grid, photo, {input.pixels.dim(1), input.pixels.dim(2), input.pixels.dim(3)});
      if (image.png.empty()) image.png = app::PagePhoto(photo);
      image.height = photo.height(), image.width = photo.width();
    }
  } catch (...) {
    image.inputs.erase(model.entry().id);
    if (image.png.empty()) places_.erase(image.id), images_.pop_front();
    throw;
  }
  Trim();
  return {&image, input.pixels, input.where,
          inspect::MakeTokenGrid(layers.config(), input.pixels.dim(2), input.pixels.dim(3))};
}

// Drops inputs of models that have gone, then the images that were used least recently.
void ExploredImages::Trim() {
  bytes_ = 0;
  for (StoredImage& image : images_) {
    std::erase_if(image.inputs, [](const auto& item) { return item.second.model.expired(); });
    bytes_ += BytesOf(image);
  }
  while (images_.size() > 1 && (bytes_ > memory_ || images_.size() > kMaxImages)) {
    bytes_ -= BytesOf(images_.back());
    places_.erase(images_.back().id);
    images_.pop_back();
  }
}

Packet DescribeImage(const PreparedImage& prepared) {
  const StoredImage& image = *prepared.image;
  Packet answer;
  answer.json = {{"image", image.id},
                 {"photo", {image.height, image.width}},
                 {"where", {prepared.where.top, prepared.where.left, prepared.where.height, prepared.where.width}},
                 {"grid", {prepared.grid.height, prepared.grid.width}},
                 {"prefix", prepared.grid.prefix}};
  answer.arrays["png"] = MakeArray(image.png);
  return answer;
}

}  // namespace qkv::explore
