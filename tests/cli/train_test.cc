// qkv train as its users run it, on images of 8 x 8 pixels: what it writes, and that nothing that ends it changes what
// it comes to.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <numeric>
#include <random>

#include "qkv/core/rng.h"
#include "qkv/io/npy.h"
#include "tests/cli/program.h"
#include "tests/cli/training.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class Train : public testing::Test {
 protected:
  Train() {
    DrawImages(folder_ / "data/train", 16, 1);
    DrawImages(folder_ / "data/val", 6, 2);
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // A model of a few thousand parameters, in a few dozen steps; everything random is on.
  std::string Arguments(const std::string& run, const std::string& more = "") const {
    return fmt::format(
        "train {} -o {} --preset vit-digits --image-size 8 --patch-size 4 --width 16 --depth 2 --heads 2 --pad 1 "
        "--batch 12 --epochs 10 --lr 3e-3 --threads 2 --dropout 0.1 --attention-dropout 0.1 --drop-path 0.1 --mixup "
        "0.2 "
        "--ema 0.9 --erase 0.1 --log-steps 2 --save-steps 1 {}",
        Path("data"), Path(run), more);
  }

  const TemporaryFolder folder_;
};

TEST_F(Train, LearnsAndSavesAModelThatAnswers) {
  const CommandOutput said = Qkv(
      Arguments("run", "--epochs 40 --lr 1e-2 --dropout 0 --attention-dropout 0 --drop-path 0 --mixup 0 --erase 0"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "qkv evaluate -m")) << said.err;
  EXPECT_TRUE(Contains(said.err, "48 images")) << said.err;
  for (const char* file : {"model.safetensors", "config.json", "best/model.safetensors", "last/config.json",
                           "config.yaml", "log.jsonl", "curves.svg", "command"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  }
  EXPECT_TRUE(Contains(ReadFile(folder_ / "run/command"), "--preset vit-digits"));
  const std::vector<io::Json> log = JsonLines(ReadFile(folder_ / "run/log.jsonl"));
  const auto last =
      std::find_if(log.rbegin(), log.rend(), [](const io::Json& x) { return x["event"] == "evaluation"; });
  ASSERT_NE(last, log.rend());
  EXPECT_EQ((*last)["step"], 40 * 4);
  EXPECT_GT((*last)["top1"], 0.9);

  const CommandOutput answers = Qkv("classify --json -m " + Path("run") + " " + Path("data/val/right"));
  ASSERT_EQ(answers.exit_code, 0) << answers.err;
  int right = 0;
  const std::vector<io::Json> lines = JsonLines(answers.out);
  for (const io::Json& line : lines) right += line["top"][0]["label"] == "right";
  EXPECT_EQ(lines.size(), 6u);
  EXPECT_GE(right, 5);
}

// The program on its way; what it says goes to a file.
pid_t Start(const std::string& arguments, const fs::path& err, const std::string& before = "") {
  const std::string command = before + "exec " QKV_PROGRAM " " + arguments + " 2>" + err.string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGHUP, SIG_DFL);  // which the tests may have inherited as ignored, from nohup
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  return child;
}

// How many times the run has saved: of a new run with --save-steps 1, the steps that are safe.
int64_t Saved(const fs::path& run) {
  std::error_code error;
  const std::string target = fs::read_symlink(run / "checkpoint", error).string();
  return error ? 0 : std::stoll(target.substr(target.rfind('-') + 1));
}

// The instants are spread over the whole run by its steps, so that they are on any machine: from the start of a
// process, while it reads what was saved, to the middle of writing the next.
TEST_F(Train, KilledTwentyTimesItComesToTheSameBits) {
  constexpr int kKills = 20;
  constexpr int64_t kSteps = 160, kLast = 120;  // those behind the last kill are there for a machine that looks late
  const uint64_t seed = std::random_device{}();
  std::cout << "instants by seed " << seed << "\n";
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(Qkv(Arguments("whole", "--epochs 40")).exit_code, 0);
  const std::chrono::duration<double, std::micro> whole = std::chrono::steady_clock::now() - begin;

  Rng rng(seed);
  std::vector<int64_t> steps(kKills);
  for (int64_t& step : steps) step = static_cast<int64_t>(rng.Uniform() * kLast);
  std::sort(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    const pid_t child = Start(Arguments("killed", "--epochs 40 --resume"), folder_ / "err");
    int status = 0;
    while (Saved(folder_ / "killed") < step) {
      ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "it ended before step " << step;
      ::usleep(100);
    }
    // Somewhere in about two steps; where it had come this far before, in the start of a process.
    ::usleep(static_cast<useconds_t>(rng.Uniform() * 2 * whole.count() / kSteps));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed: " << ReadFile(folder_ / "err");
  }
  const CommandOutput said = Qkv(Arguments("killed", "--epochs 40 --resume"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  ExpectSameResult(folder_ / "whole", folder_ / "killed");
}

// Starts the program, sends it a signal when `when` is there, and waits.
CommandOutput Signalled(const std::string& arguments, const fs::path& when, int signal, int times) {
  const TemporaryFolder folder;
  const pid_t child = Start(arguments, folder / "err");
  int status = 0;
  while (!fs::exists(when) && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(1000);
  for (int i = 0; i < times; ++i) ::kill(child, signal);
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), "", ReadFile(folder / "err")};
}

TEST_F(Train, SavesAndSaysHowToGoOnWhenItIsInterrupted) {
  ASSERT_EQ(Qkv(Arguments("whole")).exit_code, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const std::string run = fmt::format("stopped-{}", signal);
    const CommandOutput said = Signalled(Arguments(run), folder_ / run / "checkpoint", signal, 1);
    EXPECT_EQ(said.exit_code, 128 + signal) << said.err;
    EXPECT_TRUE(Contains(said.err, "saved; to continue: qkv train")) << said.err;
    EXPECT_TRUE(Contains(said.err, "a second signal ends at once")) << said.err;
    ASSERT_EQ(Qkv(Arguments(run, "--resume")).exit_code, 0);
    ExpectSameResult(folder_ / "whole", folder_ / run);
  }
  // A second one ends it at once; what there is goes on as after any other end.
  EXPECT_EQ(Signalled(Arguments("twice"), folder_ / "twice/checkpoint", SIGINT, 2).exit_code, 128 + SIGINT);
  ASSERT_EQ(Qkv(Arguments("twice", "--resume")).exit_code, 0);
  ExpectSameResult(folder_ / "whole", folder_ / "twice");
}

// A run that is stopped behind a step that an evaluation belongs to makes it when it goes on.
TEST_F(Train, AnEvaluationThatWasNotMadeIsMadeLater) {
  const std::string often = "--eval-steps 1 --epochs 400";
  ASSERT_EQ(Qkv(Arguments("whole", "--eval-steps 1 --epochs 8")).exit_code, 0);
  for (int i = 0; i < 6; ++i) {
    const std::string run = fmt::format("stopped-{}", i);
    const CommandOutput said = Signalled(Arguments(run, often), folder_ / run / "checkpoint", SIGTERM, 1);
    ASSERT_EQ(said.exit_code, 128 + SIGTERM) << said.err;
    const int64_t steps = Saved(folder_ / run);
    ASSERT_GT(steps, 0);
    fs::remove(folder_ / run / "curves.svg");  // is there again after the next evaluation
    const CommandOutput again =
        Signalled(Arguments(run, often + " --resume"), folder_ / run / "curves.svg", SIGTERM, 1);
    ASSERT_EQ(again.exit_code, 128 + SIGTERM) << again.err;
    // One after each step that was taken, but perhaps the last.
    std::vector<int64_t> evaluated;
    for (const io::Json& line : ReadEvaluations(folder_ / run)) evaluated.push_back(line["step"]);
    for (size_t at = 0; at < evaluated.size(); ++at) EXPECT_EQ(evaluated[at], static_cast<int64_t>(at) + 1);
  }
}

// nohup's children outlive their terminal.
TEST_F(Train, AnIgnoredHangupStaysIgnored) {
  const TemporaryFolder folder;
  const pid_t child = Start(Arguments("run"), folder / "err", "trap '' HUP; ");
  int status = 0;
  while (!fs::exists(folder_ / "run/checkpoint") && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(1000);
  for (int i = 0; i < 2; ++i) ::kill(child, SIGHUP);
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << ReadFile(folder / "err");
}

// The model is so large that no step ends within the test.
TEST_F(Train, HearsASignalWhateverAStepDoes) {
  const TemporaryFolder folder;
  const pid_t child = Start(fmt::format("train {} -o {} --preset vit-small --depth 48 --batch 48 --accumulate 64 "
                                        "--warmup-epochs 0 --steps 5 --threads 1",
                                        Path("data"), Path("slow")),
                            folder / "err");
  int status = 0;
  while (!fs::exists(folder_ / "slow/command") && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(1000);
  ::usleep(200'000);
  ::kill(child, SIGHUP);
  ::usleep(500'000);
  EXPECT_TRUE(Contains(ReadFile(folder / "err"), "a second signal ends at once")) << ReadFile(folder / "err");
  const auto begin = std::chrono::steady_clock::now();
  ::kill(child, SIGTERM);  // of another kind
  ::waitpid(child, &status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM) << status;
}

TEST_F(Train, KeepsWhatItHasWhenTheDiskIsFull) {
  ASSERT_EQ(Qkv(Arguments("whole")).exit_code, 0);
  // In blocks of 512 bytes; the state of training has more, the log will have.
  const CommandOutput full = Qkv(Arguments("full"), "trap '' XFSZ; ulimit -f 20;");
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_TRUE(Contains(full.err, "cannot write")) << full.err;
  const CommandOutput resumed = Qkv(Arguments("full", "--resume"));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  ExpectSameResult(folder_ / "whole", folder_ / "full");
}

TEST_F(Train, AFinishedRunGoesOnForMoreSteps) {
  ASSERT_EQ(Qkv(Arguments("more", "--steps 4")).exit_code, 0);
  const CommandOutput less = Qkv(Arguments("more", "--steps 3 --resume"));
  EXPECT_EQ(less.exit_code, 1);
  EXPECT_TRUE(Contains(less.err, "has taken 4 steps")) << less.err;
  const CommandOutput more = Qkv(Arguments("more", "--steps 9 --resume"));
  ASSERT_EQ(more.exit_code, 0) << more.err;
  const std::vector<io::Json> log = JsonLines(ReadFile(folder_ / "more/log.jsonl"));
  EXPECT_EQ(log.back()["step"], 9);
  // The next --resume is of the longer run.
  EXPECT_TRUE(Contains(ReadFile(folder_ / "more/config.yaml"), "steps: 9"));
}

TEST_F(Train, TakesTheStepsThatFitIntoItsMinutes) {
  const auto arguments = [this](const std::string& more) {
    std::string text = Arguments("timed", more);
    const std::string epochs = "--epochs 10 ";
    return text.erase(text.find(epochs), epochs.size());
  };
  const auto steps = [this] {
    const std::string settings = ReadFile(folder_ / "timed/config.yaml"), key = "\nsteps: ";
    EXPECT_TRUE(Contains(settings, "\nminutes: 0\n")) << settings;
    return std::stoll(settings.substr(settings.find(key) + key.size()));
  };
  const CommandOutput said = Qkv(arguments("--minutes 0.02"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, " parameters: the steps that fit into 0.02 minutes, of 12 of 48 images\n"))
      << said.err;
  const int64_t taken = steps();
  EXPECT_GE(taken, 3);
  EXPECT_EQ(JsonLines(ReadFile(folder_ / "timed/log.jsonl")).back()["step"], taken);
  // Resumed, it is a run of these steps; or of those that fit into more minutes.
  ASSERT_EQ(Qkv(arguments("--resume")).exit_code, 0);
  EXPECT_EQ(steps(), taken);
  ASSERT_EQ(Qkv(arguments("--resume --minutes 0.001")).exit_code, 0);
  EXPECT_GT(steps(), taken);

  const CommandOutput both = Qkv(arguments("--resume --minutes 1 --steps 5"));
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_TRUE(Contains(both.err, "minutes is instead of steps; give one of them")) << both.err;
}

TEST_F(Train, ContinuesFromACheckpoint) {
  const CommandOutput said = Qkv(fmt::format("train {} -o {} -m {} --epochs 2 --batch 12 --image-size 32x16",
                                             Path("data"), Path("run"), Golden("timm_grey")));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const CommandOutput info = Qkv("info --json -m " + Path("run"));
  ASSERT_EQ(info.exit_code, 0) << info.err;
  const CommandOutput answers = Qkv("classify --json -m " + Path("run") + " " + Path("data/val/left/0.png"));
  ASSERT_EQ(answers.exit_code, 0) << answers.err;
  EXPECT_EQ(JsonLines(answers.out)[0]["top"].size(), 3u);
}

// DINOv2 as published: positions for a larger image than its preprocessing makes.
TEST_F(Train, SaysHowLongItTakesAndThatARunIsNew) {
  const CommandOutput said = Qkv(Arguments("typo", "--steps 5 --resume"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "there is no run " + Path("typo") + " yet: a new one begins")) << said.err;
  const size_t start = said.err.find("qkv: vit-digits, "), estimate = said.err.find("5 steps in all, about ");
  EXPECT_TRUE(Contains(said.err, " parameters: 5 steps of 12 of 48 images\n")) << said.err;
  EXPECT_LT(start, estimate) << said.err;
  ASSERT_NE(estimate, std::string::npos) << said.err;
  int64_t parameters = 0;
  const auto model = io::SafeTensors::Open(folder_ / "typo/last/model.safetensors");
  for (const io::StoredTensor& tensor : model.tensors()) parameters += tensor.shape.size();
  EXPECT_TRUE(Contains(said.err.substr(start),
                       fmt::format("vit-digits, {},{:03} parameters", parameters / 1000, parameters % 1000)))
      << said.err;
  const CommandOutput resumed = Qkv(Arguments("typo", "--steps 6 --resume --accumulate 1"));
  EXPECT_FALSE(Contains(resumed.err, "a new one begins")) << resumed.err;
  EXPECT_TRUE(Contains(resumed.err, " parameters: 6 steps of 12 of 48 images, 5 taken before\n")) << resumed.err;
}

TEST_F(Train, TakesTheSizeOfThePreprocessing) {
  const fs::path model = folder_ / "dinov2";
  fs::create_directories(model);
  WriteChanged("hf_dinov2", model, [](const std::string&, Tensor<float>&) {});
  io::Json preprocessor = io::Json::parse(ReadFile(Golden("hf_dinov2") + "/preprocessor_config.json"));
  preprocessor["size"] = {{"shortest_edge", 20}};
  preprocessor["crop_size"] = {{"height", 16}, {"width", 16}};
  WriteFile(model / "preprocessor_config.json", preprocessor.dump());
  const int64_t patch = io::Json::parse(ReadFile(model / "config.json"))["patch_size"];
  ASSERT_EQ(16 % patch, 0);
  const CommandOutput said =
      Qkv(fmt::format("train {} -o {} -m {} --steps 2 --batch 12", Path("data"), Path("run"), model.string()));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "images of 16x16 as the model's preprocessing")) << said.err;
  const io::Json config = io::Json::parse(ReadFile(folder_ / "run/config.json"));
  EXPECT_EQ(config["pretrained_cfg"]["input_size"], io::Json({3, 16, 16})) << config;
  const CommandOutput answers = Qkv("classify --json -m " + Path("run") + " " + Path("data/val/left/0.png"));
  ASSERT_EQ(answers.exit_code, 0) << answers.err;
}

TEST_F(Train, ContinuesOnTheModelsBackground) {
  const fs::path model = folder_ / "dark";
  fs::create_directories(model);
  WriteChanged("timm_grey", model, [](const std::string&, Tensor<float>&) {});
  io::Json config = io::Json::parse(ReadFile(model / "config.json"));
  config["qkv_background"] = "dark";
  WriteFile(model / "config.json", config.dump());
  const CommandOutput said =
      Qkv(fmt::format("train {} -o {} -m {} --steps 1 --batch 12", Path("data"), Path("run"), Path("dark")));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "bright background")) << said.err;
  EXPECT_EQ(io::Json::parse(ReadFile(folder_ / "run/config.json"))["qkv_background"], "dark");
}

TEST_F(Train, SaysWhatBackgroundThePresetIsFor) {
  const auto config = [&](const char* run, const char* more) {
    EXPECT_EQ(Qkv(Arguments(run, fmt::format("--steps 1 {}", more))).exit_code, 0);
    return io::Json::parse(ReadFile(folder_ / run / "config.json"));
  };
  EXPECT_EQ(config("digits", "").at("qkv_background"), "dark");
  EXPECT_FALSE(config("any", "--background any").contains("qkv_background"));
}

TEST_F(Train, EvaluatesAsOftenAsItIsTold) {
  ASSERT_EQ(Qkv(Arguments("run", "--epochs 2 --eval-steps 3 --maps 1")).exit_code, 0);
  std::vector<int64_t> steps, epochs;
  for (const io::Json& line : ReadEvaluations(folder_ / "run")) {
    steps.push_back(line["step"]), epochs.push_back(line["epoch"]);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 6, 8}));  // of four steps an epoch, and the last
  EXPECT_EQ(epochs, (std::vector<int64_t>{1, 2, 2}));
  EXPECT_TRUE(fs::exists(folder_ / "run/maps/epoch-0002.png"));
}

// A preset's warm-up may be longer than a short run.
TEST_F(Train, ComesToItsLearningRateHoweverShortTheRun) {
  for (const char* length : {"--steps 8", "--epochs 2"}) {
    const CommandOutput said = Qkv(Arguments("run", fmt::format("{} --warmup-epochs 5 --log-steps 1", length)));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_TRUE(Contains(said.err, "rises for 4 of its 8 steps")) << said.err;
    std::vector<double> rates;
    for (const io::Json& line : JsonLines(ReadFile(folder_ / "run/log.jsonl"))) {
      if (line["event"] == "train") rates.push_back(line["learning_rate"]);
    }
    ASSERT_EQ(rates.size(), 8u);
    EXPECT_EQ(std::max_element(rates.begin(), rates.end()) - rates.begin(), 4);
    EXPECT_DOUBLE_EQ(rates[4], 3e-3);
    EXPECT_LT(rates[7], 1e-3);
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(Train, DrawsWhereItLooksAfterEachEpoch) {
  ASSERT_EQ(Qkv(Arguments("run", "--epochs 3 --maps 4")).exit_code, 0);
  const fs::path maps = folder_ / "run/maps";
  std::vector<Tensor<float>> of_epochs;
  for (int epoch = 1; epoch <= 3; ++epoch) {
    of_epochs.push_back(io::ReadNpy<float>(maps / fmt::format("epoch-000{}.npy", epoch)));
    const Tensor<float>& weights = of_epochs.back();
    ASSERT_EQ(weights.shape(), (Shape{4, 2, 2, 2}));
    for (int64_t map = 0; map < 8; ++map) {  // four patches and the class token share 1
      const float sum = std::accumulate(weights.data() + 4 * map, weights.data() + 4 * map + 4, 0.0f);
      EXPECT_GT(sum, 0.2f);
      EXPECT_LT(sum, 1.0f);
    }
    EXPECT_GT(image::DecodeFile(maps / fmt::format("epoch-000{}.png", epoch)).width(), 3 * 72);
  }
  EXPECT_FALSE(std::ranges::equal(of_epochs[0].span(), of_epochs[2].span()));
  const image::Image epochs = image::DecodeFile(maps / "epochs.png");
  EXPECT_GT(epochs.width(), 4 * 72);
  EXPECT_GT(epochs.height(), 4 * 72);
  // The last epoch's are of the model that was saved as the last.
  const CommandOutput attended = Qkv(fmt::format("attend -m {} --layer all --query cls -o {} {}", Path("run/last"),
                                                 Path("left.npy"), Path("data/val/left/0.png")));
  ASSERT_EQ(attended.exit_code, 0) << attended.err;
  ASSERT_EQ(Qkv(Arguments("own", "--epochs 3 --maps " + Path("data/val/left/0.png"))).exit_code, 0);
  const Tensor<float> own = io::ReadNpy<float>(folder_ / "own/maps/epoch-0003.npy");
  const Tensor<float> expected = io::ReadNpy<float>(folder_ / "left.npy");  // [2, 1, 1, 5]
  for (int64_t block = 0; block < 2; ++block) {
    for (int64_t patch = 0; patch < 4; ++patch) {
      EXPECT_NEAR(own[4 * block + patch], expected[5 * block + 1 + patch], 1e-5f);
    }
  }

  ASSERT_EQ(Qkv(Arguments("none", "--epochs 1 --maps 0")).exit_code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "none/maps"));
  const CommandOutput many = Qkv(Arguments("many", "--maps 1000"));
  EXPECT_EQ(many.exit_code, 1);
  EXPECT_TRUE(Contains(many.err, "expected 1 to 64 images")) << many.err;
}

TEST_F(Train, TakesAFileAndFlagsAboveIt) {
  WriteFile(folder_ / "run.yaml",
            "preset: vit-digits\nimage_size: 8\nwidth: 16\nheads: 2\ndepth: 1\nsteps: 2\nlr: 1e-2\n");
  const CommandOutput said =
      Qkv(fmt::format("train {} -o {} --config {} --lr 5e-3", Path("data"), Path("run"), Path("run.yaml")));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::string config = ReadFile(folder_ / "run/config.yaml");
  EXPECT_TRUE(Contains(config, "\nlr: 0.005\n")) << config;
  EXPECT_TRUE(Contains(config, "\ndepth: 1\n")) << config;
}

TEST_F(Train, RefusesWithAReason) {
  const auto says = [&](const std::string& arguments, int code, const std::string& part) {
    const CommandOutput said = Qkv("train " + arguments);
    EXPECT_EQ(said.exit_code, code) << arguments;
    EXPECT_TRUE(Contains(said.err, part)) << arguments << ": " << said.err;
  };
  const std::string to = " -o " + Path("run") + " ";
  says(Path("nowhere") + to, 1, "nowhere");
  says(Path("data") + to + "--lr fast", 2, "expected a number");
  says(Path("data") + to + "--no-such-flag", 2, "no-such-flag");
  WriteFile(folder_ / "wrong.yaml", "epoch: 3\n");
  says(Path("data") + to + "--config " + Path("wrong.yaml"), 1, "did you mean \"epochs\"");
  says(Path("data") + to + "-m " + Path("nowhere"), 1, "nowhere");
  says(Path("data") + to + "-m digits", 1, "built in");
  says(Path("data") + " -o " + Path("data"), 1, "holds no training run");

  ASSERT_EQ(Qkv(Arguments("done", "--steps 2")).exit_code, 0);
  says(Path("data") + " -o " + Path("done"), 1, "--resume");
  says(Path("data") + " -o " + Path("done") + " --resume --lr 0.5", 1, "lr was 0.003, now 0.5");
  fs::remove(folder_ / "data/train/left/3.png");
  says(Path("data") + " -o " + Path("done") + " --resume", 1, "images are not those");
  fs::remove_all(folder_ / "data");
  fs::create_directories(folder_ / "data");
  says(Path("data") + " -o " + Path("other"), 1, "");
}

TEST_F(Train, WhatCannotBeginLeavesNothing) {
  const auto says = [&](const std::string& arguments, const std::string& part) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 1) << arguments;
    EXPECT_TRUE(Contains(said.err, part)) << arguments << ": " << said.err;
  };
  for (const auto& [more, part] :
       {std::pair<std::string, std::string>{"--init mimetic --attention shared_kv", "mimetic"},
        {"--attention merged --qk-norm", "norm"}}) {
    says(Arguments("new", more), part);
    EXPECT_FALSE(fs::exists(folder_ / "new")) << more;
    fs::create_directories(folder_ / "empty");
    says(Arguments("empty", more), part);
    EXPECT_TRUE(fs::exists(folder_ / "empty")) << "it was there before";
    EXPECT_TRUE(fs::is_empty(folder_ / "empty")) << more;
  }
  says(fmt::format("train {} -o {} -m {}", Path("data"), Path("new"), Path("nowhere")), "nowhere");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  // Without --resume: no run is there.
  EXPECT_EQ(Qkv(Arguments("new", "--steps 1")).exit_code, 0);
  EXPECT_EQ(Qkv(Arguments("empty", "--steps 1")).exit_code, 0);
}

// The same tensors, and another state beside them.
void ChangeState(const fs::path& run, const std::string& key, const io::Json& value) {
  const fs::path file = run / "checkpoint/training.safetensors";
  const std::string bytes = ReadFile(file);
  const auto saved = io::SafeTensors::FromBytes(std::as_bytes(std::span(bytes)), "state");
  io::Json state = io::Json::parse(saved.metadata().at("progress"));
  state[key] = value;
  const std::vector<io::StoredTensor> tensors(saved.tensors().begin(), saved.tensors().end());
  io::WriteSafeTensors(file, tensors, {{"progress", state.dump()}});
}

// What another person's folder says is believed as far as it can be true.
TEST_F(Train, RefusesARunThatCannotBe) {
  ASSERT_EQ(Qkv(Arguments("run", "--steps 6")).exit_code, 0);
  WriteFile(folder_ / "text.txt", std::string(4000, 'a') + std::string(4000, 'b'));
  const std::string text = fmt::format("train {} -o {} --width 16 --depth 1 --heads 2 --length 16 --batch 4 --steps 3",
                                       Path("text.txt"), Path("text"));
  ASSERT_EQ(Qkv(text).exit_code, 0);
  const auto resumed = [&](const std::string& run, const std::string& data) {
    const CommandOutput said = Qkv(fmt::format("train {} -o {} --resume", Path(data), Path(run)), "timeout 20");
    EXPECT_EQ(said.exit_code, 1) << said.err;
    return said.err;
  };
  for (const auto& [run, data] : {std::pair("run", "data"), {"text", "text.txt"}}) {
    for (const int64_t step : {int64_t{-1}, int64_t{-3}, int64_t{1} << 62}) {
      ChangeState(folder_ / run, "step", step);
      const std::string said = resumed(run, data);
      EXPECT_TRUE(Contains(said, "training state: \"step\" is")) << said;
    }
    ChangeState(folder_ / run, "step", 1 << 20);  // of six, or three
    EXPECT_TRUE(Contains(resumed(run, data), "the optimiser took")) << run;
    WriteFile(folder_ / run / "config.yaml", "");
    EXPECT_TRUE(Contains(resumed(run, data), "put back the file")) << run;
  }
}

TEST_F(Train, AStartThatFailsWithMapsLeavesNothing) {
  // The first step cannot be taken: a batch of pairs that is odd.
  const CommandOutput failed = Qkv(Arguments("new", "--maps 2 --batch 7"));
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  EXPECT_EQ(Qkv(Arguments("new", "--maps 2 --steps 1")).exit_code, 0);
}

// A folder of one's own that a start fails in, or that holds another's work.
TEST_F(Train, TakesNothingAwayFromAFolder) {
  for (const char* name : {"own/draft.tmp/a", "own/notes.tmp"}) {
    fs::create_directories((folder_ / name).parent_path());
    WriteFile(folder_ / name, "precious");
  }
  EXPECT_EQ(Qkv(Arguments("own")).exit_code, 1);
  EXPECT_EQ(Qkv(Arguments("own", "--resume")).exit_code, 1);
  ASSERT_EQ(Qkv(Arguments("run", "--steps 2")).exit_code, 0);
  for (const char* name : {"run/keep.tmp", "run/checkpoint-99/a", "precious"}) {
    fs::create_directories((folder_ / name).parent_path());
    WriteFile(folder_ / name, "precious");
  }
  EXPECT_EQ(Qkv(Arguments("run", "--steps 2 --resume")).exit_code, 0);
  // The folder may be another person's, with links that lead elsewhere.
  fs::remove(folder_ / "run/command");
  fs::create_symlink(folder_ / "precious", folder_ / "run/command");
  const CommandOutput said = Qkv(Arguments("run", "--steps 2 --resume"));
  EXPECT_EQ(said.exit_code, 1) << said.err;
  EXPECT_TRUE(Contains(said.err, "command: it is a link")) << said.err;
  for (const char* name : {"own/draft.tmp/a", "own/notes.tmp", "run/keep.tmp", "run/checkpoint-99/a", "precious"}) {
    EXPECT_EQ(ReadFile(folder_ / name), "precious") << name;
  }
}

// A text or a cache that becomes shorter under a run.
TEST_F(Train, NamesAFileThatChangesUnderARun) {
  WriteFile(folder_ / "text.txt", std::string(200'000, 'a') + std::string(200'000, 'b'));
  const TemporaryFolder folder;
  const pid_t child = Start(fmt::format("train {} -o {} --width 16 --depth 1 --heads 2 --length 16 --batch 4 --steps "
                                        "4000000 --save-steps 1",
                                        Path("text.txt"), Path("text")),
                            folder / "err");
  int status = 0;
  while (!fs::exists(folder_ / "text/checkpoint") && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(1000);
  fs::resize_file(folder_ / "text.txt", 100);
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  const std::string said = ReadFile(folder / "err");
  EXPECT_TRUE(Contains(said, "text.txt: the file was changed")) << said;
  EXPECT_TRUE(Contains(said, "what was saved before is whole")) << said;
}

#ifdef QKV_MPIRUN
TEST_F(Train, TwoProcessesDoWhatOneDoes) {
  const std::string how = "--epochs 4 --opt sgd --lr 0.05 --clip-grad 0 --maps 2 --threads 1";
  ASSERT_EQ(Qkv(Arguments("one", how)).exit_code, 0);
  ASSERT_EQ(Qkv(Arguments("halves", how + " --batch 6 --accumulate 2")).exit_code, 0);
  const CommandOutput said = Two(Arguments("two", how));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "2 processes of 1 thread each")) << said.err;
  ExpectAsOneProcess(folder_ / "one", folder_ / "halves", folder_ / "two", 4);
  EXPECT_TRUE(fs::exists(folder_ / "two/maps/epochs.png"));
}

TEST_F(Train, TwoProcessesGoOnToTheSameBits) {
  RunTwoAndKillTwo(Arguments("whole", "--threads 1"), Arguments("killed", "--threads 1 --resume"));
  ExpectSameResult(folder_ / "whole", folder_ / "killed");
}

TEST_F(Train, AnErrorOfOneProcessEndsAll) {
  // Pairs that are mixed must lie in one process.
  const CommandOutput odd = Two(Arguments("odd", "--batch 10"));
  EXPECT_NE(odd.exit_code, 0);
  EXPECT_TRUE(Contains(odd.err, "expected a multiple of 4")) << odd.err;
  EXPECT_EQ(odd.err.find("expected a multiple of 4"), odd.err.rfind("expected a multiple of 4")) << "said twice";
  // The second process has other data than the first.
  const CommandOutput other =
      Two(Arguments("other") + " : -n 1 " QKV_PROGRAM " train " + Path("nowhere") + " -o " + Path("other"));
  EXPECT_NE(other.exit_code, 0);
  EXPECT_TRUE(Contains(other.err, "process 3 of 3")) << other.err;
  EXPECT_TRUE(Contains(other.err, "nowhere")) << other.err;
}
#endif

TEST_F(Train, SaysThatItIsWithoutMpi) {
  const fs::path alone = folder_ / "bin/qkv";
  fs::create_directories(alone.parent_path());
  fs::copy_file(QKV_PROGRAM, alone);
  WriteFile(folder_ / "err", "");
  const int status = std::system(
      ("OMPI_COMM_WORLD_SIZE=2 " + alone.string() + " " + Arguments("run") + " 2>" + (folder_ / "err").string())
          .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(Contains(ReadFile(folder_ / "err"), "one of 2 processes, and this qkv is without MPI"))
      << ReadFile(folder_ / "err");
}

}  // namespace
}  // namespace qkv
