// The module for MPI is code: it is loaded only from where nobody but root and the user can have put it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

// A copy of the program beside what passes for its module; no real one, so that loading it fails with a message.
class Module : public testing::Test {
 protected:
  Module() {
    fs::create_directories(bin());
    fs::create_directories(folder_ / "lib/qkv");
    fs::copy_file(QKV_PROGRAM, bin() / "qkv");
  }
  fs::path bin() const { return folder_ / "bin"; }

  // Writes a module that only its owner can change.
  fs::path Plant(const fs::path& folder) const {
    const fs::path file = folder / "qkv_mpi.so";
    WriteFile(file, "no module");
    fs::permissions(file, fs::perms{0644});
    fs::permissions(folder, fs::perms{0755});
    return file;
  }
  std::string TrainingError() const {
    const std::string command = fmt::format("OMPI_COMM_WORLD_SIZE=2 {} train {} -o {} 2>&1", (bin() / "qkv").string(),
                                            (folder_ / "data").string(), (folder_ / "run").string());
    FILE* const pipe = ::popen(command.c_str(), "r");
    std::string said;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said.push_back(static_cast<char>(c));
    EXPECT_EQ(::pclose(pipe), 1 << 8) << said;
    return said;
  }
  void ExpectRefused(const fs::path& because, const std::string& reason) const {
    const std::string said = TrainingError();
    EXPECT_TRUE(Contains(said, "qkv_mpi.so is not loaded: " + because.string() + " " + reason)) << said;
  }

  const TemporaryFolder folder_;
};

TEST_F(Module, OfTheUserIsLoaded) {
  Plant(bin());
  EXPECT_TRUE(Contains(TrainingError(), "qkv_mpi.so cannot be loaded: ")) << TrainingError();
}

TEST_F(Module, ThatOthersCanWriteIsNotLoaded) {
  for (const fs::path& folder : {bin(), folder_ / "lib/qkv"}) {
    for (const mode_t more : {0020u, 0002u}) {
      const fs::path file = Plant(folder);
      ::chmod(file.c_str(), 0644 | more);
      ExpectRefused(file, "may be written to by others than its owner; to forbid that: chmod go-w ");
      ::chmod(file.c_str(), 0644);
      ::chmod(folder.c_str(), 0755 | more);
      ExpectRefused(folder, "may be written to by others than its owner; to forbid that: chmod go-w ");
      ::chmod(folder.c_str(), 01755 | more);  // as /tmp
      ExpectRefused(folder, "may be written to by others than its owner");
    }
    fs::remove(folder / "qkv_mpi.so");
  }
}

// It counts where the file lies, not where a link to it does.
TEST_F(Module, BehindALinkIsHeldToTheSame) {
  fs::create_directories(folder_ / "open");
  const fs::path file = Plant(folder_ / "open");
  fs::create_symlink(file, bin() / "qkv_mpi.so");
  EXPECT_TRUE(Contains(TrainingError(), "qkv_mpi.so cannot be loaded: ")) << TrainingError();
  ::chmod((folder_ / "open").c_str(), 0777);
  ExpectRefused(folder_ / "open", "may be written to by others than its owner");
}

TEST_F(Module, OfAnotherUserIsNotLoaded) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const fs::path file = Plant(folder_ / "lib/qkv");
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  ExpectRefused(file, "belongs to user 12345; expected root or the user who runs qkv");
  ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((folder_ / "lib/qkv").c_str(), 12345, 12345), 0);
  ExpectRefused(folder_ / "lib/qkv", "belongs to user 12345; expected root or the user who runs qkv");
}

}  // namespace
}  // namespace qkv
