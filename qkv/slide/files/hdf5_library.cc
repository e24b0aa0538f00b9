#include "qkv/slide/files/hdf5_library.h"

#ifdef QKV_HAS_HDF5
#include <dlfcn.h>

#include <array>

#include "qkv/core/error.h"

namespace qkv::slide {
namespace {

// Debian's, then others' 1.10, 1.12, 1.14 and 2.0. The handles that its functions take have had 64 bits since 1.10.
constexpr std::array<const char*, 6> kHdf5Names = {"libhdf5_serial.so.103", "libhdf5.so.103", "libhdf5_serial.so.310",
                                                   "libhdf5.so.200",        "libhdf5.so.310", "libhdf5.so.320"};

/// A function of the library, of whatever type it is assigned to.
struct Hdf5Function {
  template <typename Function>
  operator Function*() const {  // NOLINT: implicit, so that a table of functions needs no casts
    return reinterpret_cast<Function*>(address);
  }
  void* address;
};

void* OpenHdf5Library(std::string_view where) {
  std::string reasons;
  for (const char* const name : kHdf5Names) {
    // Stays open: it has an exit handler.
    if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    if (reasons.empty()) reasons = ::dlerror();
  }
  Fail(
      "{}: HDF5 files are written by libhdf5, which cannot be loaded: {} (Debian, Ubuntu: apt install libhdf5-103-1 or "
      "newer; Fedora: dnf install hdf5)",
      where, reasons);
}

Hdf5Library OpenHdf5(std::string_view where) {
  void* const library = OpenHdf5Library(where);
  const auto find = [&](const char* name) {
    void* const address = ::dlsym(library, name);
    Require(address != nullptr, "{}: HDF5 files need libhdf5 1.10.3 or newer: the one found lacks {}", where, name);
    return Hdf5Function{address};
  };
  const decltype(&H5open) open = find("H5open");
  const decltype(&H5get_libversion) get_version = find("H5get_libversion");
  unsigned major = 0, minor = 0, patch = 0;
  Require(open() >= 0 && get_version(&major, &minor, &patch) >= 0, "{}: libhdf5 cannot be initialised", where);
  // Constants are variables, which H5open sets.
  const auto constant = [&](const char* name) { return *static_cast<const hid_t*>(find(name).address); };
  static std::mutex lock;
  Hdf5Library table{
      .attribute_close = find("H5Aclose"),
      .attribute_create = find("H5Acreate2"),
      .attribute_write = find("H5Awrite"),
      .dataset_close = find("H5Dclose"),
      .dataset_create = find("H5Dcreate2"),
      .dataset_write_chunk = find("H5Dwrite_chunk"),
      .error_set_auto = find("H5Eset_auto2"),
      .error_walk = find("H5Ewalk2"),
      .file_close = find("H5Fclose"),
      .file_create = find("H5Fcreate"),
      .file_flush = find("H5Fflush"),
      .file_image = find("H5Fget_file_image"),
      .file_handle = find("H5Fget_vfd_handle"),
      .list_close = find("H5Pclose"),
      .list_create = find("H5Pcreate"),
      .set_char_encoding = find("H5Pset_char_encoding"),
      .set_chunk = find("H5Pset_chunk"),
      .set_core_driver = find("H5Pset_fapl_core"),
      .set_versions = find("H5Pset_libver_bounds"),
      .set_track_times = find("H5Pset_obj_track_times"),
      .space_close = find("H5Sclose"),
      .space_create = find("H5Screate"),
      .space_create_simple = find("H5Screate_simple"),
      .type_close = find("H5Tclose"),
      .type_copy = find("H5Tcopy"),
      .type_set_cset = find("H5Tset_cset"),
      .type_set_size = find("H5Tset_size"),
      .f32 = constant("H5T_IEEE_F32LE_g"),
      .f64 = constant("H5T_IEEE_F64LE_g"),
      .i64 = constant("H5T_STD_I64LE_g"),
      .string = constant("H5T_C_S1_g"),
      .attribute_list = constant("H5P_CLS_ATTRIBUTE_CREATE_ID_g"),
      .dataset_list = constant("H5P_CLS_DATASET_CREATE_ID_g"),
      .file_list = constant("H5P_CLS_FILE_ACCESS_ID_g"),
      .version = fmt::format("{}.{}.{}", major, minor, patch),
      .lock = &lock,
  };
  return table;
}

}  // namespace

const Hdf5Library& LoadHdf5(std::string_view where) {
  // Tried again after a failure: a long run needs no restart once the library is installed.
  static const Hdf5Library library = OpenHdf5(where);
  return library;
}

}  // namespace qkv::slide
#endif
