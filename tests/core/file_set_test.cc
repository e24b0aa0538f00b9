// Sets of files whose writer is killed, or whose disk is full; and what killed writers leave.
#include "qkv/core/file_set.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "qkv/core/temporary.h"
#include "tests/support/errors.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"

namespace qkv {
namespace {

class FileSets : public testing::Test {
 protected:
  ~FileSets() override {
    FailCalls(SystemCall::kNames, 0, 0);
    FailCalls(SystemCall::kFsync, 0, 0);
  }
  void Write(const std::string& text) const {
    FileSet files;
    for (const char* name : {"main", "names", "source"}) files.Add(folder_ / name, text);
    files.Publish();
  }
  // "old" or "new" if there is a main file and all are of one write; "none" without a main file; else "mixed".
  std::string State() const {
    if (!FileExists(folder_ / "main")) return "none";
    const std::string main = ReadFile(folder_ / "main");
    for (const char* name : {"names", "source"}) {
      if (!FileExists(folder_ / name) || ReadFile(folder_ / name) != main) return "mixed";
    }
    return main;
  }

  const TemporaryFolder folder_;
};

TEST_F(FileSets, AreNeverMixedWhereverTheWriterIsKilled) {
  bool killed = true;
  std::string seen;
  int number = 0;
  while (killed) {
    KillAfterNames(0);
    Write("old");
    ASSERT_EQ(State(), "old");
    EXPECT_EQ(folder_.Count(), 3) << "left after kill " << number;
    ++number;
    killed = IsKilled([&] {
      KillAfterNames(number);
      Write("new");
    });
    EXPECT_NE(State(), "mixed") << number;
    seen += State() + " ";
  }
  EXPECT_GT(number, 4);
  EXPECT_TRUE(seen.starts_with("none ") && seen.ends_with("new new ")) << seen;
}

TEST_F(FileSets, AreNeverMixedWhereverTheDiskIsFull) {
  for (const SystemCall call : {SystemCall::kFsync, SystemCall::kNames}) {
    for (int number = 1; number <= 8; ++number) {
      FailCalls(call, 0, 0);
      Write("old");
      FailCalls(call, number, ENOSPC);
      const std::string message = ErrorMessage([&] { Write("new"); });
      FailCalls(call, 0, 0);
      EXPECT_NE(State(), "mixed") << number;
      if (call == SystemCall::kFsync && number <= 3) {
        EXPECT_EQ(State(), "old") << number;
      }
      if (State() != "new") {
        EXPECT_TRUE(message.ends_with("No space left on device")) << message;
      }
    }
  }
}

TEST_F(FileSets, LeaveTheMainFileIfNothingElseWasReplaced) {
  Write("old");
  for (const int number : {1, 2}) {
    FailCalls(SystemCall::kNames, number, ENOSPC);
    EXPECT_NE(ErrorMessage([&] { Write("new"); }), "");
    EXPECT_EQ(State(), "old") << number;
  }
  EXPECT_EQ(folder_.Count(), 3);
}

TEST_F(FileSets, AMainFileCanBeWithdrawn) {
  WithdrawFile(folder_ / "main");  // not there
  Write("old");
  WithdrawFile(folder_ / "main");
  EXPECT_EQ(State(), "none");
  EXPECT_TRUE(std::filesystem::exists("/dev/null"));
  WithdrawFile("/dev/null");
  EXPECT_TRUE(std::filesystem::exists("/dev/null"));
}

TEST_F(FileSets, TemporariesOfKilledWritersAreRemovedByTheNext) {
  const auto killed = [&](const char* name) {
    EXPECT_TRUE(IsKilled([&] {
      WriteFile(folder_ / name, [](FileSink& sink) {
        sink.Write("half");
        ::raise(SIGKILL);
      });
    }));
  };
  killed("a"), killed("b");
  EXPECT_EQ(folder_.Count(), 2);
  WriteFile(folder_ / "a", "whole");
  EXPECT_EQ(folder_.Count(), 2);  // a, and what is left of b
  EXPECT_TRUE(FileExists(TemporaryName(folder_ / "b", 1)));
  WriteFile(folder_ / "b", "whole");
  EXPECT_EQ(folder_.Count(), 2);
}

TEST_F(FileSets, TemporariesOfLiveWritersStay) {
  WriteFile(folder_ / "a", [&](FileSink& first) {
    first.Write("first");
    WriteFile(folder_ / "a", [&](FileSink& second) {
      second.Write("second");
      EXPECT_EQ(folder_.Count(), 2);
    });
    EXPECT_EQ(ReadFile(folder_ / "a"), "second");
  });
  EXPECT_EQ(ReadFile(folder_ / "a"), "first");
  EXPECT_EQ(folder_.Count(), 1);
}

TEST_F(FileSets, LinksAndFoldersOfThatNameStay) {
  WriteFile(folder_ / "kept", "kept");
  std::filesystem::create_symlink("kept", TemporaryName(folder_ / "a", 1));
  std::filesystem::create_directory(TemporaryName(folder_ / "a", 2));
  WriteFile(folder_ / "a", "whole");
  EXPECT_EQ(folder_.Count(), 4);
  EXPECT_EQ(ReadFile(folder_ / "kept"), "kept");
}

}  // namespace
}  // namespace qkv
