#include "qkv/io/npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/file.h"

namespace qkv::io {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kPrefixBytes = kMagic.size() + 2;  // and the header's length, 16 bits
constexpr size_t kDataAlignment = 64;               // as NumPy pads

template <typename T>
constexpr std::string_view TypeName() {
  return std::is_same_v<T, float> ? "<f4" : "<f8";
}

std::string MakeHeader(std::string_view type, const Shape& shape) {
  std::string extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    // As Python prints a tuple: a single element is followed by a comma.
    extents += fmt::format("{}{}", axis == 0 ? "" : ", ", shape[axis]);
  }
  if (shape.rank() == 1) extents += ',';
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, extents);
  const size_t used = kPrefixBytes + header.size() + 1;
  header.append((kDataAlignment - used % kDataAlignment) % kDataAlignment, ' ');
  return header + '\n';
}

// Copies the view's elements in C order.
template <typename T>
void Gather(View<const T> view, T** out) {
  if (view.rank() == 0) {
    *(*out)++ = *view.data();
  } else {
    for (int64_t i = 0; i < view.dim(0); ++i) Gather(view[i], out);
  }
}

// Returns the text after 'key': in the header's dictionary.
std::string_view HeaderValue(std::string_view header, std::string_view key, std::string_view where) {
  const size_t at = header.find(fmt::format("'{}':", key));
  Require(at != header.npos, "{}: the header has no {}", where, key);
  std::string_view value = header.substr(at + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

Shape ParseShape(std::string_view text, std::string_view where) {
  Require(text.starts_with('(') && text.find(')') != text.npos, "{}: the header's shape is no tuple", where);
  text = text.substr(1, text.find(')') - 1);
  std::vector<int64_t> extents;
  while (text.find_first_not_of(' ') != text.npos) {
    text.remove_prefix(text.find_first_not_of(' '));
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    Require(error == std::errc() && extent >= 0 && (text.empty() || text.front() == ','),
            "{}: the header's shape has an extent that is no size", where);
    if (!text.empty()) text.remove_prefix(1);
    extents.push_back(extent);
  }
  try {
    return Shape(extents);
  } catch (const Error& error) {
    Fail("{}: {}", where, EscapedText{error.what()});
  }
}

// The content of a file.
struct NpyArray {
  std::string_view type;       // as the header has it, quoted
  std::optional<DType> dtype;  // of the types that are read here
  Shape shape;
  std::span<const std::byte> bytes;  // of the elements
};

// Throws Error unless the file is complete and in C order; of an element of unknown size, its bytes are not counted.
NpyArray ParseNpy(std::span<const std::byte> file, std::string_view where) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  Require(bytes.size() >= kPrefixBytes && bytes.starts_with(kMagic), "{}: no .npy file of version 1.0", where);
  const size_t header_bytes =
      static_cast<uint8_t>(bytes[kMagic.size()]) | size_t{static_cast<uint8_t>(bytes[kMagic.size() + 1])} << 8;
  Require(bytes.size() - kPrefixBytes >= header_bytes, "{}: the header is cut off", where);
  const std::string_view header = bytes.substr(kPrefixBytes, header_bytes);
  NpyArray array{.type = HeaderValue(header, "descr", where).substr(0, 5)};
  for (const DType dtype : {DType::kF16, DType::kF32, DType::kF64}) {
    if (array.type == fmt::format("'<f{}'", ElementSize(dtype))) array.dtype = dtype;
  }
  if (!array.dtype) return array;
  Require(HeaderValue(header, "fortran_order", where).starts_with("False"), "{}: in Fortran order, expected C order",
          where);
  array.shape = ParseShape(HeaderValue(header, "shape", where), where);
  array.bytes = file.subspan(kPrefixBytes + header_bytes);
  const size_t size = ElementSize(*array.dtype);
  Require(array.bytes.size() % size == 0 && array.bytes.size() / size == static_cast<size_t>(array.shape.size()),
          "{}: {} bytes of data for {} of {}", where, array.bytes.size(), array.shape, array.type);
  return array;
}

void AddNpy(std::span<const std::byte> bytes, std::string_view where, const TensorFile* file, TensorSet* set) {
  const NpyArray found = ParseNpy(bytes, where);
  Require(found.dtype.has_value(), "{}: elements of type {}, expected '<f2', '<f4' or '<f8'", where, found.type);
  set->Add({"", *found.dtype, found.shape, found.bytes, file});
  set->Finish(where);
}

}  // namespace

template <typename T>
void WriteNpy(FileSink& sink, View<const T> array) {
  const std::string header = MakeHeader(TypeName<T>(), array.shape());
  std::string prefix(kMagic);
  prefix += static_cast<char>(header.size() & 0xFF);
  prefix += static_cast<char>(header.size() >> 8);
  Tensor<T> copy;
  const T* data = array.data();
  if (!array.dense()) {
    copy = Tensor<T>::Uninitialised(array.shape());
    T* out = copy.data();
    Gather(array, &out);
    data = copy.data();
  }
  sink.Write(prefix + header);
  sink.Write(std::as_bytes(std::span(data, static_cast<size_t>(array.size()))));
}

template <typename T>
void WriteNpy(const std::filesystem::path& path, View<const T> array) {
  WriteFile(path, [&](FileSink& sink) { WriteNpy(sink, array); });
}

template <typename T>
Tensor<T> ReadNpy(const std::filesystem::path& path) {
  const std::string where = path.string();
  const MappedFile file(path);
  const NpyArray found = ParseNpy(file.bytes(), where);
  Require(found.dtype == DTypeFor<T>(), "{}: elements of type {}, expected '{}'", where, found.type, TypeName<T>());
  auto array = Tensor<T>::Uninitialised(found.shape);
  if (!found.bytes.empty()) std::memcpy(array.data(), found.bytes.data(), found.bytes.size());
  file.RequireUnchanged(where);
  return array;
}

TensorSet MapNpy(const std::filesystem::path& path) {
  TensorSet set;
  const TensorFile& file = set.Map(path);
  AddNpy(file.mapped.bytes(), path.native(), &file, &set);
  return set;
}

TensorSet NpyFromBytes(std::span<const std::byte> bytes, std::string_view where) {
  TensorSet set;
  AddNpy(bytes, where, nullptr, &set);
  return set;
}

template void WriteNpy(FileSink&, View<const float>);
template void WriteNpy(FileSink&, View<const double>);
template void WriteNpy(const std::filesystem::path&, View<const float>);
template void WriteNpy(const std::filesystem::path&, View<const double>);
template Tensor<float> ReadNpy(const std::filesystem::path&);
template Tensor<double> ReadNpy(const std::filesystem::path&);

}  // namespace qkv::io
