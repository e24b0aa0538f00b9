// Standard streams that are closed, full or gone, and limits of the system: work goes on where it can, and nothing is
// left half written.
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace qkv {
namespace {

// By bash: sh has no limit on a file's size in bytes, and no pipefail.
CommandOutput Bash(const std::string& command) {
  const TemporaryFolder folder;
  WriteFile(folder / "script", "qkv() { " QKV_PROGRAM " \"$@\"; }\n" + command + "\n");
  WriteFile(folder / "out", "");
  WriteFile(folder / "err", "");
  const int status = std::system(
      ("bash " + (folder / "script").string() + " >" + (folder / "out").string() + " 2>" + (folder / "err").string())
          .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ReadFile(folder / "out"),
          ReadFile(folder / "err")};
}

TEST(Streams, WorkGoesOnWithoutStderr) {
  const std::string wanted = Qkv("classify --json " + Digits()).out;
  ASSERT_FALSE(wanted.empty());
  for (const char* stderr_is : {"2>/dev/full", "2>&-", "2> >(exec 0<&-; sleep 1)"}) {
    const CommandOutput said = Bash("qkv classify --json " + Digits() + " " + stderr_is);
    EXPECT_EQ(said.exit_code, 0) << stderr_is;
    EXPECT_EQ(said.out, wanted) << stderr_is;
  }
  // Also what fails says so by its exit code at least.
  EXPECT_EQ(Bash("qkv classify /nonexistent.png 2>&-").exit_code, 1);
  EXPECT_EQ(Bash("qkv fly 2>&-").exit_code, 2);
}

// A file that is opened while stderr is closed must not take its number: messages would go into it.
TEST(Streams, MessagesDoNotGoIntoAFile) {
  const TemporaryFolder folder;
  const std::string file = (folder / "e.npy").string();
  ASSERT_EQ(Qkv("embed -o " + file + " " + Digits()).exit_code, 0);
  const std::string wanted = ReadFile(file);
  EXPECT_EQ(Bash("qkv embed -o " + file + " " + Digits() + " <&- >&- 2>&-").exit_code, 0);
  EXPECT_EQ(ReadFile(file), wanted);
}

TEST(Streams, DataThatCannotBeWrittenIsAnError) {
  for (const char* stdout_is : {">/dev/full", ">&-"}) {
    const CommandOutput said = Bash("qkv classify --json " + Digits() + " " + stdout_is);
    EXPECT_EQ(said.exit_code, 1) << stdout_is;
    EXPECT_TRUE(Contains(said.err, "cannot write to standard output")) << said.err;
  }
  // As every program ends that writes to a pipe which nobody reads: 128 + SIGPIPE.
  const CommandOutput piped = Bash("qkv classify --json " + Digits() + " | (exec <&-; sleep 1); exit ${PIPESTATUS[0]}");
  EXPECT_EQ(piped.exit_code, 128 + SIGPIPE) << piped.err;
  EXPECT_FALSE(Contains(piped.err, "cannot")) << piped.err;
}

TEST(Streams, ALimitOnFilesLeavesNothingBehind) {
  const TemporaryFolder folder;
  const std::string file = (folder / "tokens.npy").string();
  const CommandOutput said = Bash("ulimit -f 1\nqkv embed --pool tokens -o " + file + " " + Digits());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "cannot write " + file)) << said.err;
  EXPECT_EQ(folder.Count(), 0);
}

TEST(Streams, ErrorsOfTheSystemNameTheFile) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder / "b", folder / "a");
  std::filesystem::create_symlink(folder / "a", folder / "b");
  const std::string link = (folder / "a").string();
  for (const std::string& arguments : {"classify " + link, "info -m " + link}) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 1);
    EXPECT_TRUE(Contains(said.err, link + ": a symbolic link that leads back to itself")) << said.err;
  }
}

TEST(Streams, NamesCannotForgeALine) {
  const TemporaryFolder folder;
  const std::string name = "a\n  99.90 %  cat\x1b[2J.png";
  std::filesystem::copy_file(SourceFolder() / "examples/digits/8-black.png", folder / name);
  WriteFile(folder / "b\nqkv: all is well.png", "no picture");
  for (const char* command : {"classify ", "classify --json ", "embed "}) {
    const CommandOutput said = Qkv(command + folder.path().string());
    for (const std::string& text : {said.out, said.err}) {
      EXPECT_FALSE(Contains(text, "\x1b")) << text;
      EXPECT_FALSE(Contains(text, "\n  99.90")) << text;
      EXPECT_FALSE(Contains(text, "\nqkv: all is well")) << text;
    }
    EXPECT_TRUE(Contains(said.err, "\\x0aqkv: all is well")) << said.err;
  }
}

}  // namespace
}  // namespace qkv
