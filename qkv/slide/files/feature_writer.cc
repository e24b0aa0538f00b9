// Writes feature files through libhdf5, in its oldest format, which every reader knows.
#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <string>
#include <variant>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/slide/files/feature_file.h"
#include "qkv/slide/files/hdf5_library.h"

namespace qkv::slide {

#ifdef QKV_HAS_HDF5
namespace {

/// A handle of the library, closed at the end.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT: implicit, as the library takes it

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// One file that is being made in memory.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::string& where, size_t bytes)
      : where_(where), hdf5_(LoadHdf5(where)), held_(*hdf5_.lock) {
    hdf5_.error_set_auto(H5E_DEFAULT, nullptr, nullptr);  // it would print
    const Handle access = Checked(hdf5_.list_create(hdf5_.file_list), hdf5_.list_close, "make a list of properties");
    // Grows by a few steps of known size: its memory is moved, not copied.
    const size_t step = std::clamp<size_t>(bytes / 4, size_t{1} << 16, size_t{64} << 20);
    Check(hdf5_.set_core_driver(access, step, false) >= 0, "choose memory");
    // Release 2.0 would write a newer format by default. The enumerators kept their values.
    Check(hdf5_.set_versions(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V110) >= 0, "choose a format");
    constexpr unsigned kTruncate = 2;  // H5F_ACC_TRUNC, a macro that calls the library
    file_ = hdf5_.file_create(where_.c_str(), kTruncate, H5P_DEFAULT, access);
    Check(file_ >= 0, "make a file");
  }
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;
  ~Hdf5Writer() {
    if (file_ >= 0) hdf5_.file_close(file_);
  }

  /// [rows, width] in chunks of one row; any number of rows may follow later.
  void AddDataset(const char* name, hid_t type, std::span<const std::byte> data, int64_t rows, int64_t width,
                  const Attributes& attributes) {
    const std::array<hsize_t, 2> extents = {static_cast<hsize_t>(rows), static_cast<hsize_t>(width)},
                                 most = {H5S_UNLIMITED, extents[1]}, chunk = {1, extents[1]};
    const Handle space =
        Checked(hdf5_.space_create_simple(2, extents.data(), most.data()), hdf5_.space_close, "make a shape");
    const Handle list = Checked(hdf5_.list_create(hdf5_.dataset_list), hdf5_.list_close, "make a list of properties");
    // Without times, equal contents are equal bytes.
    Check(hdf5_.set_chunk(list, 2, chunk.data()) >= 0 && hdf5_.set_track_times(list, false) >= 0, "choose chunks");
    const Handle dataset = Checked(hdf5_.dataset_create(file_, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT),
                                   hdf5_.dataset_close, "make a dataset");
    const size_t bytes = rows == 0 ? 0 : data.size() / static_cast<size_t>(rows);
    for (int64_t i = 0; i < rows; ++i) {
      Spend(64);
      const std::array<hsize_t, 2> offset = {static_cast<hsize_t>(i), 0};
      const std::byte* const row = data.data() + static_cast<size_t>(i) * bytes;
      Check(hdf5_.dataset_write_chunk(dataset, H5P_DEFAULT, 0, offset.data(), bytes, row) >= 0, "write a row");
    }
    for (const auto& [key, value] : attributes) AddAttribute(dataset, key, value);
  }

  /// The bytes of the file, which live as long as this.
  std::span<const std::byte> Finish() {
    Check(hdf5_.file_flush(file_, H5F_SCOPE_GLOBAL) >= 0, "complete a file");
    const ssize_t size = hdf5_.file_image(file_, nullptr, 0);
    void* memory = nullptr;  // where the driver keeps the address of its bytes
    Check(size > 0 && hdf5_.file_handle(file_, H5P_DEFAULT, &memory) >= 0 && memory != nullptr, "complete a file");
    return {*static_cast<const std::byte* const*>(memory), static_cast<size_t>(size)};
  }

  const Hdf5Library& library() const { return hdf5_; }

 private:
  Handle Checked(hid_t id, herr_t (*close)(hid_t), std::string_view action) const {
    Check(id >= 0, action);
    return {id, close};
  }

  void Check(bool done, std::string_view action) const {
    if (done) return;
    std::string reason;
    hdf5_.error_walk(H5E_DEFAULT, H5E_WALK_UPWARD, FirstReason, &reason);
    Fail("{}: libhdf5 {} cannot {}: {}", where_, hdf5_.version, action, reason.empty() ? "no reason given" : reason);
  }

  static herr_t FirstReason(unsigned, const H5E_error2_t* error, void* reason) {
    std::string& text = *static_cast<std::string*>(reason);
    if (text.empty() && error->desc != nullptr) text = error->desc;
    return 0;
  }

  void AddAttribute(hid_t dataset, const std::string& name, const Attribute& value) const {
    const Handle space = Checked(hdf5_.space_create(H5S_SCALAR), hdf5_.space_close, "make a scalar");
    const Handle list = Checked(hdf5_.list_create(hdf5_.attribute_list), hdf5_.list_close, "make a list of properties");
    Check(hdf5_.set_char_encoding(list, H5T_CSET_UTF8) >= 0, "choose UTF-8");
    // As h5py writes a str: of variable length, in UTF-8.
    const Handle text = Checked(hdf5_.type_copy(hdf5_.string), hdf5_.type_close, "make a type");
    Check(hdf5_.type_set_size(text, H5T_VARIABLE) >= 0 && hdf5_.type_set_cset(text, H5T_CSET_UTF8) >= 0,
          "choose UTF-8");
    const hid_t type = std::holds_alternative<int64_t>(value)  ? hdf5_.i64
                       : std::holds_alternative<double>(value) ? hdf5_.f64
                                                               : static_cast<hid_t>(text);
    const Handle attribute = Checked(hdf5_.attribute_create(dataset, name.c_str(), type, space, list, H5P_DEFAULT),
                                     hdf5_.attribute_close, "make an attribute");
    const auto write = [&](const void* data) {
      Check(hdf5_.attribute_write(attribute, type, data) >= 0, "write an attribute");
    };
    if (const auto* const string = std::get_if<std::string>(&value)) {
      Require(string->find('\0') == std::string::npos && name.find('\0') == std::string::npos,
              "{}: the attribute {} has a zero byte, which HDF5 takes for the end", where_, name);
      const char* const data = string->c_str();
      write(&data);
    } else {
      std::visit([&](const auto& number) { write(&number); }, value);
    }
  }

  const std::string& where_;
  const Hdf5Library& hdf5_;
  const std::lock_guard<std::mutex> held_;
  hid_t file_ = -1;
};

// Coordinates, and features unless they are null.
void WriteHdf5(const std::filesystem::path& path, const Tensor<float>* features, const Attributes& feature_attributes,
               std::span<const std::array<int64_t, 2>> coords, const Attributes& coord_attributes) {
  const std::string where = path.string();
  // Beside the rows, libhdf5 keeps a tree over their chunks: some 150 bytes each while it is made.
  constexpr double kTree = 150;
  double bytes = (kTree + 16) * static_cast<double>(coords.size());
  if (features != nullptr) {
    bytes += kTree * static_cast<double>(features->dim(0)) + sizeof(float) * static_cast<double>(features->size());
  }
  RequireMemory(bytes, where);
  Hdf5Writer writer(where, static_cast<size_t>(bytes));
  const Hdf5Library& hdf5 = writer.library();
  if (features != nullptr) {
    writer.AddDataset("features", hdf5.f32, std::as_bytes(features->span()), features->dim(0), features->dim(1),
                      feature_attributes);
  }
  writer.AddDataset("coords", hdf5.i64, std::as_bytes(coords), static_cast<int64_t>(coords.size()), 2,
                    coord_attributes);
  const std::span<const std::byte> image = writer.Finish();
  // A full disk is met here, not by libhdf5, which cannot close a file whose last bytes do not fit.
  WriteFile(path, [&](FileSink& sink) { sink.Write(image); });
}

}  // namespace
#else
namespace {
void WriteHdf5(const std::filesystem::path& path, const Tensor<float>*, const Attributes&,
               std::span<const std::array<int64_t, 2>>, const Attributes&) {
  Fail("{}: this qkv was built without HDF5: build it again with libhdf5-dev (Debian, Ubuntu; Fedora: hdf5-devel)",
       path.string());
}
}  // namespace
#endif

void WriteFeatureFile(const std::filesystem::path& path, const FeatureFile& file) {
  Require(file.features.rank() == 2 && file.features.dim(1) > 0, "{}: expected features [rows, D], got {}",
          path.string(), file.features.shape());
  WriteHdf5(path, &file.features, file.feature_attributes, file.coords, file.coord_attributes);
}

void WriteCoords(const std::filesystem::path& path, std::span<const std::array<int64_t, 2>> coords,
                 const Attributes& attributes) {
  WriteHdf5(path, nullptr, {}, coords, attributes);
}

}  // namespace qkv::slide
