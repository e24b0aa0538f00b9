// qkv train, evaluate and generate on tasks and texts as their users run them.
#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/rng.h"
#include "tests/cli/program.h"
#include "tests/cli/training.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class SequenceRuns : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // Sentences of a subject, a verb and an object that each subject has: what follows is certain but for the subject.
  void WriteBook(int sentences, uint64_t seed, const std::string& name = "book.txt") const {
    constexpr const char* kSentences[] = {"the cat sees the bird. ", "a dog eats his bone. ", "my fox runs home. "};
    Rng rng(seed);
    std::string text;
    for (int i = 0; i < sentences; ++i) text += kSentences[rng.Next() % 3];
    WriteFile(folder_ / name, text);
  }
  // A decoder of a few thousand parameters.
  std::string OnBook(const std::string& run, const std::string& more = "") const {
    return fmt::format(
        "train {} -o {} --length 24 --width 32 --depth 2 --heads 2 --batch 8 --epochs 3 --warmup-epochs 0.2 --lr 1e-2 "
        "--threads 2 {}",
        Path("book.txt"), Path(run), more);
  }
  // Everything random is on.
  std::string TrainOnTask(const std::string& run, const std::string& more = "") const {
    return fmt::format(
        "train task:recall -o {} --length 6 --vocabulary 8 --width 16 --depth 2 --heads 2 --batch 12 --steps 30 "
        "--accumulate 2 --threads 2 --dropout 0.1 --attention-dropout 0.1 --drop-path 0.1 --smoothing 0.1 --ema 0.9 "
        "--log-steps 2 --save-steps 1 {}",
        Path(run), more);
  }

  const TemporaryFolder folder_;
};

TEST_F(SequenceRuns, LearnATask) {
  const CommandOutput said = Qkv(fmt::format(
      "train task:reverse -o {} --length 6 --vocabulary 8 --width 32 --heads 2 --epochs 6 --lr 5e-3", Path("run")));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "task reverse: 6 tokens of 8")) << said.err;
  EXPECT_TRUE(Contains(said.err, " parameters: 600 steps of 64 sequences of 6 tokens\n")) << said.err;
  EXPECT_TRUE(Contains(said.err, "qkv evaluate -m")) << said.err;
  EXPECT_FALSE(Contains(said.err, "classify")) << said.err;
  for (const char* file : {"model.safetensors", "config.json", "best/model.safetensors", "last/config.json",
                           "config.yaml", "log.jsonl", "curves.svg", "command"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  }
  const std::string config = ReadFile(folder_ / "run/config.yaml");
  EXPECT_TRUE(Contains(config, "positions: \"learned\"")) << config;
  EXPECT_FALSE(Contains(config, "image-size")) << config;
  const std::vector<io::Json> log = JsonLines(ReadFile(folder_ / "run/log.jsonl"));
  EXPECT_EQ(log.back()["event"], "evaluation");
  EXPECT_EQ(log.back()["step"], 600);
  EXPECT_GT(log.back()["whole_sequences"], 0.9);

  const CommandOutput answer = Qkv("evaluate --json -m " + Path("run") + " task:reverse");
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  const io::Json json = JsonLines(answer.out).at(0);
  EXPECT_GT(json["top1"], 0.98);
  EXPECT_EQ(json["tokens"], 60'000);
  EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(json["loss"].get<double>()), 1e-9);
  // Of another task it knows nothing: one answer in eight is right.
  const io::Json other = JsonLines(Qkv("evaluate --json -m " + Path("run") + " task:copy").out).at(0);
  EXPECT_LT(other["top1"], 0.4);
  EXPECT_TRUE(Contains(Qkv("evaluate -m " + Path("run") + " task:reverse").out, "answers right"));
}

TEST_F(SequenceRuns, KilledTheyComeToTheSameBits) {
  ASSERT_EQ(Qkv(TrainOnTask("whole")).exit_code, 0);
  Rng rng(5);
  int kills = 0;
  for (int tries = 0; tries < 100; ++tries) {
    const double seconds = kills < 8 ? rng.Uniform() * (0.04 + 0.004 * tries) : 600;
    const CommandOutput said = Qkv(TrainOnTask("killed", "--resume"), fmt::format("timeout -s KILL {}", seconds));
    if (said.exit_code == 0) break;
    // timeout kills itself too, and may be gone before the process that it killed has left the folder.
    if (Contains(said.err, "another process is training")) continue;
    ASSERT_EQ(said.exit_code, 137) << said.err;
    ++kills;
  }
  EXPECT_GE(kills, 2);
  ExpectSameResult(folder_ / "whole", folder_ / "killed");
}

TEST_F(SequenceRuns, LearnATextAndGoOnWithIt) {
  WriteBook(700, 1);
  const CommandOutput said = Qkv(OnBook("run"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "qkv generate -m")) << said.err;

  // Of some twenty bytes of a sentence one or two are chance, log2 3 bits together.
  const auto bits = [&](const std::string& file, const std::string& more) {
    const CommandOutput answer = Qkv(fmt::format("evaluate --json -m {} {} {}", Path("run"), Path(file), more));
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    return JsonLines(answer.out).at(0);
  };
  const io::Json all = bits("book.txt", ""), part = bits("book.txt", "--split val");
  EXPECT_LT(all["bits_per_byte"], 0.5);
  EXPECT_EQ(all["tokens"], static_cast<int64_t>(fs::file_size(folder_ / "book.txt")) - 1);
  EXPECT_LT(part["tokens"], all["tokens"].get<double>() / 9);
  WriteBook(100, 2, "other.txt");
  EXPECT_LT(bits("other.txt", "")["bits_per_byte"], 0.5);

  const auto text = [&](const std::string& more, const std::string& before = "") {
    const CommandOutput answer = Qkv(fmt::format("generate -m {} {}", Path("run"), more), before);
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    return answer.out;
  };
  // Beyond what the model sees at once.
  const std::string greedy = text("--prompt 'the cat sees' --tokens 60 --temperature 0");
  EXPECT_TRUE(greedy.starts_with("the cat sees the bird. ")) << greedy;
  EXPECT_EQ(greedy.size(), 12u + 60u);
  EXPECT_EQ(text("--prompt - --tokens 60 --temperature 0", "printf 'the cat sees' |"), greedy);
  EXPECT_EQ(text("--prompt 'the cat sees' --tokens 60 --top-k 1"), greedy);
  EXPECT_EQ(text("--prompt 'the cat sees' --tokens 60 --top-p 0.01"), greedy);
  const std::string drawn = text("--seed 1 --tokens 200");
  EXPECT_EQ(drawn.size(), 200u);
  EXPECT_EQ(text("--seed 1 --tokens 200"), drawn);
  EXPECT_NE(text("--seed 2 --tokens 200"), drawn);
  EXPECT_TRUE(Contains(drawn, "dog eats his bone.") || Contains(drawn, "fox runs home.")) << drawn;
  EXPECT_EQ(text("--prompt abc --tokens 0"), "abc");
}

#ifdef QKV_MPIRUN
TEST_F(SequenceRuns, OfTwoProcessesDoWhatOneDoes) {
  WriteBook(100, 1);
  const std::string how = "--opt sgd --lr 0.05 --clip-grad 0 --threads 1";
  const auto check = [&](const std::string& name, auto&& arguments, const std::string& half, size_t evaluations) {
    SCOPED_TRACE(name);
    ASSERT_EQ(Qkv(arguments(name + "-one", how)).exit_code, 0);
    ASSERT_EQ(Qkv(arguments(name + "-halves", how + half)).exit_code, 0);
    const CommandOutput said = Two(arguments(name + "-two", how));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_TRUE(Contains(said.err, "2 processes of 1 thread each")) << said.err;
    ExpectAsOneProcess(folder_ / (name + "-one"), folder_ / (name + "-halves"), folder_ / (name + "-two"), evaluations);
  };
  check(
      "task", [&](const std::string& run, const std::string& more) { return TrainOnTask(run, more); },
      " --batch 6 --accumulate 4", 1);
  check(
      "text", [&](const std::string& run, const std::string& more) { return OnBook(run, more); },
      " --batch 4 --accumulate 2", 3);
}

TEST_F(SequenceRuns, OfTwoProcessesGoOnToTheSameBits) {
  RunTwoAndKillTwo(TrainOnTask("whole", "--threads 1"), TrainOnTask("killed", "--threads 1 --resume"));
  ExpectSameResult(folder_ / "whole", folder_ / "killed");
}
#endif

TEST_F(SequenceRuns, GoOnFromAModel) {
  WriteBook(200, 1);
  ASSERT_EQ(Qkv(OnBook("run")).exit_code, 0);
  const CommandOutput said =
      Qkv(fmt::format("train {} -o {} -m {} --length 16 --epochs 1 --lr 1e-4 --warmup-epochs 0.1", Path("book.txt"),
                      Path("more"), Path("run")));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(ReadFile(folder_ / "run/config.json"), ReadFile(folder_ / "more/config.json"));
  const auto first_loss = [&](const char* run) {
    return JsonLines(ReadFile(folder_ / run / "log.jsonl")).at(0)["loss"].get<double>();
  };
  EXPECT_LT(first_loss("more"), first_loss("run") / 2) << "it begins where the other ended";
}

TEST_F(SequenceRuns, RefuseWithAReason) {
  const auto says = [&](const std::string& arguments, int code, const std::string& part) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, code) << arguments;
    EXPECT_TRUE(Contains(said.err, part)) << arguments << ": " << said.err;
  };
  const std::string to = " -o " + Path("new");
  says("train task:juggle" + to, 1, "task:recall");
  says("train task:copy --image-size 32" + to, 1, "key image-size is for images only");
  says("train task:copy --preset vit-tiny" + to, 1, "preset vit-tiny is for images");
  says("train task:swap --length 7" + to, 1, "even");
  says("train task:recall --length 40" + to, 1, "different keys");
#ifdef QKV_MPIRUN
  const CommandOutput odd = Two(TrainOnTask("odd", "--batch 11"));
  EXPECT_NE(odd.exit_code, 0);
  EXPECT_TRUE(Contains(odd.err, "2 processes cannot share a batch of 11 evenly")) << odd.err;
#endif
  WriteFile(folder_ / "empty.txt", "");
  says("train " + Path("empty.txt") + to, 1, "is empty");
  WriteFile(folder_ / "tiny.txt", "Once upon a time");
  says("train " + Path("tiny.txt") + to, 1, "is too short: of 16 bytes 14 are left");
  WriteBook(50, 1);
  says(OnBook("new", "--no-causal"), 1, "sees the bytes that it is to predict");
  says(OnBook("new", "--positions rotary --attention merged"), 1, "rotary");
  EXPECT_FALSE(fs::exists(folder_ / "new")) << "it is there for a run that can be";

  ASSERT_EQ(Qkv(OnBook("text", "--steps 2")).exit_code, 0);
  ASSERT_EQ(Qkv(TrainOnTask("task", "--steps 2")).exit_code, 0);
  says(OnBook("text", "--steps 2 --resume --lr 0.5"), 1, "lr was 0.01, now 0.5");
  says("train task:copy" + to + " -m " + Path("text"), 1, "cannot take task copy");
  EXPECT_FALSE(fs::exists(folder_ / "new")) << "nothing is left of what cannot begin";
  says("generate -m " + Path("task"), 1, "is no text model");
  says("generate -m " + Path("text") + " --temperature -1", 2, "--temperature");
  says("generate -m " + Path("nowhere"), 1, "nowhere");
  says("evaluate -m " + Path("text") + " task:copy", 1, "bytes of a text");
  says("evaluate -m " + Path("task") + " " + Path("book.txt"), 1, "does not predict the bytes");
  says("evaluate -m " + Path("text") + " " + folder_.path().string(), 1, "neither a text nor task:NAME");
  says("evaluate task:copy", 1, "needs a sequence model");
  says("evaluate -m " + Golden("timm_grey") + " task:copy", 1, "");
  says("classify -m " + Path("text") + " " + Digits(), 1, "a sequence model");
  WriteBook(50, 3);
  says(OnBook("text", "--steps 2 --resume"), 1, "the tokens are not those");
}

}  // namespace
}  // namespace qkv
