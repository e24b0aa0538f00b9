// Zip archives made by hand, honest or not.
#include "qkv/io/zip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <functional>
#include <vector>

#include "qkv/core/memory.h"
#include "tests/io/support.h"
#include "tests/support/compress.h"

namespace qkv::io {
namespace {

using namespace std::string_literals;  // NOLINT: for the zero bytes in ""s

std::string Little(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xFF);
  return text;
}

// An entry, and the lies that the directory tells of it.
struct Member {
  std::string name, data;
  bool deflate = false;
  uint16_t flags = 0;
  std::string other_name = {};                 // in the local header
  std::function<void(std::string*)> lie = {};  // changes the record of the directory
  bool zip64 = false;
};

constexpr size_t kMethodAt = 10, kPackedAt = 20, kSizeAt = 24, kOffsetAt = 42;

std::string Archive(const std::vector<Member>& members, bool end64 = false, std::string comment = "") {
  std::string file, directory;
  for (const Member& member : members) {
    const std::string data = member.deflate ? Deflate(member.data) : member.data;
    const uint32_t crc = crc32(0, reinterpret_cast<const Bytef*>(member.data.data()), member.data.size());
    const std::string name = member.other_name.empty() ? member.name : member.other_name;
    const std::string common =
        Little(member.flags, 2) + Little(member.deflate ? 8 : 0, 2) + Little(0, 4) + Little(crc, 4);
    const std::string extra = member.zip64 ? Little(1, 2) + Little(24, 2) + Little(member.data.size(), 8) +
                                                 Little(data.size(), 8) + Little(file.size(), 8)
                                           : "";
    const auto number = [&](uint64_t value) { return Little(member.zip64 ? 0xFFFFFFFF : value, 4); };
    std::string record = "PK\1\2"s + Little(20, 2) + Little(20, 2) + common + number(data.size()) +
                         number(member.data.size()) + Little(member.name.size(), 2) + Little(extra.size(), 2) +
                         Little(0, 8) + Little(0, 2) + number(file.size()) + member.name + extra;
    if (member.lie) member.lie(&record);
    directory += record;
    // Sizes as PyTorch writes them: behind the data.
    file += "PK\3\4"s + Little(20, 2) + common + Little(0, 8) + Little(name.size(), 2) + Little(0, 2) + name + data;
  }
  const size_t begin = file.size();
  file += directory;
  if (end64) {
    const size_t at = file.size();
    file += "PK\6\6"s + Little(44, 8) + Little(45, 4) + Little(0, 8) + Little(members.size(), 8) +
            Little(members.size(), 8) + Little(directory.size(), 8) + Little(begin, 8) + "PK\6\7"s + Little(0, 4) +
            Little(at, 8) + Little(1, 4);
  }
  const uint64_t count = end64 ? 0xFFFF : members.size();
  return file + "PK\5\6"s + Little(0, 4) + Little(count, 2) + Little(count, 2) +
         Little(end64 ? 0xFFFFFFFF : directory.size(), 4) + Little(end64 ? 0xFFFFFFFF : begin, 4) +
         Little(comment.size(), 2) + comment;
}

std::string Refused(const std::string& file) {
  return ErrorMessage([&] { ListZip(AsBytes(file), "z"); });
}
#define EXPECT_REFUSED(file, part) EXPECT_NE(Refused(file).find(part), std::string::npos) << Refused(file)

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Zip, ListsEntries) {
  for (const bool zip64 : {false, true}) {
    const std::string file = Archive({{.name = "b/", .data = "", .zip64 = zip64},
                                      {.name = "b/x", .data = "xyz", .zip64 = zip64},
                                      {.name = "a", .data = std::string(1000, 'a'), .deflate = true, .zip64 = zip64}},
                                     zip64, "a comment");
    const std::vector<ZipEntry> entries = ListZip(AsBytes(file), "z");
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(Text(FindEntry(entries, "b/x")->bytes), "xyz");
    EXPECT_EQ(FindEntry(entries, "b"), nullptr);
    EXPECT_EQ(Text(Unpack(*FindEntry(entries, "a"), "z")), std::string(1000, 'a'));
  }
  EXPECT_TRUE(ListZip(AsBytes(Archive({})), "z").empty());
}

TEST(Zip, LiesAreRefused) {
  const auto put = [](size_t at, uint64_t value, int bytes) {
    return [=](std::string* record) { record->replace(at, static_cast<size_t>(bytes), Little(value, bytes)); };
  };
  const auto one = [](std::function<void(std::string*)> lie) {
    return Archive({{.name = "a", .data = "abc", .lie = std::move(lie)}});
  };
  EXPECT_EQ(ListZip(AsBytes(one({})), "z").size(), 1u);
  EXPECT_REFUSED(one(put(kPackedAt, 4, 4)), "does not fit");
  EXPECT_REFUSED(one(put(kPackedAt, 2, 4)), "cannot have 3 bytes");
  EXPECT_REFUSED(one(put(kSizeAt, 4, 4)), "cannot have 4 bytes");
  EXPECT_REFUSED(one(put(kPackedAt, 0xFFFFFFFF, 4)), "does not fit");
  EXPECT_REFUSED(one(put(kOffsetAt, 1, 4)), "no header at byte 1");
  EXPECT_REFUSED(one(put(kOffsetAt, 0xFFFFFFFF, 4)), "no header");
  EXPECT_REFUSED(one(put(kMethodAt, 12, 2)), "compressed by method 12");
  EXPECT_REFUSED(one(put(28, 0xFFFF, 2)), "damaged");
  EXPECT_REFUSED(one(put(30, 0xFFFF, 2)), "damaged");
  EXPECT_REFUSED(one(put(0, 0, 1)), "damaged");
  EXPECT_REFUSED(Archive({{.name = "a", .data = "abc", .flags = 1}}), "encrypted");
  EXPECT_REFUSED(Archive({{.name = "a", .data = "abc", .other_name = "b"}}), "is called \"b\" in its header");
  EXPECT_REFUSED(Archive({{.name = "a", .data = "1"}, {.name = "a", .data = "2"}}), "two entries \"a\"");
  for (const std::string& name : {"../a"s, "a/../b"s, ".."s, "/a"s, "a\\b"s, "a\0b"s, ""s}) {
    EXPECT_REFUSED(Archive({{.name = name, .data = "abc"}}), "no name within a folder");
  }
  // Two entries of the same bytes; the second's name lies in the first's data.
  EXPECT_REFUSED(Archive({{.name = "a", .data = "abc"}, {.name = "a", .data = "abc", .lie = put(kOffsetAt, 0, 4)}}),
                 "overlap");
  const std::string inner = Archive({{.name = "b", .data = "x"}});
  EXPECT_REFUSED(
      Archive({{.name = "a", .data = inner.substr(0, 32)}, {.name = "b", .data = "x", .lie = put(kOffsetAt, 31, 4)}}),
      "overlap");
}

TEST(Zip, LyingEndsAreRefused) {
  const std::string good = Archive({{.name = "a", .data = "abc"}}, /*end64=*/true);
  const size_t record = good.find("PK\6\6"), locator = good.find("PK\6\7"), end = good.find("PK\5\6");
  const auto with = [&](size_t at, uint64_t value) { return std::string(good).replace(at, 8, Little(value, 8)); };
  EXPECT_EQ(ListZip(AsBytes(good), "z").size(), 1u);
  EXPECT_REFUSED(with(locator + 8, 0), "is not where it should be");
  EXPECT_REFUSED(with(locator + 8, ~uint64_t{0}), "is not where it should be");
  EXPECT_REFUSED(with(record + 24, 2), "several volumes");
  EXPECT_REFUSED(with(record + 32, 2), "several volumes");
  EXPECT_REFUSED(with(record + 40, ~uint64_t{0}), "does not fit");
  EXPECT_REFUSED(with(record + 48, ~uint64_t{0}), "does not fit");
  EXPECT_REFUSED(
      std::string(with(record + 24, uint64_t{1} << 60)).replace(record + 32, 8, Little(uint64_t{1} << 60, 8)),
      "entries in a directory of");
  EXPECT_REFUSED(good.substr(0, end), "it is cut off");
  EXPECT_REFUSED("PK\3\4"s, "too short");
  EXPECT_REFUSED("PK\3\4"s + std::string(100'000, 'x'), "it is cut off");
}

TEST(Zip, BombsAreRefused) {
  const auto bomb = [](uint64_t size) {
    return Archive({{.name = "a", .data = std::string(1 << 20, '\0'), .deflate = true, .lie = [=](std::string* record) {
                       record->replace(kSizeAt, 4, Little(size, 4));
                     }}});
  };
  EXPECT_REFUSED(bomb(0xFFFFFFF0), "cannot have");
  const int64_t before = MemoryLimit();
  SetMemoryLimit(1 << 16);
  EXPECT_MESSAGE(Unpack(ListZip(AsBytes(bomb(1 << 20)), "z").at(0), "z"), "would take about 1.0 MB");
  SetMemoryLimit(before);
  // More, less and other than was stated.
  for (const uint64_t size : {uint64_t{100}, (uint64_t{1} << 20) - 1, (uint64_t{1} << 20) + 1}) {
    const std::string file = bomb(size);
    EXPECT_MESSAGE(Unpack(ListZip(AsBytes(file), "z").at(0), "z"), "is damaged");
  }
  std::string file = Archive({{.name = "a", .data = std::string(300, 'q') + "end", .deflate = true}});
  file[33] = static_cast<char>(file[33] ^ 4);
  EXPECT_MESSAGE(Unpack(ListZip(AsBytes(file), "z").at(0), "z"), "is damaged");
}

}  // namespace
}  // namespace qkv::io
