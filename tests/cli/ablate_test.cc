// qkv ablate as its users run it: what it writes, that it goes on where it was stopped, and what it refuses.
#include "tests/cli/ablate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>

namespace qkv {
namespace {

namespace fs = std::filesystem;

TEST_F(Ablate, ComparesArmsAndTakesMore) {
  const std::string arms = "--arms separate,shared,gaussian,low_rank ";
  const CommandOutput said = Qkv(Arguments("out", arms + "--seeds 2"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const char* part : {"separate", "shared", "gaussian", "low_rank:rank=4", "difference", "±", "symmetry"}) {
    EXPECT_TRUE(Contains(said.out, part)) << part << said.out;
  }
  EXPECT_TRUE(Contains(said.err, "8 of 8 runs have ended")) << said.err;
  const auto runs = Runs("out");
  EXPECT_EQ(runs.size(), 8u);
  EXPECT_NEAR(std::stod(runs.at("data shared 0").at("symmetry")), 1, 1e-12) << "one weight for both: M is symmetric";
  EXPECT_LT(std::stod(runs.at("data separate 0").at("symmetry")), 0.9);
  EXPECT_LE(std::stod(runs.at("data low_rank:rank=4 1").at("effective_rank")), 4);
  EXPECT_EQ(runs.at("data gaussian 0").at("symmetry"), "");
  EXPECT_EQ(runs.at("data separate 1").at("steps"), "6");

  EXPECT_TRUE(Contains(Text("out/report.md"), "| low"));
  EXPECT_TRUE(Contains(Text("out/accuracy-data.svg"), "gaussian"));
  EXPECT_TRUE(Contains(Text("out/arms.csv"), "data,low_rank:rank=4,2,"));
  EXPECT_EQ(Pictures(Text("out/report.html")), 2u) << "accuracies, differences";
  const io::Json results = io::Json::parse(Text("out/results.json"));
  EXPECT_EQ(results["arms"][3], "low_rank:rank=4");
  EXPECT_EQ(results["runs"].size(), 8u);
  ExpectSpeeds(results);

  // Each run is a model, as any other.
  const CommandOutput info = Qkv("info --json -m " + (folder_ / "out/runs/data,shared,seed=0").string());
  EXPECT_EQ(info.exit_code, 0) << info.err;

  // A seed more: what is there is not trained again.
  const fs::file_time_type before = fs::last_write_time(folder_ / "out/runs/data,separate,seed=1/log.jsonl");
  const CommandOutput more = Qkv(Arguments("out", arms + "--seeds 3"));
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_FALSE(Contains(more.err, "seed 1:")) << more.err;
  EXPECT_TRUE(Contains(more.err, "separate, seed 2: ")) << more.err;
  EXPECT_EQ(fs::last_write_time(folder_ / "out/runs/data,separate,seed=1/log.jsonl"), before);

  // As if it had been asked for at once.
  ASSERT_EQ(Qkv(Arguments("at-once", arms + "--seeds 3")).exit_code, 0);
  EXPECT_EQ(Runs("out"), Runs("at-once"));
}

TEST_F(Ablate, ProcessesShareTheRuns) {
  const std::string arms = "--arms separate,unified,merged --seeds 2 ";
  ASSERT_EQ(Qkv(Arguments("alone", arms)).exit_code, 0);
  const CommandOutput said = Qkv(Arguments("together", arms + "--processes 3"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(Runs("alone"), Runs("together"));
  for (const char* run : {"data, separate, seed 0:", "data, unified, seed 0:", "data, merged, seed 1:"}) {
    EXPECT_EQ(said.err.find(run), said.err.rfind(run)) << run << " was trained twice\n" << said.err;
  }
}

TEST_F(Ablate, KilledAnywhereItGoesOn) {
  const std::string more = "--arms separate,shared --seeds 2 --epochs 6";
  ASSERT_EQ(Qkv(Arguments("whole", more)).exit_code, 0);
  Rng rng(7);
  int kills = 0, within = 0;
  for (int tries = 0; tries < 400; ++tries) {
    const double seconds = kills < 12 ? rng.Uniform() * (0.1 + 0.01 * tries) : 600;
    const CommandOutput said = Qkv(Arguments("killed", more), fmt::format("timeout -s KILL {:.3f}", seconds));
    if (said.exit_code == 0) break;
    ASSERT_EQ(said.exit_code, 137) << said.err;
    ++kills;
    for (const char* run : {"separate,seed=0", "shared,seed=0", "separate,seed=1", "shared,seed=1"}) {
      const fs::path folder = folder_ / "killed/runs" / (std::string("data,") + run);
      within += fs::exists(folder / "checkpoint") && !fs::exists(folder / "result.json");
    }
  }
  EXPECT_GE(kills, 3);
  EXPECT_GE(within, 1) << "no kill was in the middle of a run";
  EXPECT_EQ(Runs("whole"), Runs("killed"));
}

TEST_F(Ablate, EndsAndSavesOnASignal) {
  for (const char* processes : {"1", "2"}) {
    const std::string output = std::string("stopped-") + processes;
    const std::string arguments =
        Arguments(output, std::string("--arms separate,shared --seeds 1 --epochs 400 --processes ") + processes);
    const fs::path when = folder_ / output / "runs/data,separate,seed=0/checkpoint", err = folder_ / "err";
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string command = "exec " QKV_PROGRAM " " + arguments + " 2>" + err.string();
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    int status = 0;
    while (!fs::exists(when) && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(1000);
    ::kill(child, SIGTERM);
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM) << ReadFile(err);
    EXPECT_TRUE(Contains(ReadFile(err), "the same command goes on")) << ReadFile(err);
    EXPECT_FALSE(fs::exists(folder_ / output / "runs/data,separate,seed=0/result.json"));
    // No process is left that holds a run.
    for (const fs::directory_entry& run : fs::directory_iterator(folder_ / output / "runs")) {
      EXPECT_EQ(std::system(("flock -n '" + run.path().string() + "' true").c_str()), 0) << run.path();
    }
  }
}

TEST_F(Ablate, EqualParametersAndMultiplyAdds) {
  const CommandOutput parameters = Qkv(Arguments("parameters", "--arms separate,unified --seeds 1 --equal parameters"));
  ASSERT_EQ(parameters.exit_code, 0) << parameters.err;
  const auto equal = Runs("parameters");
  // A unit of the MLP has 2·16 + 1 parameters in each of two blocks; half of that is as near as it can be.
  EXPECT_NEAR(std::stod(equal.at("data separate 0").at("parameters")),
              std::stod(equal.at("data unified 0").at("parameters")), 33);

  const CommandOutput flops = Qkv(Arguments("flops", "--arms separate,unified --seeds 1 --equal flops"));
  ASSERT_EQ(flops.exit_code, 0) << flops.err;
  const auto work = Runs("flops");
  const auto total = [&](const char* run) {
    return std::stod(work.at(run).at("steps")) * std::stod(work.at(run).at("flops"));
  };
  EXPECT_GT(std::stod(work.at("data unified 0").at("steps")), std::stod(work.at("data separate 0").at("steps")));
  EXPECT_NEAR(total("data separate 0"), total("data unified 0"), std::stod(work.at("data unified 0").at("flops")) / 2);

  const CommandOutput other = Qkv(Arguments("flops", "--arms unified,separate --seeds 1 --equal flops"));
  EXPECT_EQ(other.exit_code, 1) << "budgets are those of another first arm";
  EXPECT_TRUE(Contains(other.err, "another comparison")) << other.err;
}

TEST_F(Ablate, ARunThatFailsIsNamedAndTheOthersEnd) {
  const fs::path taken = folder_ / "out/runs/data,separate,seed=0";
  fs::create_directories(taken);
  WriteFile(taken / "letter.txt", "somebody's");
  const CommandOutput said = Qkv(Arguments("out", "--arms separate,shared --seeds 1"));
  EXPECT_EQ(said.exit_code, 1) << said.err;
  EXPECT_TRUE(Contains(said.err, "separate, seed 0: folder " + taken.string() + " is not empty")) << said.err;
  EXPECT_TRUE(Contains(said.err, "1 of 2 runs are missing")) << said.err;
  EXPECT_EQ(Runs("out").size(), 1u);
  EXPECT_TRUE(Contains(Text("out/report.md"), "1 of 2 ended"));
  fs::remove(taken / "letter.txt");
  EXPECT_EQ(Qkv(Arguments("out", "--arms separate,shared --seeds 1")).exit_code, 0);
}

TEST_F(Ablate, WritesOverNothingThatIsNotItsOwn) {
  fs::create_directories(folder_ / "own");
  WriteFile(folder_ / "own/report.md", "mine");
  const CommandOutput said = Qkv(Arguments("own", "--arms separate --seeds 1"));
  EXPECT_EQ(said.exit_code, 1) << said.err;
  EXPECT_TRUE(Contains(said.err, "holds a report.md, and no comparison")) << said.err;
  EXPECT_EQ(Text("own/report.md"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "own"), {}), 1);
}

// Where a result says that it is another run's.
TEST_F(Ablate, BelievesNoResultOfAnotherRun) {
  const std::string arguments = Arguments("out", "--arms separate --seeds 1");
  ASSERT_EQ(Qkv(arguments).exit_code, 0);
  const fs::path file = folder_ / "out/runs/data,separate,seed=0/result.json";
  const std::string result = ReadFile(file);
  for (const auto& [key, value] :
       {std::pair<const char*, io::Json>{"data", "../../elsewhere"}, {"seed", 7}, {"top1", 7}}) {
    io::Json json = io::Json::parse(result);
    json[key] = value;
    WriteFile(file, json.dump());
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 1) << said.err;
    EXPECT_TRUE(Contains(said.err, file.string())) << said.err;
  }
}

TEST_F(Ablate, RefusesWhatCannotBeCompared) {
  for (const auto& [more, named] : {std::pair<std::string, std::string>{"--arms separate,sepparate", "sepparate"},
                                    {"--arms separate,separate", "twice"},
                                    {"--arms low_rank,low_rank:rank=4", "twice"},
                                    {"--arms low_rank:rnak=2", "rank"},
                                    {"--arms low_rank:rank", "KEY=VALUE"},
                                    {"--arms separate,merged:qk-norm=true", "norm"},
                                    {"--attention shared", "arms and seeds say"},
                                    {"--seed 3", "arms and seeds say"}}) {
    const CommandOutput said = Qkv(Arguments("refused", more));
    EXPECT_EQ(said.exit_code, 1) << more << said.err;
    EXPECT_TRUE(Contains(said.err, named)) << said.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "refused")) << "nothing was begun";

  ASSERT_EQ(Qkv(Arguments("out", "--arms separate --seeds 1")).exit_code, 0);
  const CommandOutput other = Qkv(Arguments("out", "--arms separate --seeds 1 --lr 1e-2"));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(Contains(other.err, "lr was")) << other.err;
  for (const char* key : {"steps", "epochs", "patience"}) {
    const CommandOutput longer = Qkv(Arguments("out", fmt::format("--arms separate --seeds 2 --{} 90", key)));
    EXPECT_EQ(longer.exit_code, 1) << key;
    EXPECT_TRUE(Contains(longer.err, fmt::format("{} was", key))) << longer.err;
  }
  EXPECT_EQ(Runs("out").size(), 1u);
  // Who asks what there is, is not told of keys that are refused.
  const CommandOutput help = Qkv("ablate --help");
  for (const char* key : {"--attention ", "--rank ", "--seed ", "--model "}) {
    EXPECT_FALSE(Contains(help.out, key)) << key;
  }
  for (const char* key : {"--attention-dropout ", "--width ", "--length "}) EXPECT_TRUE(Contains(help.out, key)) << key;
  // How the machine is used may change, what is learned from may not.
  EXPECT_EQ(Qkv(Arguments("out", "--arms separate --seeds 1 --threads 2 --log-steps 5")).exit_code, 0);
  DrawImages(folder_ / "data/train", 13, 1);
  const CommandOutput data = Qkv(Arguments("out", "--arms separate,shared --seeds 1"));
  EXPECT_EQ(data.exit_code, 1);
  EXPECT_TRUE(Contains(data.err, "another comparison")) << data.err;
}

TEST_F(Ablate, ComparesArmsOnTasksAndTakesMore) {
  const std::string arms =
      "--seeds 2 --arms separate,separate:qkv-bias=false,shared,unified,shared_kv,merged,low_rank,"
      "symmetric,gaussian,differential ";
  const CommandOutput said = Qkv(OnTasks("task:reverse task:recall", "out", arms));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const char* part : {"reverse", "recall", "sequences/s", "Difference to separate", "symmetric:rank=8"}) {
    EXPECT_TRUE(Contains(said.out, part)) << part << said.out;
  }
  EXPECT_TRUE(Contains(said.err, "recall, gaussian, seed 1: ")) << said.err;
  EXPECT_TRUE(Contains(said.err, "40 of 40 runs have ended")) << said.err;
  const auto runs = Runs("out");
  EXPECT_EQ(runs.size(), 40u);
  EXPECT_NEAR(std::stod(runs.at("recall shared 0").at("symmetry")), 1, 1e-12) << "one weight for both: M is symmetric";
  EXPECT_LT(std::stod(runs.at("recall separate 0").at("symmetry")), 0.9);
  EXPECT_LE(std::stod(runs.at("reverse low_rank:rank=4 1").at("effective_rank")), 4);
  for (const char* kind : {"gaussian", "differential"}) {
    EXPECT_EQ(runs.at(std::string("reverse ") + kind + " 0").at("symmetry"), "") << "no M of a head";
  }
  EXPECT_EQ(runs.at("reverse merged 1").at("steps"), "20");
  for (const char* part : {"## reverse", "## recall", "**Accuracy, %**", "Difference to separate"}) {
    EXPECT_TRUE(Contains(Text("out/report.md"), part)) << part;
  }
  EXPECT_TRUE(Contains(Text("out/accuracy-reverse.svg"), "gaussian"));
  EXPECT_TRUE(Contains(Text("out/accuracy-recall.svg"), "gaussian"));
  EXPECT_TRUE(Contains(Text("out/arms.csv"), "\nrecall,low_rank:rank=4,2,"));
  EXPECT_EQ(Pictures(Text("out/report.html")), 4u) << "accuracies, differences, of two tasks";
  const io::Json results = io::Json::parse(Text("out/results.json"));
  EXPECT_EQ(results["unit"], "sequences");
  EXPECT_EQ(results["speeds"].size(), 10u);
  ExpectSpeeds(results);
  const std::string model = (folder_ / "out/runs/recall,low_rank,rank=4,seed=1").string();
  EXPECT_TRUE(Contains(Qkv("info -m " + model).out, "sequence model of qkv train"));
  EXPECT_TRUE(Contains(Qkv("attend -m " + model + " a.jpg -o a.png").err, "qkv qk inspect -m " + model));
  const CommandOutput evaluated = Qkv("evaluate -m " + model + " task:recall");
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;

  const CommandOutput claims =
      Qkv("qk claims --only C6,C11 --json --ablation " + (folder_ / "out/results.json").string());
  ASSERT_EQ(claims.exit_code, 0) << claims.err;
  const std::vector<io::Json> told = JsonLines(claims.out);
  for (const char* task : {"reverse", "recall"}) {
    EXPECT_TRUE(Contains(told[0]["reason"], fmt::format("On {} shared − separate", task))) << told[0]["reason"];
    EXPECT_TRUE(Contains(told[1]["reason"], fmt::format("On {} merged − separate", task))) << told[1]["reason"];
  }

  // A task more: what is there is not trained again.
  const fs::file_time_type before = fs::last_write_time(folder_ / "out/runs/recall,shared,seed=0/log.jsonl");
  const std::string fewer = "--seeds 2 --arms separate,shared", all = "task:reverse task:recall task:copy";
  const CommandOutput more = Qkv(OnTasks(all, "out", fewer));
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_FALSE(Contains(more.err, "recall, shared, seed")) << more.err;
  EXPECT_TRUE(Contains(more.err, "copy, shared, seed 1: ")) << more.err;
  EXPECT_EQ(fs::last_write_time(folder_ / "out/runs/recall,shared,seed=0/log.jsonl"), before);
  ASSERT_EQ(Qkv(OnTasks(all, "at-once", fewer + " --processes 2")).exit_code, 0);
  EXPECT_EQ(Runs("out"), Runs("at-once"));
}

TEST_F(Ablate, OnTasksKilledAnywhereItGoesOn) {
  const std::string tasks = "task:sort task:next-token", more = "--arms separate,shared --seeds 1 --steps 80";
  ASSERT_EQ(Qkv(OnTasks(tasks, "whole", more)).exit_code, 0);
  Rng rng(3);
  int kills = 0, within = 0;
  for (int tries = 0; tries < 400; ++tries) {
    const double seconds = kills < 12 ? rng.Uniform() * (0.1 + 0.01 * tries) : 600;
    const CommandOutput said = Qkv(OnTasks(tasks, "killed", more), fmt::format("timeout -s KILL {:.3f}", seconds));
    if (said.exit_code == 0) break;
    ASSERT_EQ(said.exit_code, 137) << said.err;
    ++kills;
    if (!fs::exists(folder_ / "killed/runs")) continue;
    for (const fs::directory_entry& run : fs::directory_iterator(folder_ / "killed/runs")) {
      within += fs::exists(run.path() / "checkpoint") && !fs::exists(run.path() / "result.json");
    }
  }
  EXPECT_GE(kills, 3);
  EXPECT_GE(within, 1) << "no kill was in the middle of a run";
  EXPECT_EQ(Runs("whole"), Runs("killed"));
}

TEST_F(Ablate, ComparesArmsOnTexts) {
  const auto write = [&](const char* name, const std::string& sentence) {
    std::string text;
    while (text.size() < 4000) text += sentence;
    WriteFile(folder_ / name, text);
  };
  write("one.txt", "the cat sees the bird. ");
  write("other.txt", "a dog eats his bone. ");
  const std::string arguments = fmt::format(
      "ablate {} {} -o {} --arms separate,shared --seeds 1 --length 16 --width 16 --depth 1 --heads 2 "
      "--steps 5 --threads 1",
      (folder_ / "one.txt").string(), (folder_ / "other.txt").string(), (folder_ / "out").string());
  const CommandOutput said = Qkv(arguments);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(Runs("out").size(), 4u);
  EXPECT_TRUE(Contains(Text("out/report.md"), "causal")) << "a decoder, as for texts";
  write("other.txt", "my fox runs home. ");
  const CommandOutput changed = Qkv(arguments);
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_TRUE(Contains(changed.err, "another comparison: its other.txt is other data")) << changed.err;
}

TEST_F(Ablate, RefusesTasksThatCannotBeCompared) {
  for (const auto& [tasks, more, named] :
       {std::tuple<std::string, std::string, std::string>{"task:copy task:juggle", "", "task:recall"},
        {"task:copy " + (folder_ / "data").string(), "", "task:copy is of sequences"},
        {(folder_ / "data").string() + " task:copy", "", "data of images"},
        {"task:copy task:copy", "", "two data sets are called 'copy'"},
        {"task:copy", "--image-size 8", "key image-size is for images only"},
        {"task:copy", "--preset vit-digits", "preset vit-digits is for images"},
        {"task:copy task:swap", "--length 7", "even"},
        {"task:copy", "--arms separate,shared:length=8", "length must be the same"},
        {"task:sort", "--positions rotary --arms separate,merged", "'merged' on sort: config: rotary positions"},
        {"task:sort", "--positions rotary --arms separate,gaussian", "'gaussian' on sort: config: rotary positions"}}) {
    const CommandOutput said = Qkv(OnTasks(tasks, "refused", more));
    EXPECT_EQ(said.exit_code, 1) << tasks << more << said.err;
    EXPECT_TRUE(Contains(said.err, named)) << said.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "refused")) << "nothing was begun";
}

}  // namespace
}  // namespace qkv
