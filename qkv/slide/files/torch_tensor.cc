// One tensor as torch.save writes it: a zip archive of stored entries, the first of which is a pickle.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <string>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/io/crc32.h"
#include "qkv/slide/files/feature_file.h"

namespace qkv::slide {
namespace {

static_assert(std::endian::native == std::endian::little);

std::string LittleBytes(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xFF);
  return text;
}

std::string PickledInt(int64_t number) {
  return fmt::format("\x8a\x08{}", LittleBytes(static_cast<uint64_t>(number), 8));  // LONG1
}

std::string PickledText(std::string_view text) {
  return fmt::format("X{}{}", LittleBytes(text.size(), 4), text);  // BINUNICODE
}

// torch._utils._rebuild_tensor_v2(storage, 0, (rows, width), (width, 1), False, OrderedDict()), protocol 2.
std::string PickledTensor(int64_t rows, int64_t width) {
  return "\x80\x02"
         "ctorch._utils\n_rebuild_tensor_v2\n((" +
         PickledText("storage") + "ctorch\nFloatStorage\n" + PickledText("0") + PickledText("cpu") +
         PickledInt(rows * width) + "tQ" + PickledInt(0) + PickledInt(rows) + PickledInt(width) + "\x86" +
         PickledInt(width) + PickledInt(1) + "\x86\x89" + "ccollections\nOrderedDict\n)RtR.";
}

struct TorchEntry {
  std::string name;
  std::span<const std::byte> bytes;
  uint32_t crc = 0;
  uint64_t at = 0;  // of its header in the archive
};

// What both of an entry's headers hold from the version on.
std::string SharedHeader(const TorchEntry& entry, uint64_t size, size_t extra) {
  return LittleBytes(0, 2) + LittleBytes(0, 2) + LittleBytes(0, 2) + LittleBytes(0x21, 2) +  // stored, of 1980
         LittleBytes(entry.crc, 4) + LittleBytes(size, 4) + LittleBytes(size, 4) + LittleBytes(entry.name.size(), 2) +
         LittleBytes(extra, 2);
}

constexpr uint64_t kIn64Bits = 0xFFFFFFFF;  // the number is in the extra field of 64 bits
constexpr uint64_t kTensorAlignment = 64;   // as PyTorch's own, so that a file can be mapped

// Entries have both sizes as 64 bits in an extra field; another pads their bytes to kTensorAlignment.
std::string LocalHeader(const TorchEntry& entry) {
  const uint64_t size = entry.bytes.size(), begin = entry.at + 30 + entry.name.size() + 20 + 4;
  const uint64_t padding = (kTensorAlignment - begin % kTensorAlignment) % kTensorAlignment;
  return "PK\x03\x04" + LittleBytes(45, 2) + SharedHeader(entry, kIn64Bits, 20 + 4 + padding) + entry.name +
         LittleBytes(1, 2) + LittleBytes(16, 2) + LittleBytes(size, 8) + LittleBytes(size, 8) +  //
         "FB" + LittleBytes(padding, 2) + std::string(padding, 'Z');
}

std::string CentralHeader(const TorchEntry& entry) {
  const uint64_t size = entry.bytes.size();
  return "PK\x01\x02" + LittleBytes(45, 2) + LittleBytes(45, 2) + SharedHeader(entry, kIn64Bits, 28) +
         std::string(10, '\0') + LittleBytes(kIn64Bits, 4) + entry.name + LittleBytes(1, 2) + LittleBytes(24, 2) +
         LittleBytes(size, 8) + LittleBytes(size, 8) + LittleBytes(entry.at, 8);
}

// The end records of 64 bits, and the old one, which refers to them.
std::string EndRecords(uint64_t directory, uint64_t size, uint64_t entries) {
  return "PK\x06\x06" + LittleBytes(44, 8) + LittleBytes(45, 2) + LittleBytes(45, 2) + LittleBytes(0, 8) +
         LittleBytes(entries, 8) + LittleBytes(entries, 8) + LittleBytes(size, 8) + LittleBytes(directory, 8) +
         "PK\x06\x07" + LittleBytes(0, 4) + LittleBytes(directory + size, 8) + LittleBytes(1, 4) + "PK\x05\x06" +
         LittleBytes(0, 4) + LittleBytes(0xFFFF, 2) + LittleBytes(0xFFFF, 2) + LittleBytes(kIn64Bits, 4) +
         LittleBytes(kIn64Bits, 4) + LittleBytes(0, 2);
}

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

void WriteTorchTensor(const std::filesystem::path& path, View<const float> values) {
  Require(values.rank() == 2 && values.dense(), "{}: expected values [tiles, D] without gaps, got {}", path.string(),
          values.shape());
  const std::string folder = path.stem().string() + "/", pickle = PickledTensor(values.dim(0), values.dim(1));
  std::array<TorchEntry, 4> entries = {
      TorchEntry{folder + "data.pkl", BytesOf(pickle)}, TorchEntry{folder + "byteorder", BytesOf("little")},
      TorchEntry{folder + "data/0", std::as_bytes(std::span(values.data(), static_cast<size_t>(values.size())))},
      TorchEntry{folder + "version", BytesOf("3\n")}};
  WriteFile(path, [&](FileSink& sink) {
    uint64_t at = 0;
    const auto write = [&](std::span<const std::byte> bytes) {
      sink.Write(bytes);
      at += bytes.size();
    };
    for (TorchEntry& entry : entries) {
      entry.at = at;
      entry.crc = io::Crc32(entry.bytes);
      write(BytesOf(LocalHeader(entry)));
      write(entry.bytes);
    }
    const uint64_t directory = at;
    for (const TorchEntry& entry : entries) write(BytesOf(CentralHeader(entry)));
    sink.Write(EndRecords(directory, at - directory, entries.size()));
  });
}

}  // namespace qkv::slide
