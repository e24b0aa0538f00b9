// libheif of the system, opened at the first HEIC or AVIF file. Nothing links it: most programs read no such file, and
// it brings decoders and encoders under licences of their own, x265's GPL among them. Internal to qkv/image.
#pragma once

#include <libheif/heif.h>

#include <string_view>

namespace qkv::image {

/// The functions that are used; all are in libheif 1.12 (2021) and later.
struct HeifLibrary {
  decltype(&heif_context_alloc) context_alloc;
  decltype(&heif_context_free) context_free;
  decltype(&heif_context_get_primary_image_handle) context_get_primary_image_handle;
  decltype(&heif_context_read_from_memory_without_copy) context_read_from_memory_without_copy;
  decltype(&heif_context_set_maximum_image_size_limit) context_set_maximum_image_size_limit;
  decltype(&heif_decode_image) decode_image;
  decltype(&heif_decoding_options_alloc) decoding_options_alloc;
  decltype(&heif_decoding_options_free) decoding_options_free;
  decltype(&heif_image_get_height) image_get_height;
  decltype(&heif_image_get_plane_readonly) image_get_plane_readonly;
  decltype(&heif_image_get_width) image_get_width;
  decltype(&heif_image_handle_get_height) image_handle_get_height;
  decltype(&heif_image_handle_get_ispe_height) image_handle_get_ispe_height;
  decltype(&heif_image_handle_get_ispe_width) image_handle_get_ispe_width;
  decltype(&heif_image_handle_get_luma_bits_per_pixel) image_handle_get_luma_bits_per_pixel;
  decltype(&heif_image_handle_get_width) image_handle_get_width;
  decltype(&heif_image_handle_has_alpha_channel) image_handle_has_alpha_channel;
  decltype(&heif_image_handle_release) image_handle_release;
  decltype(&heif_image_release) image_release;
};

/// The library, loaded by the first call that can. Throws Error, which names the file `where`, if it is not installed
/// or lacks a function. Threads may call this at a time.
const HeifLibrary& LoadHeif(std::string_view where);

}  // namespace qkv::image
