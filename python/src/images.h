// The images of a call from Python: files, encoded bytes, arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "qkv/app/images/image_list.h"
#include "qkv/app/images/pipeline.h"

namespace qkv::python {

namespace nb = nanobind;

/// Made and destroyed with the interpreter's lock; used without it.
class Images {
 public:
  /// Each item is a path (str), the bytes of a file (bytes), or uint8 samples [height, width] or [height, width,
  /// channels] on the CPU, which are kept and not copied. Throws TypeError or Error otherwise.
  explicit Images(const nb::list& items);

  const app::ImageList& list() const { return list_; }
  size_t size() const { return items_.size(); }
  const std::string& name(size_t index) const { return list_.files[index].native(); }
  /// Decoded, turned by its EXIF orientation. Throws Error, which names it.
  image::Image Decode(size_t index, const image::DecodeOptions& options) const;

 private:
  using Item = std::variant<std::string, std::span<const std::byte>, View<const uint8_t>>;

  void Read(size_t index, const image::DecodeOptions& options, image::Workspace& workspace, image::Image& image) const;

  std::vector<Item> items_;
  app::ImageList list_;
  std::vector<nb::object> kept_;  // what the items refer to
};

/// Calls compute(index) for one image after the other, without the interpreter's lock. An image that cannot be read or
/// computed ends the call with its Error, or with `skip` is left out, with a note.
template <typename Compute>
void ForEachImage(const Images& images, bool skip, const app::PipelineOptions& options, Compute compute) {
  for (size_t i = 0; i < images.size(); ++i) {
    try {
      compute(i);
    } catch (const Error& error) {
      if (!skip) throw;
      app::Notify(options.note, error.what());
    }
    if (options.advance) options.advance(1);
  }
}

}  // namespace qkv::python
