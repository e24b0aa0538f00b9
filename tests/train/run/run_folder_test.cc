// What a run saves is of one point in time, whenever the process ends: killed before or after any of its system calls,
// or left without room on the disk.
#include "qkv/train/run/run_folder.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>

#include "qkv/train/run/config.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// Everything that a moment consists of is its number.
struct Moment {
  explicit Moment(int at, bool is_best = true)
      : model(Tensor<float>({16})), moments(Tensor<float>({4096})), number(at), best(is_best) {
    std::fill_n(model.data(), model.size(), static_cast<float>(at));
    std::fill_n(moments.data(), moments.size(), static_cast<float>(at));
  }
  Snapshot snapshot() const {
    return {std::to_string(number),
            {io::Stored<float>("weight", model)},
            best,
            {io::Stored<float>("moments", moments)},
            std::to_string(number)};
  }
  Tensor<float> model, moments;
  int number;
  bool best;
};

// The one number that all values of a tensor are.
int NumberIn(const io::SafeTensors& file, const std::string& name) {
  const Tensor<float> tensor = io::Convert<float>(*file.Find(name));
  for (const float value : tensor.span()) EXPECT_EQ(value, tensor[0]) << name;
  return static_cast<int>(tensor[0]);
}
int NumberOfModel(const fs::path& folder) {
  const int number = NumberIn(io::SafeTensors::Open(folder / "model.safetensors"), "weight");
  EXPECT_EQ(std::stoi(ReadFile(folder / "config.json")), number);
  return number;
}

struct Found {
  int last = 0, best = 0;
  bool operator==(const Found&) const = default;
};
void PrintTo(const Found& found, std::ostream* out) { *out << "last " << found.last << ", best " << found.best; }

// As it would be read without knowing how it is kept; zeros where nothing is.
Found Look(const fs::path& run) {
  if (!fs::exists(run / "checkpoint")) {
    EXPECT_FALSE(fs::exists(run / "model.safetensors"));
    return {};
  }
  const Found found = {NumberOfModel(run / "last"), NumberOfModel(run / "best")};
  EXPECT_EQ(NumberOfModel(run), found.best);
  const auto training = io::SafeTensors::Open(run / "checkpoint/training.safetensors");
  EXPECT_EQ(NumberIn(training, "moments"), found.last);
  EXPECT_EQ(std::stoi(training.metadata().at("progress")), found.last);
  return found;
}

int CountLeftovers(const fs::path& run) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    count += name.starts_with("checkpoint-") || name.ends_with(".tmp");
  }
  return count;
}

void Begin(const fs::path& run) {
  fs::create_directories(run);
  WriteFile(run / RunFolder::kConfig, ToYaml(Resolve({})));
}

// Every file and link in a folder, with what is in it.
std::map<std::string, std::string> ReadContents(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder.parent_path()).string();
    contents[name] = entry.is_symlink()        ? "-> " + fs::read_symlink(entry.path()).string()
                     : entry.is_regular_file() ? ReadFile(entry.path())
                                               : "";
  }
  return contents;
}

TEST(RunFolder, KeepsTheLatestAndTheBest) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  Begin(run);
  RunFolder saved(run, true);
  EXPECT_FALSE(saved.HasCheckpoint());
  EXPECT_NE(ErrorMessage([&] { saved.Load(); }), "");
  saved.Commit(Moment(1, false).snapshot());
  EXPECT_EQ(Look(run), (Found{1, 1}));  // the first is the best, whatever it is
  saved.Commit(Moment(2).snapshot());
  saved.Commit(Moment(3, false).snapshot());
  saved.Commit(Moment(4, false).snapshot());
  EXPECT_EQ(Look(run), (Found{4, 2}));
  EXPECT_EQ(saved.Load().progress, "4");
  EXPECT_EQ(CountLeftovers(run), 1);
}

TEST(RunFolder, CanBeMoved) {
  const TemporaryFolder folder;
  Begin(folder / "run");
  RunFolder(folder / "run", true).Commit(Moment(1).snapshot());
  fs::rename(folder / "run", folder / "elsewhere");
  EXPECT_EQ(Look(folder / "elsewhere"), (Found{1, 1}));
}

TEST(RunFolder, TakesNoOtherFolder) {
  const TemporaryFolder folder;
  WriteFile(folder / "thesis.txt", "");
  EXPECT_NE(ErrorMessage([&] { RunFolder(folder.path(), true); }).find("holds no training run"), std::string::npos);
  Begin(folder / "run");
  EXPECT_THROW(RunFolder(folder / "run", false), RunFolderTaken);
}

// Whatever the names in it: they could be ours, and are not.
TEST(RunFolder, RefusesBeforeAByteIsChanged) {
  for (const char* name : {"notes.tmp", "config.yaml.1-2.tmp", "checkpoint-3/model.bin", "config.yaml.qkv-1-2.tmp/a",
                           "config.yaml", "maps/a.png"}) {
    const TemporaryFolder folder;
    fs::create_directories((folder / name).parent_path());
    WriteFile(folder / name, "lr: 1e-3\n");
    WriteFile(folder / "config.yaml.qkv-7-1.tmp", "preset: vit-d");
    const auto before = ReadContents(folder.path());
    for (const bool resume : {false, true}) {
      const std::string said = ErrorMessage([&] { RunFolder(folder.path(), resume); });
      EXPECT_NE(said.find("holds no training run"), std::string::npos) << name << ": " << said;
      EXPECT_EQ(ReadContents(folder.path()), before) << name;
    }
  }
}

TEST(RunFolder, KnowsARunByItsConfiguration) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  Begin(run);
  RunFolder(run, true).Commit(Moment(1).snapshot());
  for (const char* config : {"", "preset: vit-digits\n"}) {
    WriteFile(run / RunFolder::kConfig, config);
    const std::string said = ErrorMessage([&] { RunFolder(run, true); });
    EXPECT_NE(said.find("put back the file"), std::string::npos) << said;
  }
  Begin(run);
  EXPECT_TRUE(RunFolder(run, true).HasCheckpoint());
  // What stands where a run has links of its own is never replaced.
  fs::remove(run / "model.safetensors");
  WriteFile(run / "model.safetensors", "mine");
  EXPECT_NE(ErrorMessage([&] { RunFolder(run, true); }).find("model.safetensors"), std::string::npos);
  EXPECT_EQ(ReadFile(run / "model.safetensors"), "mine");
}

TEST(RunFolder, RemovesNothingThatIsNotItsOwn) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  Begin(run);
  RunFolder(run, true).Commit(Moment(1).snapshot());
  for (const char* name : {"notes.tmp", "draft.tmp/a", "checkpoint-2/model.safetensors", "checkpoint-99/last/mine",
                           "log.jsonl.1-2.tmp", "checkpoint.qkv-x-1.tmp"}) {
    fs::create_directories((run / name).parent_path());
    WriteFile(run / name, name);
  }
  WriteFile(run / "log.jsonl.qkv-1-2.tmp", "ours");
  fs::create_symlink("checkpoint-98", run / "checkpoint-97");
  const auto before = ReadContents(run);
  {
    RunFolder saved(run, true);
    EXPECT_FALSE(fs::exists(run / "log.jsonl.qkv-1-2.tmp"));
    saved.Commit(Moment(2).snapshot());
    saved.Commit(Moment(3).snapshot());
    EXPECT_EQ(Look(run), (Found{3, 3}));
  }
  const auto after = ReadContents(run);
  for (const auto& [name, content] : before) {
    const bool ours =
        name.find("checkpoint-1") != name.npos || name == "run/checkpoint" || name.find(".qkv-1-2") != name.npos;
    if (!ours) {
      EXPECT_TRUE(after.contains(name) && after.at(name) == content) << name;
    }
  }
  EXPECT_FALSE(fs::exists(run / "checkpoint-1"));
  // A file that was put into a checkpoint outlives it.
  WriteFile(run / "checkpoint/last/notes.txt", "mine");
  const fs::path kept = run / fs::read_symlink(run / "checkpoint") / "last";
  RunFolder(run, true).Commit(Moment(4).snapshot());
  EXPECT_EQ(ReadFile(kept / "notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(kept / "model.safetensors"));
}

TEST(RunFolder, TakesWhatAKilledProcessHasHardlyBegun) {
  const TemporaryFolder folder;
  WriteFile(folder / "config.yaml.qkv-77-1.tmp", "preset: vit-d");
  const RunFolder run(folder.path(), false);
  EXPECT_FALSE(run.HasCheckpoint());
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_THROW(RunFolder(folder.path(), true), RunFolderBusy);
}

TEST(RunFolder, IsOneProcesss) {
  const TemporaryFolder folder;
  Begin(folder / "run");
  const RunFolder mine(folder / "run", true);
  EXPECT_NE(ErrorMessage([&] { RunFolder(folder / "run", true); }).find("another process"), std::string::npos);
}

// Runs `body` in a process of its own, and kills that when it has begun or ended `stops` system calls.
// Returns whether it was still there to be killed.
bool KilledAfter(int stops, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  for (int i = 0; i < stops && WIFSTOPPED(status); ++i) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
  }
  ::kill(child, SIGKILL);
  while (WIFSTOPPED(status)) ::waitpid(child, &status, 0);
  return true;
}

bool CanTrace() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Kills a commit of `next` at every one of its system calls; what is found is `before` or `after`, and goes on.
void KillEverywhere(const std::vector<Moment>& earlier, const Moment& next, const Found& before, const Found& after) {
  if (!CanTrace()) GTEST_SKIP() << "no process may be traced here";
  const TemporaryFolder folder;
  const fs::path begun = folder / "begun", run = folder / "run";
  Begin(begun);
  for (const Moment& moment : earlier) RunFolder(begun, true).Commit(moment.snapshot());
  int old = 0, renewed = 0;
  // Every second stop: what a call has done is seen where it ends and where the next one begins.
  for (int stops = 1;; stops += 2) {
    fs::remove_all(run);
    fs::copy(begun, run, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const bool killed = KilledAfter(stops, [&] { RunFolder(run, true).Commit(next.snapshot()); });
    const Found found = Look(run);
    ASSERT_TRUE(found == before || found == after)
        << "killed at stop " << stops << ": " << testing::PrintToString(found);
    ++(found == before ? old : renewed);
    RunFolder(run, true).Commit(Moment(9).snapshot());
    ASSERT_EQ(Look(run), (Found{9, 9})) << "killed at stop " << stops;
    ASSERT_EQ(CountLeftovers(run), 1) << "killed at stop " << stops;
    if (!killed) break;
  }
  // Both sides of the one instant were met.
  EXPECT_GT(old, 20);
  EXPECT_GT(renewed, 5);
}

// What is left of a start can be started again, or is a run that can be resumed.
TEST(RunFolder, SurvivesAnyKillOfItsStart) {
  if (!CanTrace()) GTEST_SKIP() << "no process may be traced here";
  int fresh = 0, begun = 0;
  for (int stops = 1;; stops += 2) {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    const bool killed = KilledAfter(stops, [&] {
      const RunFolder made(run, false);
      WriteFile(run / RunFolder::kConfig, ToYaml(Resolve({})));
    });
    const bool resumed = fs::exists(run / RunFolder::kConfig);
    ++(resumed ? begun : fresh);
    RunFolder again(run, resumed);
    EXPECT_EQ(std::distance(fs::directory_iterator(run), {}), resumed ? 1 : 0) << "killed at stop " << stops;
    Begin(run);
    again.Commit(Moment(9).snapshot());
    ASSERT_EQ(Look(run), (Found{9, 9})) << "killed at stop " << stops;
    if (!killed) break;
  }
  EXPECT_GT(fresh, 5);
  EXPECT_GT(begun, 0);
}

TEST(RunFolder, SurvivesAnyKillOfTheFirstCommit) { KillEverywhere({}, Moment(1), {}, {1, 1}); }

TEST(RunFolder, SurvivesAnyKillOfABetterCommit) {
  std::vector<Moment> earlier;
  earlier.emplace_back(1);
  KillEverywhere(earlier, Moment(2), {1, 1}, {2, 2});
}

TEST(RunFolder, SurvivesAnyKillOfAWorseCommit) {
  std::vector<Moment> earlier;
  earlier.emplace_back(1);
  KillEverywhere(earlier, Moment(2, false), {1, 1}, {2, 1});
}

// While it lives no file can grow beyond `bytes`, as on a disk that is full.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small = {bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit limit_{};
  void (*handler_)(int);
};

TEST(RunFolder, KeepsTheOldWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  Begin(run);
  RunFolder saved(run, true);
  saved.Commit(Moment(1).snapshot());
  const Moment next(2);
  for (const rlim_t bytes : {0, 100, 1000, 10000}) {  // of 16 KiB
    std::string message;
    {
      const SmallDisk disk(bytes);
      message = ErrorMessage([&] { saved.Commit(next.snapshot()); });
    }
    EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
    EXPECT_EQ(Look(run), (Found{1, 1}));
    EXPECT_EQ(CountLeftovers(run), 1);
  }
  saved.Commit(next.snapshot());
  EXPECT_EQ(Look(run), (Found{2, 2}));
}

TEST(RunFolder, NamesADamagedFile) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  Begin(run);
  RunFolder saved(run, true);
  saved.Commit(Moment(1).snapshot());
  fs::resize_file(run / "checkpoint/training.safetensors", 100);
  EXPECT_NE(ErrorMessage([&] { saved.Load(); }).find("training.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace qkv::train
