#include "qkv/server/log_writer.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace qkv::server {
namespace {

TEST(LogWriter, WritesInOrder) {
  std::vector<int> numbers;
  {
    LogWriter log([&](const io::Json& line) { numbers.push_back(line["n"]); });
    for (int i = 0; i < 100; ++i) log.Write({{"n", i}});
    EXPECT_TRUE(log.Flush(std::chrono::seconds(10)));
    EXPECT_EQ(numbers.size(), 100u);
    log.Write({{"n", 100}});
  }
  for (int i = 0; i <= 100; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i);
}

// Write does not wait for a reader that stands still, and keeps a bounded number of lines.
TEST(LogWriter, WaitsForNoReader) {
  std::promise<void> open, begun;
  std::shared_future<void> opened = open.get_future().share();
  std::vector<io::Json> lines;
  LogWriter log([&](const io::Json& line) {
    if (lines.empty()) begun.set_value();
    opened.wait();
    lines.push_back(line);
  });
  log.Write({{"n", 0}});
  begun.get_future().wait();  // or it would be taken while others are dropped
  for (int i = 1; i <= 30'000; ++i) log.Write({{"n", i}});
  open.set_value();
  EXPECT_TRUE(log.Flush(std::chrono::seconds(10)));
  EXPECT_EQ(lines.size(), 10'001u);
  log.Write({{"n", -1}});
  EXPECT_TRUE(log.Flush(std::chrono::seconds(10)));
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines.back()["n"], -1);
  const io::Json& note = lines[lines.size() - 2];
  EXPECT_EQ(note["event"], "dropped");
  EXPECT_EQ(note["lines"], 20'000);
}

TEST(LogWriter, SaysThatItsReaderStalls) {
  std::promise<void> open;
  LogWriter log([opened = open.get_future().share()](const io::Json&) { opened.wait(); });
  log.Write({{"n", 1}});
  EXPECT_FALSE(log.Flush(std::chrono::milliseconds(20)));
  open.set_value();
  EXPECT_TRUE(log.Flush(std::chrono::seconds(10)));
}

TEST(LogWriter, MayHaveNoReader) {
  LogWriter log({});
  log.Write({{"n", 1}});
  EXPECT_TRUE(log.Flush(std::chrono::seconds(10)));
}

}  // namespace
}  // namespace qkv::server
