#include "qkv/explore/packet.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "qkv/core/error.h"

namespace qkv::explore {
namespace {

constexpr size_t kUnit = 8;  // arrays begin at multiples of it

// Limit of a packet's JSON: enough for the names of 20,000 classes, and quick to parse. Below 2^24, so that the fourth
// byte of its length is 0, which differs from JSON's.
constexpr size_t kMaxJson = size_t{4} << 20;
constexpr size_t kMaxArrays = 64;

size_t Padded(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

int64_t Width(ArrayType type) { return type == ArrayType::kU8 ? 1 : 4; }

ArrayType ParseType(const io::Json& name, std::string_view array) {
  for (const ArrayType type : {ArrayType::kU8, ArrayType::kF32, ArrayType::kI32}) {
    if (name == Name(type)) return type;
  }
  Fail("packet: array \"{}\" has the dtype {}, expected \"u8\", \"f32\" or \"i32\"", array, name.dump());
}

// A non-negative integer member.
int64_t Count(const io::Json& object, std::string_view key, std::string_view array) {
  const auto found = object.find(key);
  Require(found != object.end() && found->is_number_integer() && *found >= 0 &&
              *found <= std::numeric_limits<int64_t>::max() / 16,
          "packet: \"{}\" of array \"{}\" is no number of bytes", key, array);
  return found->get<int64_t>();
}

Array ReadArray(const std::string& name, const io::Json& facts, std::span<const std::byte> data) {
  Require(facts.is_object() && facts.contains("dtype") && facts.contains("shape") && facts["shape"].is_array() &&
              facts["shape"].size() <= Shape::kMaxRank,
          "packet: array \"{}\" needs a dtype and a shape of at most {} axes", name, Shape::kMaxRank);
  Array array{ParseType(facts["dtype"], name)};
  const auto offset = static_cast<uint64_t>(Count(facts, "offset", name));
  const auto bytes = static_cast<uint64_t>(Count(facts, "bytes", name));
  Require(offset <= data.size() && bytes <= data.size() - offset,
          "packet: array \"{}\" ends at byte {}, and the packet has {} bytes of arrays", name, offset + bytes,
          data.size());
  uint64_t elements = 1;
  for (const io::Json& extent : facts["shape"]) {
    Require(extent.is_number_integer() && extent >= 0 && extent <= std::numeric_limits<int32_t>::max(),
            "packet: array \"{}\" has the shape {}, expected numbers from 0 on", name, facts["shape"].dump());
    const auto n = extent.get<uint64_t>();
    // Every element has a byte at least, so more elements than bytes are wrong, whatever a later extent is.
    Require(n == 0 || elements <= bytes / n, "packet: array \"{}\" has the shape {}, more than its {} bytes hold", name,
            facts["shape"].dump(), bytes);
    elements *= n;
    array.shape.push_back(extent.get<int64_t>());
  }
  Require(elements * static_cast<uint64_t>(Width(array.type)) == bytes,
          "packet: array \"{}\" of shape {} and type {} has {} bytes, expected {}", name, facts["shape"].dump(),
          Name(array.type), bytes, elements * static_cast<uint64_t>(Width(array.type)));
  const auto own = data.subspan(offset, bytes);
  array.bytes.assign(own.begin(), own.end());
  return array;
}

io::Json ParseObject(std::string_view text) {
  Require(text.size() <= kMaxJson, "packet: {} bytes of JSON, expected at most {}", text.size(), kMaxJson);
  io::CheckJsonLimits(text, {.depth = 16, .values = size_t{1} << 16}, "packet");
  io::Json json = io::ParseJson(text, "packet");
  Require(json.is_object(), "packet: expected a JSON object, such as {{\"model\": \"digits\"}}, got {}",
          json.type_name());
  return json;
}

template <typename T>
constexpr ArrayType TypeOf() {
  return std::is_same_v<T, float> ? ArrayType::kF32 : std::is_same_v<T, int32_t> ? ArrayType::kI32 : ArrayType::kU8;
}

}  // namespace

std::string_view Name(ArrayType type) {
  return type == ArrayType::kU8 ? "u8" : type == ArrayType::kF32 ? "f32" : "i32";
}

int64_t Array::size() const { return static_cast<int64_t>(bytes.size()) / Width(type); }

template <typename T>
std::span<const T> Array::As() const {
  Require(type == TypeOf<T>(), "packet: an array of {}, expected {}", Name(type), Name(TypeOf<T>()));
  return {reinterpret_cast<const T*>(bytes.data()), static_cast<size_t>(size())};
}

template <typename T>
Array MakeArray(View<const T> values) {
  Require(values.dense(), "packet: a strided array of {}", values.shape());
  const auto extents = values.shape().extents();
  Array array{TypeOf<T>(), {extents.begin(), extents.end()}};
  array.bytes.resize(sizeof(T) * static_cast<size_t>(values.size()));
  if (!array.bytes.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

Array MakeArray(std::string_view file) {
  const auto bytes = std::as_bytes(std::span<const char>(file));
  return {ArrayType::kU8, {static_cast<int64_t>(file.size())}, {bytes.begin(), bytes.end()}};
}

const Array* Packet::Find(std::string_view name) const {
  const auto found = arrays.find(name);
  return found == arrays.end() ? nullptr : &found->second;
}

std::string Encode(const Packet& packet) {
  io::Json json = packet.json;
  json.erase("arrays");
  size_t end = 0;
  for (const auto& [name, array] : packet.arrays) {
    json["arrays"][name] = {
        {"dtype", Name(array.type)}, {"shape", array.shape}, {"offset", end}, {"bytes", array.bytes.size()}};
    end += Padded(array.bytes.size());
  }
  // Texts from files may not be UTF-8.
  const std::string text = json.dump(-1, ' ', false, io::Json::error_handler_t::replace);
  Require(text.size() <= kMaxJson, "packet: {} bytes of JSON, expected at most {}", text.size(), kMaxJson);
  const size_t begin = Padded(4 + text.size());
  std::string bytes(begin + end, '\0');
  for (int i = 0; i < 4; ++i) bytes[static_cast<size_t>(i)] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  std::memcpy(bytes.data() + 4, text.data(), text.size());
  size_t at = begin;
  for (const auto& [name, array] : packet.arrays) {
    if (!array.bytes.empty()) std::memcpy(bytes.data() + at, array.bytes.data(), array.bytes.size());
    at += Padded(array.bytes.size());
  }
  return bytes;
}

Packet Decode(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Packet packet;
  if (text.starts_with('{') && (text.size() < 4 || text[3] != '\0')) {
    packet.json = ParseObject(text);
    Require(!packet.json.contains("arrays"), "packet: JSON alone has no arrays; send them behind it, as a packet");
    return packet;
  }
  Require(bytes.size() >= 4, "packet: {} bytes, expected the length of the JSON, then the JSON", bytes.size());
  size_t length = 0;
  for (int i = 0; i < 4; ++i) length |= std::to_integer<size_t>(bytes[static_cast<size_t>(i)]) << (8 * i);
  Require(length <= bytes.size() - 4, "packet: {} bytes of JSON, and only {} follow", length, bytes.size() - 4);
  packet.json = ParseObject(text.substr(4, length));
  const size_t begin = std::min(Padded(4 + length), bytes.size());
  const io::Json arrays = packet.json.value("arrays", io::Json::object());
  packet.json.erase("arrays");
  Require(arrays.is_object() && arrays.size() <= kMaxArrays,
          "packet: \"arrays\" is no object of at most {} arrays by name", kMaxArrays);
  size_t total = 0;  // arrays may share bytes, but must not take more memory than was sent
  for (const auto& [name, facts] : arrays.items()) {
    Array array = ReadArray(name, facts, bytes.subspan(begin));
    total += array.bytes.size();
    Require(total <= bytes.size(), "packet: the arrays overlap, array \"{}\" for one", name);
    packet.arrays.emplace(name, std::move(array));
  }
  return packet;
}

#define QKV_INSTANTIATE(T)                          \
  template std::span<const T> Array::As<T>() const; \
  template Array MakeArray<T>(View<const T>);
QKV_INSTANTIATE(uint8_t)
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(int32_t)
#undef QKV_INSTANTIATE

}  // namespace qkv::explore
