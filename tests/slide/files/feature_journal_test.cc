// A journal that is cut off at every length, has other settings, or no room.
#include "qkv/slide/files/feature_journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string_view>

#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::slide {
namespace {

constexpr int64_t kJournalTiles = 7;
const io::Json kMadeWith = {{"encoder", "abc"}, {"mpp", 0.5}};

std::vector<float> JournalVector(size_t tile) {
  return {static_cast<float>(tile), 0.25f * static_cast<float>(tile), -1.0f};
}

// Adds what is not there, in another order than the tiles'.
void Complete(FeatureJournal& journal) {
  for (size_t i = 0; i < kJournalTiles; ++i) {
    const size_t tile = (3 * i + 2) % kJournalTiles;
    if (journal.Has(tile)) continue;
    if (tile == 4) {
      journal.AddDamaged(tile, "level 0, 512, 0: no JPEG");
    } else {
      journal.Add(tile, JournalVector(tile));
    }
  }
}

void ExpectComplete(const FeatureJournal& journal) {
  EXPECT_EQ(journal.damaged(), (std::map<size_t, std::string>{{4, "level 0, 512, 0: no JPEG"}}));
  const FeatureJournal::Rows rows = journal.Read();
  EXPECT_EQ(rows.tiles, (std::vector<size_t>{0, 1, 2, 3, 5, 6}));
  ASSERT_EQ(rows.features.shape(), Shape({6, 3}));
  for (size_t i = 0; i < rows.tiles.size(); ++i) {
    const std::vector<float> expected = JournalVector(rows.tiles[i]);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), rows.features.data() + 3 * i));
  }
}

// Without WriteFile's flush to the disk, of which there would be a thousand.
void Put(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(text.data(), static_cast<std::streamsize>(text.size()));
}

class FeatureJournalFile : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "a.h5.part";
  std::vector<std::string> notes_;
  const std::function<void(const std::string&)> note_ = [this](const std::string& text) { notes_.push_back(text); };
};

TEST_F(FeatureJournalFile, GoesOnAfterEveryLengthAndEveryFlippedByte) {
  {
    FeatureJournal journal(path_, kMadeWith, kJournalTiles, note_);
    Complete(journal);
    ExpectComplete(journal);
  }
  const std::string whole = ReadFile(path_);
  const size_t header = whole.find('\n') + 1;
  for (size_t length = 0; length <= whole.size(); ++length) {
    Put(path_, std::string_view(whole).substr(0, length));
    {
      FeatureJournal journal(path_, kMadeWith, kJournalTiles, note_);
      Complete(journal);
      ExpectComplete(journal);
    }
    EXPECT_EQ(ReadFile(path_), whole) << length;
  }
  EXPECT_EQ(notes_.size(), header - 1);  // a part of the header is no header
  for (size_t at = header; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    Put(path_, flipped);
    FeatureJournal journal(path_, kMadeWith, kJournalTiles, note_);
    Complete(journal);
    ExpectComplete(journal);
  }
}

TEST_F(FeatureJournalFile, IsBegunAnewForOtherSettingsAndOtherTiles) {
  const auto has = [&](const io::Json& what, int64_t tiles) {
    FeatureJournal journal(path_, what, tiles, note_);
    const bool found = journal.Has(2);
    journal.Add(2, JournalVector(2));
    return found;
  };
  EXPECT_FALSE(has(kMadeWith, kJournalTiles));
  EXPECT_TRUE(has(kMadeWith, kJournalTiles));
  EXPECT_TRUE(notes_.empty());
  EXPECT_FALSE(has(kMadeWith, kJournalTiles + 1));
  EXPECT_FALSE(has({{"encoder", "other"}, {"mpp", 0.5}}, kJournalTiles + 1));
  ASSERT_EQ(notes_.size(), 2);
  EXPECT_NE(notes_[0].find("a.h5.part: its vectors were made with other settings"), std::string::npos);
}

TEST_F(FeatureJournalFile, IsOneProcessesAndOneWidths) {
  FeatureJournal journal(path_, kMadeWith, kJournalTiles, note_);
  EXPECT_NE(ErrorMessage([&] { FeatureJournal(path_, kMadeWith, kJournalTiles, note_); }).find("another process"),
            std::string::npos);
  EXPECT_EQ(journal.Read().features.shape(), Shape({0, 0}));
  journal.Add(0, JournalVector(0));
  EXPECT_NE(ErrorMessage([&] { journal.Add(1, std::vector<float>(2)); }).find("a vector of 3 numbers, got 2"),
            std::string::npos);
  EXPECT_NE(ErrorMessage([&] { journal.Add(7, JournalVector(7)); }).find("a tile below 7, got 7"), std::string::npos);
  journal.Remove();
  EXPECT_FALSE(FileExists(path_));
}

TEST_F(FeatureJournalFile, LosesNothingWhereThereIsNoRoom) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  std::string message;
  {
    FeatureJournal journal(path_, kMadeWith, kJournalTiles, note_);
    journal.Add(0, JournalVector(0));
    rlimit small = before;
    small.rlim_cur = std::filesystem::file_size(path_) + 5;  // ends within the next record
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    message = ErrorMessage([&] { journal.Add(1, JournalVector(1)); });
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_TRUE(journal.Has(0));
    EXPECT_FALSE(journal.Has(1));
    Complete(journal);
  }
  std::signal(SIGXFSZ, ignored);
  EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
  ExpectComplete(FeatureJournal(path_, kMadeWith, kJournalTiles, note_));
}

// A slide's vectors, of processes that are killed at any time.
TEST_F(FeatureJournalFile, GoesOnAfterProcessesThatWereKilled) {
  constexpr int64_t kMany = 3'000, kWide = 64;
  const auto work = [&](const std::filesystem::path& path) {
    FeatureJournal journal(path, kMadeWith, kMany, note_);
    std::vector<float> vector(kWide);
    for (size_t tile = 0; tile < kMany; ++tile) {
      if (journal.Has(tile)) continue;
      for (size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<float>(tile * 64 + i) * 0.5f;
      journal.Add(tile, vector);
    }
  };
  int killed = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      work(path_);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(100 + 150 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    killed += WIFSIGNALED(status) ? 1 : 0;
  }
  EXPECT_GT(killed, 0);
  work(path_);
  const std::filesystem::path whole = folder_ / "whole";
  work(whole);
  EXPECT_EQ(ReadFile(path_), ReadFile(whole));
  EXPECT_TRUE(notes_.empty() || notes_.front().find("begun anew") != std::string::npos);  // killed within the header
}

}  // namespace
}  // namespace qkv::slide
