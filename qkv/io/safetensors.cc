// The reader. The header is untrusted: it is parsed event by event, so that anything but a flat table of tensors is
// rejected at once, and every number is checked before use.
#include "qkv/io/safetensors.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/io/json.h"

namespace qkv::io {
namespace {

using namespace std::string_literals;  // NOLINT: for the zero byte in ""s

// Limit of tensors, and of metadata entries. The largest language models have about 100,000 tensors; a malicious header
// could have millions of empty ones.
constexpr size_t kMaxEntries = size_t{1} << 18;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr const char* kFileName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    if (Name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t begin = 0, end = 0;  // offsets in the data after the header
};

// SAX handler for {"__metadata__": {"…": "…"}, "NAME": {"dtype": "…", "shape": […], "data_offsets": […]}}.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(std::string_view where) : where_(where) {}

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTable;
        return true;
      case Place::kTable:
        if (key_ == kMetadataKey) {
          Require(!has_metadata_, "{}: {} appears twice", where_, kMetadataKey);
          has_metadata_ = true;
          place_ = Place::kMetadata;
        } else {
          Require(entries.size() < kMaxEntries, "{}: more than {} tensors", where_, kMaxEntries);
          entries.push_back({.name = key_});
          fields_.clear();
          place_ = Place::kEntry;
        }
        return true;
      default:
        Unexpected("an object");
    }
  }

  bool key(std::string& key) override {
    key_ = std::move(key);
    if (place_ == Place::kEntry) {
      Require(fields_.insert(key_).second, "{}: tensor {}: {} appears twice", where_, tensor(), Quoted(key_));
      Require(key_ == "dtype" || key_ == "shape" || key_ == "data_offsets", "{}: tensor {}: unknown field {}", where_,
              tensor(), Quoted(key_));
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        Require(fields_.contains(field), "{}: tensor {}: it has no {}", where_, tensor(), field);
      }
    }
    place_ = place_ == Place::kTable ? Place::kEnd : Place::kTable;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kEntry || key_ == "dtype") Unexpected("an array");
    place_ = Place::kNumbers;
    numbers_.clear();
    return true;
  }

  bool number_unsigned(uint64_t number) override {
    if (place_ != Place::kNumbers) Unexpected("a number");
    const size_t most = key_ == "shape" ? Shape::kMaxRank : 2;
    Require(numbers_.size() < most, "{}: tensor {}: {} has more than {} numbers", where_, tensor(), key_, most);
    numbers_.push_back(number);
    return true;
  }

  bool end_array() override {
    Entry& entry = entries.back();
    if (key_ == "shape") {
      entry.shape = ReadShape();
    } else {
      Require(numbers_.size() == 2 && numbers_[0] <= numbers_[1],
              "{}: tensor {}: data_offsets must be two numbers in ascending order", where_, tensor());
      entry.begin = numbers_[0];
      entry.end = numbers_[1];
    }
    place_ = Place::kEntry;
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      Require(metadata.size() < kMaxEntries, "{}: more than {} lines of {}", where_, kMaxEntries, kMetadataKey);
      Require(metadata.emplace(key_, std::move(value)).second, "{}: {} appears twice in {}", where_, Quoted(key_),
              kMetadataKey);
      return true;
    }
    if (place_ != Place::kEntry || key_ != "dtype") Unexpected("a string");
    const std::optional<DType> dtype = ParseDType(value);
    Require(dtype.has_value(), "{}: tensor {}: unknown dtype {}", where_, tensor(), Quoted(value));
    entries.back().dtype = *dtype;
    return true;
  }

  bool null() override { Unexpected("null"); }
  bool boolean(bool) override { Unexpected("a boolean"); }
  bool number_integer(int64_t) override { Unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { Unexpected("a fraction, or a number beyond 64 bits,"); }
  bool binary(Json::binary_t&) override { Unexpected("binary data"); }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    Fail("{}: the header is not valid JSON: {}", where_, JsonErrorReason(error));
  }

 private:
  enum class Place { kStart, kTable, kMetadata, kEntry, kNumbers, kEnd };

  Quoted tensor() const { return Quoted(entries.back().name); }

  [[noreturn]] void Unexpected(std::string_view what) const {
    const bool in_entry = place_ == Place::kEntry || place_ == Place::kNumbers;
    Fail("{}: {} stands where the format has none{}",
         in_entry ? fmt::format("{}: tensor {}", where_, tensor()) : std::string(where_), what,
         key_.empty() ? "" : fmt::format(" (at {})", Quoted(key_)));
  }

  Shape ReadShape() const {
    std::array<int64_t, Shape::kMaxRank> extents{};
    for (size_t axis = 0; axis < numbers_.size(); ++axis) {
      Require(numbers_[axis] <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
              "{}: tensor {}: extent {} is too large", where_, tensor(), numbers_[axis]);
      extents[axis] = static_cast<int64_t>(numbers_[axis]);
    }
    try {
      return Shape(std::span<const int64_t>(extents.data(), numbers_.size()));
    } catch (const Error& error) {
      Fail("{}: tensor {}: {}", where_, tensor(), EscapedText{error.what()});
    }
  }

  std::string_view where_;
  Place place_ = Place::kStart;
  bool has_metadata_ = false;
  std::string key_;
  std::set<std::string> fields_;   // of the current entry
  std::vector<uint64_t> numbers_;  // of the current array
};

// Checks that tensors are contiguous, the first begins at 0, and the last ends with the file.
void CheckLayout(const std::vector<Entry>& entries, uint64_t data_bytes, std::string_view where) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  uint64_t expected = 0;
  for (const Entry* entry : order) {
    const auto [begin, end] = std::pair(entry->begin, entry->end);
    Require(end <= data_bytes, "{}: tensor {} ends at byte {} of {} bytes of data", where, Quoted(entry->name), end,
            data_bytes);
    Require(begin == expected, "{}: tensor {} begins at byte {} of the data, expected {} ({})", where,
            Quoted(entry->name), begin, expected, begin < expected ? "it overlaps another" : "there is a hole");
    uint64_t bytes = 0;
    const bool overflow =
        __builtin_mul_overflow(static_cast<uint64_t>(entry->shape.size()), ElementSize(entry->dtype), &bytes);
    Require(!overflow && bytes == end - begin, "{}: tensor {} has {} bytes, but {} of {} needs {}", where,
            Quoted(entry->name), end - begin, entry->shape, Name(entry->dtype),
            overflow ? "more than 64 bits count" : std::to_string(bytes));
    expected = end;
  }
  Require(expected == data_bytes, "{}: {} bytes behind the last tensor's end", where, data_bytes - expected);
}

// Reads the index, a map from tensor to shard.
std::map<std::string, std::string> ReadWeightMap(const std::filesystem::path& path) {
  const Json index = ReadJson(path);
  Require(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
          "{}: it has no table weight_map", path.string());
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    Require(shard.is_string(), "{}: the shard of {} is no string", path.string(), Quoted(name));
    const auto& file = shard.get_ref<const std::string&>();
    // A plain file name. Links are followed, as Hugging Face's cache consists of them.
    Require(!file.empty() && file != "." && file != ".." && file.find_first_of("/\\\0"s) == file.npos,
            "{}: the shard {} of {} is no file name within the folder", path.string(), Quoted(file), Quoted(name));
    weight_map.emplace(name, file);
  }
  return weight_map;
}

}  // namespace

void SafeTensors::AddBytes(std::span<const std::byte> bytes, std::string_view where, const TensorFile* file,
                           TensorSet* set) {
  Require(bytes.size() >= kLengthBytes, "{}: {} bytes, too short for a safetensors file", where, bytes.size());
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) header_bytes |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  Require(header_bytes <= kMaxHeaderBytes, "{}: a header of {} bytes, at most {} are allowed (no safetensors file?)",
          where, header_bytes, kMaxHeaderBytes);
  Require(header_bytes <= bytes.size() - kLengthBytes,
          "{}: the header should have {} bytes, but the file ends after {}", where, header_bytes,
          bytes.size() - kLengthBytes);
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, header_bytes);
  Require(header.starts_with('{'), "{}: the header does not begin with {{", where);

  // An entry has at most nine commas.
  CheckJsonLimits(header, {.depth = 3, .values = 10 * kMaxEntries}, where);
  HeaderReader reader(where);
  Json::sax_parse(header, &reader);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_bytes);
  CheckLayout(reader.entries, data.size(), where);
  set->AddMetadata(std::move(reader.metadata));
  for (Entry& entry : reader.entries) {
    set->Add(
        {std::move(entry.name), entry.dtype, entry.shape, data.subspan(entry.begin, entry.end - entry.begin), file});
  }
}

SafeTensors SafeTensors::FromBytes(std::span<const std::byte> bytes, std::string_view where) {
  SafeTensors result;
  AddBytes(bytes, where, nullptr, &result);
  result.Finish(where);
  return result;
}

SafeTensors SafeTensors::Open(const std::filesystem::path& path) {
  std::filesystem::path file = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    file = path / kFileName;
    if (!FileExists(file)) file = path / kIndexName;
    Require(FileExists(file), "{}: neither {} nor {} is there", path.string(), kFileName, kIndexName);
  }
  SafeTensors result;
  if (file.string().ends_with(".index.json")) {
    ReadShards(file, &result, AddFile);
  } else {
    AddFile(file, &result);
    result.Finish(file.string());
  }
  return result;
}

void SafeTensors::AddFile(const std::filesystem::path& path, TensorSet* set) {
  const TensorFile& file = set->Map(path);
  AddBytes(file.mapped.bytes(), path.string(), &file, set);
  file.RequireUnchanged();
}

void ReadShards(const std::filesystem::path& index, TensorSet* set,
                const std::function<void(const std::filesystem::path& file, TensorSet* set)>& add) {
  const std::map<std::string, std::string> weight_map = ReadWeightMap(index);
  std::set<std::string> shards;
  for (const auto& [name, shard] : weight_map) shards.insert(shard);
  for (const std::string& name : shards) {
    const size_t before = set->tensors().size();
    add(index.parent_path() / name, set);
    for (const StoredTensor& tensor : std::span(set->tensors()).subspan(before)) {
      const auto listed = weight_map.find(tensor.name);
      Require(listed != weight_map.end(), "{}: shard {} holds tensor {}, which the index does not name", index.string(),
              Quoted(name), Quoted(tensor.name));
      Require(listed->second == name, "{}: shard {} holds tensor {}, which the index places in {}", index.string(),
              Quoted(name), Quoted(tensor.name), Quoted(listed->second));
    }
  }
  set->Finish(index.string());
  for (const auto& [name, shard] : weight_map) {
    Require(set->Find(name) != nullptr, "{}: tensor {} is missing from shard {}", index.string(), Quoted(name),
            Quoted(shard));
  }
}

}  // namespace qkv::io
