// libhdf5, opened when the first file is written. Nothing links it, and it never sees a file of others: release 1.10 of
// Debian 12 crashes and hangs on damaged ones, so hdf5_file.h reads them. Internal to qkv/slide/files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#ifdef QKV_HAS_HDF5
#include <hdf5.h>

namespace qkv::slide {

/// The functions and constants that are used; all are in releases 1.10.3 to 2.0.
struct Hdf5Library {
  decltype(&H5Aclose) attribute_close;
  decltype(&H5Acreate2) attribute_create;
  decltype(&H5Awrite) attribute_write;
  decltype(&H5Dclose) dataset_close;
  decltype(&H5Dcreate2) dataset_create;
  decltype(&H5Dwrite_chunk) dataset_write_chunk;
  decltype(&H5Eset_auto2) error_set_auto;
  decltype(&H5Ewalk2) error_walk;
  decltype(&H5Fclose) file_close;
  decltype(&H5Fcreate) file_create;
  decltype(&H5Fflush) file_flush;
  decltype(&H5Fget_file_image) file_image;
  decltype(&H5Fget_vfd_handle) file_handle;
  decltype(&H5Pclose) list_close;
  decltype(&H5Pcreate) list_create;
  decltype(&H5Pset_char_encoding) set_char_encoding;
  decltype(&H5Pset_chunk) set_chunk;
  decltype(&H5Pset_fapl_core) set_core_driver;
  decltype(&H5Pset_libver_bounds) set_versions;
  decltype(&H5Pset_obj_track_times) set_track_times;
  decltype(&H5Sclose) space_close;
  decltype(&H5Screate) space_create;
  decltype(&H5Screate_simple) space_create_simple;
  decltype(&H5Tclose) type_close;
  decltype(&H5Tcopy) type_copy;
  decltype(&H5Tset_cset) type_set_cset;
  decltype(&H5Tset_size) type_set_size;

  // Little-endian types, C strings, and classes of property lists.
  hid_t f32, f64, i64, string, attribute_list, dataset_list, file_list;
  std::string version;  // "1.10.8"

  /// libhdf5 is not thread-safe: held while it is used.
  std::mutex* lock;
};

/// The library, loaded by the first call that can. Throws Error, which names the file `where`, if it is not installed,
/// or lacks something. Threads may call this at a time.
const Hdf5Library& LoadHdf5(std::string_view where);

}  // namespace qkv::slide
#endif
