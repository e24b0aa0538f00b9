#include "qkv/core/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "qkv/core/error.h"
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

TEST(ReadFile, RefusesMoreThanTheLimit) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "12345");
  EXPECT_EQ(ReadFile(folder / "a", 5), "12345");
  EXPECT_THROW(ReadFile(folder / "a", 4), Error);
}

}  // namespace
}  // namespace qkv
