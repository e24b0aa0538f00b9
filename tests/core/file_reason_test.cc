// The reason in a message is that of the call that failed, not of an earlier one.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"

namespace qkv {
namespace {

class FileReason : public testing::Test {
 protected:
  FileReason() {
    WriteFile(folder_ / "old", "old");
    for (const char* name : {"a", "b"}) std::filesystem::create_directory(folder_ / name);
  }
  ~FileReason() override {
    for (const SystemCall call : {SystemCall::kFsync, SystemCall::kSymlink, SystemCall::kNames}) FailCalls(call, 0, 0);
  }

  // What `work` says when its calls of this kind fail for want of room, though errno has another reason before.
  template <typename Work>
  static std::string Message(SystemCall call, Work work, int number = 1) {
    FailCalls(call, number, ENOSPC);
    const std::string message = ErrorMessage([&] {
      errno = ENOENT;
      work();
    });
    FailCalls(call, 0, 0);
    return message;
  }

  const TemporaryFolder folder_;
  const std::string full_ = ": No space left on device", old_ = "cannot write " + (folder_ / "old").string(),
                    new_ = "cannot write " + (folder_ / "new").string();
};

TEST_F(FileReason, OfAFlush) {
  EXPECT_EQ(Message(SystemCall::kFsync, [&] { WriteFile(folder_ / "old", "x"); }), old_ + full_);
  EXPECT_EQ(Message(SystemCall::kFsync, [&] { WriteFile(folder_ / "new", "x"); }), new_ + full_);
  EXPECT_EQ(Message(SystemCall::kFsync, [&] { FlushFolder(folder_.path()); }),
            "cannot write " + folder_.path().string() + full_);
  EXPECT_EQ(ReadFile(folder_ / "old"), "old");
  EXPECT_EQ(folder_.Count(), 3);
}

TEST_F(FileReason, OfAName) {
  EXPECT_EQ(Message(SystemCall::kNames, [&] { WriteFile(folder_ / "new", "x"); }), new_ + full_);
  EXPECT_EQ(Message(SystemCall::kNames, [&] { PointLink(folder_ / "new", "old"); }), new_ + full_);
  EXPECT_EQ(Message(SystemCall::kSymlink, [&] { PointLink(folder_ / "new", "old"); }), new_ + full_);
  EXPECT_EQ(Message(SystemCall::kNames, [&] { ExchangeFolders(folder_ / "a", folder_ / "b"); }),
            "cannot write " + (folder_ / "b").string() + full_);
}

TEST_F(FileReason, IsReadFirst) {
  errno = EDQUOT;
  EXPECT_EQ(ErrorMessage([&] { RequireCall(false, "mend", folder_ / "old"); }),
            "cannot mend " + (folder_ / "old").string() + ": Disk quota exceeded");
}

}  // namespace
}  // namespace qkv
