#include "python/src/images.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>

#include "python/src/objects.h"
#include "qkv/app/images/image_reader.h"
#include "qkv/image/workspace.h"

namespace qkv::python {
namespace {

using Samples = nb::ndarray<const uint8_t, nb::device::cpu>;

View<const uint8_t> ViewOf(const Samples& samples, const std::string& name) {
  const auto rank = static_cast<int>(samples.ndim());
  Require(rank == 2 || rank == 3,
          "{}: an array of {} axes, expected uint8 [height, width] or [height, width, channels]", name, rank);
  std::array<int64_t, 3> extents = {0, 0, 1};
  View<const uint8_t>::Strides strides{0, 0, 1};
  for (int axis = 0; axis < rank; ++axis) {
    extents[axis] = static_cast<int64_t>(samples.shape(static_cast<size_t>(axis)));
    strides[axis] = samples.stride(static_cast<size_t>(axis));
  }
  Require(extents[0] > 0 && extents[1] > 0 && extents[2] >= 1 && extents[2] <= 4,
          "{}: an array [{}, {}, {}], expected [height, width, 1 to 4 channels], channels last", name, extents[0],
          extents[1], extents[2]);
  return {samples.data(), Shape(std::span<const int64_t>(extents)), strides};
}

}  // namespace

Images::Images(const nb::list& items) {
  bool stored = false;
  for (const nb::handle item : items) {
    const std::string name = "image " + std::to_string(items_.size());
    if (nb::isinstance<nb::str>(item)) {
      list_.files.emplace_back(PathOf(item));
      items_.emplace_back(list_.files.back().native());
      continue;
    }
    stored = true;
    list_.files.emplace_back(name);
    kept_.push_back(nb::borrow(item));
    if (nb::isinstance<nb::bytes>(item)) {
      const nb::bytes bytes = nb::borrow<nb::bytes>(item);
      items_.emplace_back(std::as_bytes(std::span(bytes.c_str(), bytes.size())));
      continue;
    }
    Samples samples;
    if (!nb::try_cast(item, samples)) {
      const nb::str type = nb::str(nb::handle(item.type()).attr("__name__"));
      throw nb::type_error(
          FormatShown("{}: a {}, expected a path, bytes, or a uint8 array on the CPU", name, type.c_str()).c_str());
    }
    items_.emplace_back(ViewOf(samples, name));
    kept_.push_back(nb::cast(samples));
  }
  if (!stored) return;
  list_.read = [this](size_t index, const image::DecodeOptions& options, image::Workspace& workspace,
                      image::Image& image) { Read(index, options, workspace, image); };
}

void Images::Read(size_t index, const image::DecodeOptions& options, image::Workspace& workspace,
                  image::Image& image) const {
  if (const auto* const file = std::get_if<std::string>(&items_[index])) {
    return image::DecodeFile(*file, options, workspace, image);
  }
  if (const auto* const bytes = std::get_if<std::span<const std::byte>>(&items_[index])) {
    return image::Decode(*bytes, options, name(index), workspace, image);
  }
  const auto& samples = std::get<View<const uint8_t>>(items_[index]);
  image.pixels.Reuse(samples.shape());
  uint8_t* out = image.pixels.data();
  for (int64_t y = 0; y < samples.dim(0); ++y) {
    for (int64_t x = 0; x < samples.dim(1); ++x) {
      for (int64_t c = 0; c < samples.dim(2); ++c) *out++ = *samples.at(y, x, c);
    }
  }
}

image::Image Images::Decode(size_t index, const image::DecodeOptions& options) const {
  image::Workspace workspace;
  image::Image image;
  Read(index, options, workspace, image);
  return image;
}

}  // namespace qkv::python
