#include "qkv/io/weights.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/io/json.h"
#include "qkv/io/little_endian.h"
#include "qkv/io/safetensors.h"
#include "qkv/io/torch_file.h"

namespace qkv::io {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;  // NOLINT: for the zero bytes in ""sv

constexpr const char* kWeightFiles[] = {"model.safetensors",           "model.safetensors.index.json",
                                        "pytorch_model.bin",           "pytorch_model.bin.index.json",
                                        "open_clip_model.safetensors", "open_clip_pytorch_model.bin"};
constexpr const char* kRunFiles[] = {"model_best.pth.tar", "last.pth.tar"};
constexpr size_t kMostShown = 8;        // names in a message
constexpr size_t kMostLooked = 10'000;  // entries of a folder

std::string_view FirstBytes(std::span<const std::byte> bytes, size_t count) {
  return {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), count)};
}

bool IsSafeTensors(std::span<const std::byte> bytes) {
  return bytes.size() > kLengthBytes && LittleEndian<uint64_t>(bytes, 0) <= kMaxHeaderBytes &&
         bytes[kLengthBytes] == std::byte{'{'};
}

// Describes a file without weights, and what to do; empty if it is not recognised.
std::string_view KnownMistake(std::span<const std::byte> bytes) {
  constexpr size_t kLooked = 512;
  std::string_view text = FirstBytes(bytes, kLooked);
  if (text.empty()) return "the file is empty: its download or copy did not finish";
  if (text.starts_with("version https://git-lfs")) {
    return "a pointer of Git LFS, not the weights themselves: run `git lfs pull` in its folder";
  }
  static constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {
      {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file (Keras or TensorFlow), expected PyTorch or safetensors"},
      {"GGUF"sv, "a GGUF file (llama.cpp), expected PyTorch or safetensors"},
      {"\x1f\x8b"sv, "compressed by gzip; unpack it first"},
      {"\xfd"
       "7zXZ"sv,
       "compressed by xz; unpack it first"},
      {"7z\xbc\xaf"sv, "a 7-Zip archive; unpack it first"},
      {"\x93NUMPY"sv, "a NumPy array (.npy), expected PyTorch or safetensors"},
      {"\x89PNG"sv, "an image, expected weights"},
      {"\xff\xd8\xff"sv, "an image, expected weights"},
      {"\x08\x01\x12"sv, "a model of TensorFlow (SavedModel), expected PyTorch or safetensors"}};
  for (const auto& [beginning, what] : kBeginnings) {
    if (text.starts_with(beginning)) return what;
  }
  if (text.substr(0, 8).ends_with("TFL3")) return "a TensorFlow Lite model, expected PyTorch or safetensors";
  if (text.size() > 262 && text.substr(257).starts_with("ustar")) {
    return "a tar archive: unpack it; if PyTorch before 0.1.10 wrote it, load it there and save it again";
  }
  // The table of a TensorFlow checkpoint ends with this number.
  constexpr uint64_t kTableMagic = 0xdb4775248b80fb57;
  if (bytes.size() >= 48 && LittleEndian<uint64_t>(bytes, bytes.size() - 8) == kTableMagic) {
    return "the index of a TensorFlow checkpoint, expected PyTorch or safetensors";
  }
  // ONNX is a protobuf whose first field is its version, followed by the producer ("pytorch") or the graph.
  if (text.size() > 3 && text[0] == 8 && text[1] > 0 && text[1] < 32 && (text[2] == 0x12 || text[2] == 0x3a)) {
    return "an ONNX model, which is a graph of operations; expected the checkpoint that it was exported from";
  }
  const size_t begin = text.find_first_not_of(" \t\r\n");
  text.remove_prefix(std::min(begin, text.size()));
  for (const std::string_view page : {"<!DOCTYPE"sv, "<!doctype"sv, "<html"sv, "<HTML"sv, "<?xml"sv}) {
    if (text.starts_with(page)) {
      return "a web page, not the weights: download the file itself (on Hugging Face by /resolve/ instead of /blob/)";
    }
  }
  if (text.starts_with('{')) return "JSON, expected weights";
  return {};
}

void AddBytes(std::span<const std::byte> bytes, std::string_view where, const TensorFile* file,
              const WeightOptions& options, TensorSet* set) {
  // A safetensors file may begin as a pickle does: the length of its header is any number.
  const bool safetensors = IsSafeTensors(bytes);
  if (!safetensors && IsTorchFile(bytes)) {
    const TorchFile torch = TorchFile::FromBytes(bytes, where);
    const TorchDictionary& chosen = torch.Choose(options.state_dict);
    torch.AddTensors(chosen, file, set);
    set->AddMetadata({{"format", "pt"}});
    if (!torch.training().empty()) set->AddMetadata({{kTrainingKey, torch.training()}});
    if (std::string remark = torch.DescribeChoice(chosen); !remark.empty()) set->AddRemark(std::move(remark));
    return;
  }
  if (!safetensors) {
    const std::string_view mistake = KnownMistake(bytes);
    Require(mistake.empty(), "{}: {}", where, mistake);
    Require(where.ends_with(".safetensors"), "{}: not recognised, expected weights by safetensors or torch.save",
            where);
  }
  Require(options.state_dict.empty(), "{}: a safetensors file has no dictionary {}, only tensors", where,
          Quoted(options.state_dict));
  SafeTensors::AddBytes(bytes, where, file, set);
}

// Names of entries for which `wanted` holds, a few, with commas.
template <typename Wanted>
std::string ListEntries(const fs::path& folder, const Wanted& wanted) {
  std::vector<std::string> names;
  std::error_code error;
  size_t looked = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end && looked < kMostLooked;
       entry.increment(error), ++looked) {
    if (wanted(entry->path())) names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostShown); ++i) text += (i > 0 ? ", " : "") + Printable(names[i]);
  return text + (names.size() > kMostShown ? ", …" : "");
}

bool HasEnding(const fs::path& path, std::initializer_list<std::string_view> endings) {
  const std::string name = path.filename().string();
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Throws an Error that lists the folder's content.
[[noreturn]] void RefuseFolder(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "adapter_config.json", ignored)) {
    Fail(
        "{}: an adapter alone (adapter_config.json, as PEFT writes it for LoRA): merge it with its base model "
        "(merge_and_unload of PEFT), save that, and pass its folder",
        EscapedText{Printable(folder.string())});
  }
  const std::string none = fmt::format("{}: neither {} nor {}, {} or {} is there", Printable(folder.string()),
                                       kWeightFiles[0], kWeightFiles[1], kWeightFiles[2], kWeightFiles[3]);
  const std::string files = ListEntries(folder, [&](const fs::path& path) {
    return HasEnding(path, {".safetensors", ".bin", ".pth", ".pt", ".ckpt", ".pth.tar"}) &&
           fs::is_regular_file(path, ignored);
  });
  if (!files.empty()) Fail("{}; pass the file that is meant: {}", EscapedText{none}, EscapedText{files});
  const std::string models = ListEntries(folder, [&](const fs::path& path) {
    return fs::is_directory(path, ignored) &&
           std::ranges::any_of(kWeightFiles, [&](const char* name) { return fs::exists(path / name, ignored); });
  });
  if (!models.empty())
    Fail("{}; its subfolders hold models, pass one of them: {}", EscapedText{none}, EscapedText{models});
  const std::string others = ListEntries(folder, [](const fs::path& path) {
    return HasEnding(path, {".h5", ".onnx", ".msgpack", ".index", ".pb", ".tflite", ".gguf", ".keras", ".npz"});
  });
  if (!others.empty()) {
    Fail("{}; qkv does not read {}: download the model's PyTorch or safetensors weights", EscapedText{none},
         EscapedText{others});
  }
  Fail("{}", EscapedText{none});
}

}  // namespace

std::span<const char* const> WeightFileNames() { return kWeightFiles; }
std::span<const char* const> RunFileNames() { return kRunFiles; }

TensorSet ReadWeights(std::span<const std::byte> bytes, std::string_view where, const WeightOptions& options) {
  TensorSet set;
  AddBytes(bytes, where, nullptr, options, &set);
  set.Finish(where);
  return set;
}

TensorSet OpenWeights(const fs::path& path, const WeightOptions& options) {
  fs::path file = path;
  TensorSet set;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const auto is_there = [&](const char* name) { return FileExists(path / name); };
    if (const auto found = std::ranges::find_if(kWeightFiles, is_there); found != std::end(kWeightFiles)) {
      file = path / *found;
    } else if (const auto run = std::ranges::find_if(kRunFiles, is_there); run != std::end(kRunFiles)) {
      file = path / *run;
      set.AddRemark(fmt::format("of the training run's files {} is read", *run));
    } else {
      RefuseFolder(path);
    }
  }
  const auto add = [&options](const fs::path& name, TensorSet* to) {
    const TensorFile& mapped = to->Map(name);
    AddBytes(mapped.mapped.bytes(), name.string(), &mapped, options, to);
    mapped.RequireUnchanged();
  };
  if (file.string().ends_with(".index.json")) {
    ReadShards(file, &set, add);
  } else {
    add(file, &set);
    set.Finish(file.string());
  }
  return set;
}

}  // namespace qkv::io
