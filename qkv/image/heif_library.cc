#include "qkv/image/heif_library.h"

#include <dlfcn.h>

#include "qkv/core/error.h"

namespace qkv::image {
namespace {

constexpr const char* kSoname = "libheif.so.1";

/// A function of the library, of whatever type it is assigned to.
struct HeifFunction {
  template <typename Function>
  operator Function*() const {  // NOLINT: implicit, so that a table of functions needs no casts
    return reinterpret_cast<Function*>(address);
  }
  void* address;
};

HeifLibrary OpenHeif(std::string_view where) {
  // Stays open: it may have threads, and keeps tables.
  void* const library = ::dlopen(kSoname, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    Fail(
        "{}: HEIC and AVIF need libheif, which cannot be loaded: {} (Debian, Ubuntu: apt install libheif1; Fedora: dnf "
        "install libheif)",
        where, ::dlerror());
  }
  const auto find = [&](const char* name) {
    void* const address = ::dlsym(library, name);
    Require(address != nullptr, "{}: HEIC and AVIF need libheif 1.12 or newer: {} lacks {}", where, kSoname, name);
    return HeifFunction{address};
  };
  return {
      .context_alloc = find("heif_context_alloc"),
      .context_free = find("heif_context_free"),
      .context_get_primary_image_handle = find("heif_context_get_primary_image_handle"),
      .context_read_from_memory_without_copy = find("heif_context_read_from_memory_without_copy"),
      .context_set_maximum_image_size_limit = find("heif_context_set_maximum_image_size_limit"),
      .decode_image = find("heif_decode_image"),
      .decoding_options_alloc = find("heif_decoding_options_alloc"),
      .decoding_options_free = find("heif_decoding_options_free"),
      .image_get_height = find("heif_image_get_height"),
      .image_get_plane_readonly = find("heif_image_get_plane_readonly"),
      .image_get_width = find("heif_image_get_width"),
      .image_handle_get_height = find("heif_image_handle_get_height"),
      .image_handle_get_ispe_height = find("heif_image_handle_get_ispe_height"),
      .image_handle_get_ispe_width = find("heif_image_handle_get_ispe_width"),
      .image_handle_get_luma_bits_per_pixel = find("heif_image_handle_get_luma_bits_per_pixel"),
      .image_handle_get_width = find("heif_image_handle_get_width"),
      .image_handle_has_alpha_channel = find("heif_image_handle_has_alpha_channel"),
      .image_handle_release = find("heif_image_handle_release"),
      .image_release = find("heif_image_release"),
  };
}

}  // namespace

const HeifLibrary& LoadHeif(std::string_view where) {
  // Tried again after a failure: a server needs no restart once the library is installed.
  static const HeifLibrary library = OpenHeif(where);
  return library;
}

}  // namespace qkv::image
