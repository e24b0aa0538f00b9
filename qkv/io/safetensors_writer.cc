// The writer. Output is byte-identical to the original library's for the same tensors and at most one metadata entry
// (for more, the original's order is not fixed).
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "qkv/core/error.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"

namespace qkv::io {
namespace {

constexpr size_t kHeaderAlignment = 8;  // the data begin at a multiple of the widest type

// Quotes a JSON string. Throws Error if it is not UTF-8.
std::string ToJson(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception& error) {
    Fail("write safetensors: {} is not valid UTF-8", Quoted(text));
  }
}

// `before` bytes precede the header in the file; together they end at a multiple of `alignment`.
std::string MakeHeader(const std::vector<StoredTensor>& tensors, const std::map<std::string, std::string>& metadata,
                       size_t before, size_t alignment) {
  std::string header = "{";
  const auto separate = [&] {
    if (header.back() != '{') header += ',';
  };
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      separate();
      header += ToJson(key) + ':' + ToJson(value);
    }
    header += '}';
  }
  size_t begin = 0;
  for (const StoredTensor& tensor : tensors) {
    separate();
    header +=
        fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", ToJson(tensor.name),
                    Name(tensor.dtype), fmt::join(tensor.shape.extents(), ","), begin, begin + tensor.bytes.size());
    begin += tensor.bytes.size();
  }
  header += '}';
  header.resize((before + header.size() + alignment - 1) / alignment * alignment - before, ' ');
  return header;
}

}  // namespace

void WriteSafeTensors(const std::filesystem::path& path, std::vector<StoredTensor> tensors,
                      const std::map<std::string, std::string>& metadata, size_t alignment) {
  const auto odd = [&](const StoredTensor& tensor) { return alignment > 0 && tensor.bytes.size() % alignment != 0; };
  // DType is declared in ascending alignment, in the order of the original library.
  std::sort(tensors.begin(), tensors.end(), [&](const StoredTensor& a, const StoredTensor& b) {
    return std::tuple(odd(a), b.dtype, std::string_view(a.name)) <
           std::tuple(odd(b), a.dtype, std::string_view(b.name));
  });
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    Require(tensor.name != "__metadata__", "write safetensors: no tensor can be named {}", tensor.name);
    Require(tensor.bytes.size() == static_cast<size_t>(tensor.shape.size()) * ElementSize(tensor.dtype),
            "write safetensors: tensor {} has {} bytes for {} elements of {}", Quoted(tensor.name), tensor.bytes.size(),
            tensor.shape.size(), Name(tensor.dtype));
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) Fail("write safetensors: tensor {} appears twice", Quoted(*twin));

  const std::string header = MakeHeader(tensors, metadata, kLengthBytes, std::max(alignment, kHeaderAlignment));
  Require(header.size() <= kMaxHeaderBytes, "write safetensors: a header of {} bytes, at most {} are allowed",
          header.size(), kMaxHeaderBytes);
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  WriteFile(path, [&](FileSink& sink) {
    sink.Write(length + header);
    for (const StoredTensor& tensor : tensors) {
      sink.Write(tensor.bytes);
      tensor.RequireIntact();
    }
  });
}

template <typename T>
StoredTensor Stored(std::string name, View<const T> view) {
  Require(view.dense(), "store: the view of tensor {} is strided", Quoted(name));
  return {std::move(name), DTypeFor<T>(), view.shape(),
          std::as_bytes(std::span(view.data(), static_cast<size_t>(view.size())))};
}

template StoredTensor Stored(std::string, View<const float>);
template StoredTensor Stored(std::string, View<const double>);
template StoredTensor Stored(std::string, View<const Half>);
template StoredTensor Stored(std::string, View<const BFloat16>);
template StoredTensor Stored(std::string, View<const uint8_t>);
template StoredTensor Stored(std::string, View<const int64_t>);

}  // namespace qkv::io
