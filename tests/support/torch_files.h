// Writes PyTorch files of the old format, so that tests need no copies of their models.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/tensor_set.h"

namespace qkv {

/// Makes a file like torch.save(…, _use_new_zipfile_serialization=False) of {"NAME": state dict, …}, or of the one
/// state dict whose name is empty.
class TorchFileWriter {
 public:
  /// `prefix` comes before the names of all tensors, as a wrapper module puts it.
  void Add(std::string_view dictionary, const std::vector<io::StoredTensor>& tensors, std::string_view prefix = "") {
    std::string entries;
    for (const io::StoredTensor& tensor : tensors) entries += Text(std::string(prefix) + tensor.name) + Tensor(tensor);
    const std::string state = "ccollections\nOrderedDict\n)R(" + entries + "u";
    object_ = dictionary.empty() ? state : object_ + Text(dictionary) + state;
    is_plain_ = dictionary.empty();
  }

  /// One more entry beside the dictionaries: its name, and a value as Value and Namespace pickle it.
  void AddEntry(std::string_view name, const std::string& value) { object_ = object_ + Text(name) + value; }
  /// None, bool, number, text, or a list or dictionary of them, from JSON.
  static std::string Value(const io::Json& json) {
    if (json.is_null()) return "N";
    if (json.is_boolean()) return json.get<bool>() ? "\x88" : "\x89";
    if (json.is_number_integer()) return Int(json.get<int64_t>());
    if (json.is_number()) return fmt::format("F{}\n", json.get<double>());
    if (json.is_string()) return Text(json.get<std::string>());
    std::string items;
    for (const auto& [key, value] : json.items()) items += (json.is_object() ? Text(key) : "") + Value(value);
    return json.is_object() ? "}(" + items + "u" : "](" + items + "e";
  }
  /// argparse.Namespace with these attributes.
  static std::string Namespace(const io::Json& attributes) {
    return "cargparse\nNamespace\n)\x81" + Value(attributes) + "b";
  }

  void Write(const std::filesystem::path& path) const {
    std::string file = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    file += std::string("\x80\x02M\xe9\x03.");
    file += "\x80\x02}.";
    file += "\x80\x02" + (is_plain_ ? object_ : "}(" + object_ + "u") + ".";
    file += "\x80\x02](";
    for (size_t i = 0; i < storages_.size(); ++i) file += Text(std::to_string(i));
    file += "e.";
    for (const auto& [elements, bytes] : storages_) {
      file += Little(elements, 8);
      file += bytes;
    }
    WriteFile(path, file);
  }

 private:
  static std::string Little(uint64_t number, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xFF);
    return text;
  }
  static std::string Text(std::string_view text) { return "X" + Little(text.size(), 4) + std::string(text); }
  static std::string Int(int64_t number) { return "\x8a\x08" + Little(static_cast<uint64_t>(number), 8); }

  std::string Tensor(const io::StoredTensor& tensor) {
    static const std::map<DType, const char*> kTypes = {
        {DType::kF32, "Float"}, {DType::kF16, "Half"}, {DType::kBF16, "BFloat16"}, {DType::kF64, "Double"}};
    std::string sizes, strides;
    int64_t stride = 1;
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis) {
      sizes = Int(tensor.shape[axis]) + sizes;
      strides = Int(stride) + strides;
      stride *= tensor.shape[axis];
    }
    const std::string storage = "(" + Text("storage") + fmt::format("ctorch\n{}Storage\n", kTypes.at(tensor.dtype)) +
                                Text(std::to_string(storages_.size())) + Text("cpu") + Int(tensor.shape.size()) + "NtQ";
    storages_.emplace_back(tensor.shape.size(),
                           std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()));
    return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + Int(0) + "(" + sizes + "t(" + strides + "t\x89" +
           "ccollections\nOrderedDict\n)RtR";
  }

  std::string object_;
  bool is_plain_ = false;
  std::vector<std::pair<uint64_t, std::string>> storages_;
};

}  // namespace qkv
