#include "qkv/core/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv {
namespace {

TEST(WriteFile, WritesAndReplaces) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "first");
  WriteFile(folder / "a", "second");
  EXPECT_EQ(ReadFile(folder / "a"), "second");
  EXPECT_EQ(folder.Count(), 1);
}

TEST(WriteFile, KeepsTheOldFileWhenTheWriterFails) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "old");
  EXPECT_THROW(WriteFile(folder / "a",
                         [](FileSink& sink) {
                           sink.Write("half of the n");
                           Fail("the writer failed");
                         }),
               Error);
  EXPECT_EQ(ReadFile(folder / "a"), "old");
  EXPECT_EQ(folder.Count(), 1);  // the temporary file is gone
}

TEST(WriteFile, SaysThatTheDiskIsFull) {
  struct stat status;
  if (::stat("/dev/full", &status) != 0) GTEST_SKIP() << "no /dev/full here";
  try {
    WriteFile("/dev/full", std::string(1 << 16, 'x'));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
  }
}

TEST(WriteFile, KeepsTheOldFilesPermissions) {
  const TemporaryFolder folder;
  const std::string path = folder / "a";
  WriteFile(path, "secret");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  struct stat status;
  WriteFile(path, [&](FileSink& sink) {
    sink.Write("more of it");
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 0777, 0600u) << entry.path();
    }
  });
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(WriteFile, NamesItsTemporaryFileSoThatItCanBeTold) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", [&](FileSink& sink) {
    sink.Write("x");
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      EXPECT_TRUE(IsTemporaryNameFor(entry.path().filename().native(), "a"));
      EXPECT_FALSE(IsTemporaryNameFor(entry.path().filename().native(), "b"));
    }
  });
  EXPECT_TRUE(IsTemporaryNameFor("a.qkv-12-3.tmp", "a"));
  for (const char* other : {"a.tmp", "a.qkv-.tmp", "a.qkv-12-.tmp", "a.qkv-1-2-3.tmp", "a.qkv-1-x.tmp", "a", "",
                            "a.qkv-1-2.tmp.txt", "b.qkv-1-2.tmp", "a.12-3.tmp"}) {
    EXPECT_FALSE(IsTemporaryNameFor(other, "a")) << other;
  }
}

TEST(WriteFile, SaysThatTheFolderIsMissing) { EXPECT_THROW(WriteFile("/nonexistent/a", "x"), Error); }

TEST(MappedFile, SeesTheBytes) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "bytes");
  const MappedFile file(folder / "a");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()), "bytes");
}

TEST(MappedFile, AcceptsAnEmptyFile) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "");
  EXPECT_TRUE(MappedFile(folder / "a").bytes().empty());
}

TEST(MappedFile, RefusesFoldersAndMissingFiles) {
  const TemporaryFolder folder;
  EXPECT_THROW(MappedFile(folder.path()), Error);
  EXPECT_THROW(MappedFile(folder / "missing"), Error);
}

TEST(MappedFile, DoesNotWaitForAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(MappedFile(folder / "pipe"), Error);
}

TEST(MappedFile, SurvivesThatItsFileBecomesShorter) {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  const std::string text(1 << 20, 'x');
  WriteFile(path, text);
  MappedFile file(path);
  file.RequireUnchanged("a");
  ASSERT_EQ(::truncate(path.c_str(), 100'000), 0);
  size_t letters = 0, zeros = 0;
  for (const std::byte byte : file.bytes()) ++(byte == std::byte{0} ? zeros : letters);
  EXPECT_EQ(letters, 100'000u);
  EXPECT_EQ(zeros, text.size() - 100'000);
  EXPECT_EQ(ErrorMessage([&] { file.RequireUnchanged("a"); }), "a: the file was changed while it was read");
  // It stays refused, wherever it is moved, though the file is as long as before.
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(text.size())), 0);
  const MappedFile moved = std::move(file);
  EXPECT_THROW(moved.RequireUnchanged("a"), Error);
  MappedFile(path).RequireUnchanged("a");
}

TEST(MappedFile, TellsThatItsFileWasWrittenTo) {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  WriteFile(path, "bytes");
  const MappedFile file(path);
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  const timespec later[2] = {status.st_atim, {status.st_mtim.tv_sec + 1, 0}};
  { std::fstream(path) << "B"; }
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), later, 0), 0);
  EXPECT_THROW(file.RequireUnchanged("a"), Error);
}

TEST(MappedFile, IsWholeWhenItsNameIsAnothersOrGone) {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  WriteFile(path, "old");
  const MappedFile file(path);
  WriteFile(path, "new!");
  file.RequireUnchanged("a");
  std::filesystem::remove(path);
  file.RequireUnchanged("a");
  EXPECT_EQ(static_cast<char>(file.bytes()[0]), 'o');
}

// A fault that is none of a MappedFile's ends the process as ever, or goes to who was asked before.
TEST(MappedFileDeathTest, LeavesOtherFaultsAlone) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "bytes");
  const MappedFile file(folder / "a");
  EXPECT_DEATH(::raise(SIGBUS), "");  // by the signal, or by a sanitizer that was asked before
}

TEST(ExchangeFolders, PutsEachInTheOthersPlace) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(folder / name);
    WriteFile(folder / name / "file", name);
  }
  ExchangeFolders(folder / "a", folder / "b");
  EXPECT_EQ(ReadFile(folder / "b" / "file"), "a");
  EXPECT_EQ(ReadFile(folder / "a" / "file"), "b");
  EXPECT_EQ(folder.Count(), 2);
  EXPECT_THROW(ExchangeFolders(folder / "a", folder / "missing"), Error);
}

TEST(ReadFile, CanBeCancelled) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "12345");
  const CancelScope scope([] { return true; }, CancelChecks::kInTasks);
  EXPECT_THROW(ReadFile(folder / "a"), Cancelled);
}

TEST(ReadFile, RefusesMoreThanTheLimit) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "12345");
  EXPECT_EQ(ReadFile(folder / "a", 5), "12345");
  EXPECT_THROW(ReadFile(folder / "a", 4), Error);
}

}  // namespace
}  // namespace qkv
