// The log survives being cut anywhere, and event files read back as TensorBoard's own reader takes them apart.
#include "qkv/train/run/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <cstring>
#include <map>

#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

TEST(Log, ContinuesAfterTheStepThatWasSaved) {
  const TemporaryFolder folder;
  const fs::path path = folder / "log.jsonl";
  {
    Log log(path, 0);
    for (int step = 1; step <= 5; ++step) log.Append({{"step", step}, {"loss", 1.0 / step}});
  }
  Appender(path).Append(R"({"step": 6, "lo)");  // killed while it wrote
  {
    Log log(path, 3);
    log.Append({{"step", 4}, {"loss", 7.0}});
  }
  const std::vector<io::Json> lines = ReadLog(path);
  ASSERT_EQ(lines.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(lines[static_cast<size_t>(i)]["step"], i + 1);
  EXPECT_EQ(lines[2]["loss"], 1.0 / 3);
  EXPECT_EQ(lines[3]["loss"], 7.0);
}

TEST(Log, NamesTheLineThatIsNone) {
  const TemporaryFolder folder;
  WriteFile(folder / "log.jsonl", "{\"step\": 1}\nnonsense\n");
  EXPECT_NE(ErrorMessage([&] { ReadLog(folder / "log.jsonl"); }).find("line 2"), std::string::npos);
  EXPECT_TRUE(ReadLog(folder / "none.jsonl").empty());
}

TEST(Log, HoldsEveryValueToItsType) {
  const auto said = [](const std::string& line) { return ErrorMessage([&] { ParseLog(line + "\n", "log"); }); };
  EXPECT_EQ(said(R"({"event": "train", "step": 1, "epoch": 1, "loss": 0.5, "top1": null})"), "");
  for (const char* line : {R"({"event": "train"})", R"({"step": -1})", R"({"step": 1.5})", R"({"step": 1e300})",
                           R"({"step": "1"})", R"({"step": 1, "event": 5})", R"({"step": 1, "epoch": -2})",
                           R"({"step": 1, "loss": "low"})", R"({"step": 1, "loss": [1]})", "7", "[]", "{"}) {
    EXPECT_NE(said(line).find("log, line 1"), std::string::npos) << line << ": " << said(line);
  }
}

TEST(Crc32c, GivesTheValuesOfRfc3720) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
}

// A reader of its own: records, and fields of protocol buffers by their number.
struct Field {
  uint64_t number = 0;
  std::string bytes;
};
using Fields = std::multimap<int, Field>;

template <typename T>
T Take(std::string_view* from) {
  T value{};
  EXPECT_GE(from->size(), sizeof(T));
  std::memcpy(&value, from->data(), sizeof(T));
  from->remove_prefix(sizeof(T));
  return value;
}

uint64_t TakeVarint(std::string_view* from) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = Take<uint8_t>(from);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
}

Fields Parse(std::string_view message) {
  Fields fields;
  while (!message.empty()) {
    const uint64_t key = TakeVarint(&message);
    Field field;
    switch (key & 7) {
      case 0:
        field.number = TakeVarint(&message);
        break;
      case 1:
        field.number = Take<uint64_t>(&message);
        break;
      case 5:
        field.number = Take<uint32_t>(&message);
        break;
      default: {
        EXPECT_EQ(key & 7, 2u);
        const uint64_t size = TakeVarint(&message);
        field.bytes = message.substr(0, size);
        message.remove_prefix(size);
      }
    }
    fields.emplace(static_cast<int>(key >> 3), field);
  }
  return fields;
}

std::vector<Fields> ReadEvents(const fs::path& path) {
  const std::string text = ReadFile(path);
  std::string_view rest = text;
  std::vector<Fields> events;
  const auto unmasked = [](uint32_t masked) { return std::rotl(masked - 0xA282EAD8u, 15); };
  while (!rest.empty()) {
    const std::string_view head = rest.substr(0, 8);
    const auto size = Take<uint64_t>(&rest);
    EXPECT_EQ(unmasked(Take<uint32_t>(&rest)), Crc32c(head));
    const std::string_view data = rest.substr(0, size);
    rest.remove_prefix(size);
    EXPECT_EQ(unmasked(Take<uint32_t>(&rest)), Crc32c(data));
    events.push_back(Parse(data));
  }
  return events;
}

TEST(EventFile, ReadsBack) {
  const TemporaryFolder folder;
  {
    EventFile events(folder.path(), 300);
    const std::pair<std::string, double> values[] = {{"train/network/loss", 0.25}, {"train/accuracy", 0.75}};
    events.Scalars(301, values);
  }
  ASSERT_EQ(folder.Count(), 1);
  const fs::path path = fs::directory_iterator(folder.path())->path();
  EXPECT_NE(path.filename().string().find("tfevents"), std::string::npos);
  const std::vector<Fields> events = ReadEvents(path);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].find(3)->second.bytes, "brain.Event:2");
  for (const Fields& event : events) {
    EXPECT_GT(std::bit_cast<double>(event.find(1)->second.number), 1.7e9);  // seconds since 1970
  }
  EXPECT_EQ(events[1].find(2)->second.number, 301u);  // from here on, older files no longer count
  EXPECT_EQ(Parse(events[1].find(7)->second.bytes).find(1)->second.number, 1u);
  EXPECT_EQ(events[2].find(2)->second.number, 301u);
  const Fields summary = Parse(events[2].find(5)->second.bytes);
  ASSERT_EQ(summary.count(1), 2u);
  std::map<std::string, float> scalars;
  for (const auto& [number, field] : summary) {
    const Fields value = Parse(field.bytes);
    scalars[value.find(1)->second.bytes] = std::bit_cast<float>(static_cast<uint32_t>(value.find(2)->second.number));
  }
  EXPECT_EQ(scalars, (std::map<std::string, float>{{"train/network/loss", 0.25f}, {"train/accuracy", 0.75f}}));
}

TEST(EventFile, EachProcessWritesItsOwn) {
  const TemporaryFolder folder;
  const EventFile first(folder.path(), 0), second(folder.path(), 0);
  EXPECT_EQ(folder.Count(), 2);
}

// A run's folder may be another person's, who would have us write elsewhere, or wait for ever.
TEST(Appender, FollowsNoLinkAndWaitsForNoPipe) {
  const TemporaryFolder folder;
  WriteFile(folder / "precious", "mine");
  fs::create_symlink(folder / "precious", folder / "link");
  fs::create_symlink(folder / "nothing", folder / "dangling");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "dangling", "pipe"}) {
    EXPECT_NE(ErrorMessage([&] { Appender(folder / name).Append("x"); }).find("cannot write"), std::string::npos)
        << name;
    EXPECT_NE(ErrorMessage([&] { Log(folder / name, 0).Append({{"step", 1}}); }), "") << name;
  }
  EXPECT_EQ(ReadFile(folder / "precious"), "mine");
  EXPECT_FALSE(fs::exists(folder / "nothing"));
}

TEST(Appender, SaysThatTheDiskIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  Appender full("/dev/full");
  EXPECT_NE(ErrorMessage([&] { full.Append("x"); }).find("No space left"), std::string::npos);
}

}  // namespace
}  // namespace qkv::train
