#include "qkv/io/torch_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/io/json.h"
#include "qkv/io/little_endian.h"
#include "qkv/io/pickle.h"

namespace qkv::io {
namespace {

// The old format begins with this number, pickled.
constexpr std::string_view kMagicBytes = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
                           kMagicDigits = "119547037146038801333356";
constexpr int64_t kOldProtocol = 1001;
// Tied weights and layers of the same weights make the tensors larger than the file, in practice up to 24 times.
constexpr uint64_t kMostExpansion = 64, kMinTotal = uint64_t{1} << 20;

// Keys of dictionaries, in the order in which they are preferred; the first four as timm does.
constexpr std::string_view kPreferred[] = {"state_dict_ema",
                                           "model_ema",
                                           "state_dict_emas",
                                           "ema_state_dict",
                                           "ema_model",
                                           "params_ema",
                                           "ema",
                                           "state_dict",
                                           "model_state_dict",
                                           "model",
                                           "model_state",
                                           "module",
                                           "params",
                                           "teacher",
                                           "student",
                                           "net",
                                           "network",
                                           "backbone",
                                           "encoder",
                                           "weights"};

size_t Rank(const TorchDictionary& dictionary) {
  const std::string_view first = std::string_view(dictionary.path).substr(0, dictionary.path.find('.'));
  return static_cast<size_t>(std::ranges::find(kPreferred, first) - std::begin(kPreferred));
}

std::string_view Shown(const TorchDictionary& dictionary) {
  return dictionary.path == "." ? std::string_view("the top level") : std::string_view(dictionary.path);
}

// The entry NAME/data.pkl with the fewest folders.
const ZipEntry* FindPickle(std::span<const ZipEntry> entries) {
  constexpr std::string_view kName = "data.pkl";
  const ZipEntry* found = nullptr;
  const auto depth = [](const ZipEntry& entry) { return std::ranges::count(entry.name, '/'); };
  for (const ZipEntry& entry : entries) {
    const bool named = entry.name == kName || entry.name.ends_with("/data.pkl");
    if (named && (found == nullptr || depth(entry) < depth(*found))) found = &entry;
  }
  return found;
}

// Throws an Error that says what an archive without weights is.
[[noreturn]] void RefuseArchive(std::span<const ZipEntry> entries, std::string_view where) {
  for (const ZipEntry& entry : entries) {
    const std::string_view name = entry.name;
    Require(!name.ends_with(".npy"), "{}: an archive of NumPy arrays (.npz), expected a file by torch.save", where);
    Require(name != "config.json" && !name.ends_with(".h5"), "{}: a Keras model, expected PyTorch or safetensors",
            where);
    Require(name.find("serialized_exported_program") == name.npos && !name.ends_with("archive_format"),
            "{}: a program by torch.export; in Python save the weights alone: "
            "torch.save(torch.export.load(FILE).state_dict, OUT)",
            where);
    Require(!name.ends_with(".bin") && !name.ends_with(".pth") && !name.ends_with(".safetensors"),
            "{}: an archive that contains {}; unpack it first", where, Quoted(name));
  }
  Fail("{}: a zip archive without data.pkl: torch.save did not write it", where);
}

bool IsContiguous(const TorchTensor& tensor) {
  int64_t expected = 1;
  for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis) {
    const int64_t extent = tensor.shape[axis];
    if (extent != 1 && tensor.strides[axis] != expected) return false;
    expected *= extent;
  }
  return true;
}

// Copies a view element by element, in row-major order, and reverses the bytes of big-endian elements.
std::vector<std::byte> CopyView(const TorchTensor& tensor, std::span<const std::byte> storage, bool reverse) {
  const size_t element = ElementSize(tensor.dtype);
  std::vector<std::byte> copy(tensor.bytes());
  const int rank = tensor.shape.rank();
  const int64_t row = rank > 0 ? tensor.shape[rank - 1] : 1, stride = rank > 0 ? tensor.strides[rank - 1] : 1;
  std::array<int64_t, Shape::kMaxRank> index{};
  std::byte* to = copy.data();
  for (int64_t rows = tensor.shape.size() / std::max<int64_t>(row, 1); rows > 0; --rows) {
    uint64_t at = tensor.offset;
    for (int axis = 0; axis + 1 < rank; ++axis) at += static_cast<uint64_t>(index[axis] * tensor.strides[axis]);
    const std::byte* from = storage.data() + at * element;
    for (int64_t i = 0; i < row; ++i, to += element, from += static_cast<size_t>(stride) * element) {
      std::memcpy(to, from, element);
      if (reverse) std::reverse(to, to + element);
    }
    for (int axis = rank - 2; axis >= 0 && ++index[axis] == tensor.shape[axis]; --axis) index[axis] = 0;
  }
  return copy;
}

bool IsMagic(PickleValue value) {
  return value.is(PickleKind::kLong) && (value.text() == kMagicBytes || value.text() == kMagicDigits);
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool IsTorchFile(std::span<const std::byte> bytes) {
  // Protocol 2 and above; 0 and 1 begin with the magic number itself.
  const std::string_view text = AsText(bytes);
  const bool pickle = text.size() >= 2 && text[0] == '\x80' && text[1] >= 1 && text[1] <= 5;
  return IsZip(bytes) || pickle || text.starts_with(fmt::format("L{}", kMagicDigits));
}

TorchFile TorchFile::FromBytes(std::span<const std::byte> bytes, std::string_view where) {
  TorchFile file;
  file.where_ = where;
  file.file_bytes_ = bytes.size();
  IsZip(bytes) ? file.ReadZip(bytes) : file.ReadOld(bytes);
  return file;
}

void TorchFile::SetContents(TorchContents contents) {
  if (contents.dictionaries.empty()) {
    std::string calls;
    for (const std::string& name : contents.unknown) calls += (calls.empty() ? "" : ", ") + name;
    Require(calls.empty(),
            "{}: no tensors are found without running code: {}. qkv runs none; in Python save the weights alone: "
            "torch.save(model.state_dict(), OUT)",
            where_, calls);
    Fail("{}: it has no dictionary of named tensors; in Python save one: torch.save(model.state_dict(), OUT)", where_);
  }
  dictionaries_ = std::move(contents.dictionaries);
  training_ = std::move(contents.training);
  expected_ = std::move(contents.storages);
  storages_.resize(expected_.size());
}

void TorchFile::ReadZip(std::span<const std::byte> bytes) {
  entries_ = ListZip(bytes, where_);
  const ZipEntry* const data = FindPickle(entries_);
  if (data == nullptr) RefuseArchive(entries_, where_);
  const std::string folder = data->name.substr(0, data->name.size() - std::string_view("data.pkl").size());
  Require(FindEntry(entries_, folder + "constants.pkl") == nullptr,
          "{}: a TorchScript program, which is code; in Python save the weights alone: "
          "torch.save(torch.jit.load(FILE).state_dict(), OUT)",
          where_);
  std::vector<std::byte> unpacked;
  if (data->deflated) {
    RequireExpansion(data->size);
    unpacked = Unpack(*data, where_);
  } else if (data->has_checksum()) {
    StoredChecksum(data->bytes, data->crc, NameEntry(*data)).RequireIntact();
  }
  size_t used = 0;
  const Pickle pickle =
      Pickle::Read(data->deflated ? std::span<const std::byte>(unpacked) : data->bytes, where_, &used);
  SetContents(ReadTorchContents(pickle, where_));

  if (const ZipEntry* order = FindEntry(entries_, folder + "byteorder"); order != nullptr && !order->deflated) {
    const std::string_view text = AsText(order->bytes);
    Require(text == "little" || text == "big", "{}: byteorder is {}, expected little or big", where_, Quoted(text));
    big_endian_ = text == "big";
  }
  for (size_t i = 0; i < expected_.size(); ++i) {
    const ZipEntry* entry = FindEntry(entries_, fmt::format("{}data/{}", folder, expected_[i].key));
    Require(entry != nullptr, "{}: storage {} is missing from the archive", where_, Quoted(expected_[i].key));
    storages_[i] = {entry->deflated ? std::span<const std::byte>() : entry->bytes, entry, entry->size};
  }
}

// Four pickles (magic number, protocol, facts about the machine, the object), the list of storages, and each of them:
// its number of elements in 8 bytes, and the elements.
void TorchFile::ReadOld(std::span<const std::byte> bytes) {
  size_t at = 0;
  const auto next = [&] {
    size_t used = 0;
    Pickle pickle = Pickle::Read(bytes.subspan(at), where_, &used);
    at += used;
    return pickle;
  };
  Require(IsMagic(next().root()),
          "{}: a pickle that torch.save did not write; in Python save the tensors: torch.save(tensors, OUT)", where_);
  const PickleValue protocol = next().root();
  Require(protocol.is(PickleKind::kInt) && protocol.integer == kOldProtocol,
          "{}: an unknown version of PyTorch's old format, expected {}", where_, kOldProtocol);
  next();
  SetContents(ReadTorchContents(next(), where_));

  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < expected_.size(); ++i) index.emplace(expected_[i].key, i);
  const Pickle keys = next();
  Require(keys.root().is(PickleKind::kList), "{}: it has no list of storages", where_);
  for (const PickleValue key : keys.items(keys.root())) {
    const auto found = key.is(PickleKind::kString) ? index.find(key.text()) : index.end();
    // The size of an element, and so the place of all later storages, is in the pickle alone.
    Require(found != index.end(),
            "{}: it has a storage that none of the tensors that qkv reads lies in; in Python "
            "save the weights alone: torch.save(model.state_dict(), OUT)",
            where_);
    Require(bytes.size() - at >= sizeof(uint64_t), "{}: the file is cut off; download or copy it again", where_);
    const uint64_t elements = LittleEndian<uint64_t>(bytes, at);
    at += sizeof(uint64_t);
    const TorchStorage& expected = expected_[found->second];
    Require(elements <= (bytes.size() - at) / expected.element,
            "{}: storage {} has {} elements, but the file is cut off; download or copy it again", where_,
            Quoted(expected.key), elements);
    const uint64_t size = elements * expected.element;
    storages_[found->second] = {bytes.subspan(at, size), nullptr, size};
    at += size;
  }
}

void TorchFile::RequireExpansion(uint64_t bytes) const {
  Require(
      bytes <= std::max(kMinTotal, kMostExpansion * uint64_t{file_bytes_}),
      "{}: its tensors are more than {} times as large as the file, which has {} bytes: views that repeat elements, "
      "or compression; in Python save them with .contiguous()",
      where_, kMostExpansion, file_bytes_);
}

const TorchDictionary& TorchFile::Choose(std::string_view path) const {
  if (path.empty()) {
    const auto worse = [](const TorchDictionary& a, const TorchDictionary& b) {
      return Rank(a) != Rank(b) ? Rank(a) > Rank(b) : a.bytes() < b.bytes();
    };
    return *std::ranges::max_element(dictionaries_, worse);
  }
  const auto found = std::ranges::find(dictionaries_, path, &TorchDictionary::path);
  if (found != dictionaries_.end()) return *found;
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(dictionaries_.size(), 10); ++i) {
    names += fmt::format("{}{} ({} tensors)", i > 0 ? ", " : "", Quoted(dictionaries_[i].path),
                         dictionaries_[i].tensors.size());
  }
  Fail("{}: it has no dictionary {} with tensors; expected one of {}", where_, Quoted(path), names);
}

std::string TorchFile::DescribeChoice(const TorchDictionary& chosen) const {
  std::string text, left_out;
  for (const TorchDictionary& other : dictionaries_) {
    if (&other == &chosen || 2 * other.tensors.size() < chosen.tensors.size() || text.size() > 500) continue;
    text +=
        fmt::format("{}{} ({} tensors)", text.empty() ? "" : ", ", Printable(Shown(other), 100), other.tensors.size());
  }
  if (!text.empty()) {
    text = fmt::format("the weights are those of {} ({} tensors); the file also has {}", Printable(Shown(chosen), 100),
                       chosen.tensors.size(), text);
  }
  for (size_t i = 0; i < std::min<size_t>(chosen.left_out.size(), 5); ++i) {
    left_out += (i > 0 ? ", " : "") + Printable(chosen.left_out[i], 100);
  }
  // At the top level other values are expected: the epoch, the configuration.
  if (left_out.empty() || chosen.path == ".") return text;
  return fmt::format("{}{}{} hold{} no tensor and {} left out", text, text.empty() ? "" : "; ", left_out,
                     chosen.left_out.size() > 1 ? "" : "s", chosen.left_out.size() > 1 ? "are" : "is");
}

std::string TorchFile::NameEntry(const ZipEntry& entry) const {
  return fmt::format("{}: entry {}", Printable(where_), Quoted(entry.name));
}

void TorchFile::RequireView(const TorchTensor& tensor, const Storage& storage) const {
  const size_t element = ElementSize(tensor.dtype);
  const TorchStorage& expected = expected_[tensor.storage];
  uint64_t size = 0;
  const bool overflow = __builtin_mul_overflow(expected.elements, expected.element, &size);
  Require(!overflow && size <= storage.size, "{}: storage {} has {} bytes, expected {} elements of {}", where_,
          Quoted(expected.key), storage.size, expected.elements, expected.element);
  if (tensor.shape.size() == 0) return;
  uint64_t last = tensor.offset;
  bool outside = false;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    uint64_t step = 0;
    outside |= __builtin_mul_overflow(static_cast<uint64_t>(tensor.shape[axis] - 1),
                                      static_cast<uint64_t>(tensor.strides[axis]), &step);
    outside |= __builtin_add_overflow(last, step, &last);
  }
  Require(!outside && last < size / element, "{}: tensor {} of shape {} reaches outside of its storage of {} bytes",
          where_, Quoted(tensor.name), tensor.shape, size);
}

void TorchFile::AddTensors(const TorchDictionary& dictionary, const TensorFile* file, TensorSet* set) const {
  // Everything is checked before anything is copied.
  uint64_t total = 0, copied = 0, packed = 0;
  std::map<size_t, std::span<const std::byte>> unpacked;
  std::map<size_t, const StoredChecksum*> checksums;
  for (const TorchTensor& tensor : dictionary.tensors) {
    Require(tensor.obstacle.empty(), "{}: tensor {} {}", where_, Quoted(tensor.name), tensor.obstacle);
    const Storage& storage = storages_[tensor.storage];
    RequireView(tensor, storage);
    uint64_t bytes = 0;
    const bool overflow =
        __builtin_mul_overflow(static_cast<uint64_t>(tensor.shape.size()), ElementSize(tensor.dtype), &bytes) ||
        __builtin_add_overflow(total, bytes, &total);
    RequireExpansion(overflow ? std::numeric_limits<uint64_t>::max() : total);
    if (big_endian_ || !IsContiguous(tensor)) copied += bytes;
    if (storage.deflated() && unpacked.try_emplace(tensor.storage).second) {
      RequireExpansion(packed += storage.size);
    }
  }
  RequireMemory(static_cast<double>(copied + packed), fmt::format("{}: copies of its tensors", Printable(where_)));

  for (const TorchTensor& tensor : dictionary.tensors) {
    const Storage& storage = storages_[tensor.storage];
    std::span<const std::byte> bytes = storage.bytes;
    const StoredChecksum* checksum = nullptr;
    if (storage.deflated()) {
      std::span<const std::byte>& kept = unpacked.at(tensor.storage);
      if (kept.empty() && storage.size > 0) kept = set->Keep(Unpack(*storage.entry, where_));
      bytes = kept;
    } else if (storage.entry != nullptr && storage.entry->has_checksum()) {
      const StoredChecksum*& kept = checksums[tensor.storage];
      if (kept == nullptr) kept = set->Keep(storage.bytes, storage.entry->crc, NameEntry(*storage.entry));
      checksum = kept;
    }
    const bool reverse = big_endian_ && ElementSize(tensor.dtype) > 1;
    const bool mapped = !storage.deflated() && !reverse && IsContiguous(tensor);
    if (tensor.shape.size() == 0) {
      bytes = {};
    } else if (!reverse && IsContiguous(tensor)) {
      bytes = bytes.subspan(tensor.offset * ElementSize(tensor.dtype), tensor.bytes());
    } else {
      if (checksum != nullptr) checksum->RequireIntact();
      bytes = set->Keep(CopyView(tensor, bytes, reverse));
    }
    set->Add({tensor.name, tensor.dtype, tensor.shape, bytes, mapped ? file : nullptr, mapped ? checksum : nullptr});
  }
}

}  // namespace qkv::io
