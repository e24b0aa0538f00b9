// The folder of a training run, a file of it changed: settings, log, training state, model; and the results of an
// ablation. The run is a real one, two steps long.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "qkv/core/file.h"
#include "qkv/lab/ablation_results.h"
#include "qkv/model/model.h"
#include "qkv/train/run/image_run.h"
#include "qkv/train/run/log.h"
#include "tests/hostile/reader.h"
#include "tests/train/data.h"

namespace qkv::hostile {
namespace {

namespace fs = std::filesystem;

// A run of a model of two blocks, stopped after its second step.
struct Run {
  TemporaryFolder folder;
  train::TrainConfig config;
  train::TrainingData data;

  fs::path path() const { return folder / "run"; }

  Run() {
    config = train::Resolve({{"preset", "vit-digits"},
                             {"image-size", "8"},
                             {"patch-size", "4"},
                             {"width", "8"},
                             {"depth", "1"},
                             {"heads", "2"},
                             {"batch", "4"},
                             {"steps", "4"},
                             {"eval-steps", "1"},
                             {"save-steps", "1"},
                             {"log-steps", "1"},
                             {"threads", "1"},
                             {"crop", "none"},
                             {"ema", "0.9"},
                             {"tensorboard", "false"},
                             {"channels", "3"}});
    data.classes = {"a", "b"};
    data.train = train::NoiseSplit(4, 2);
    data.validation = train::NoiseSplit(4, 2);
    Go(2);
  }
  // Until `step` is taken, from where it stands; one step at least, whatever its folder says.
  void Go(int64_t step) const {
    train::RunFolder run(path(), fs::exists(path()));
    train::Observer observer;
    int64_t taken = 0;
    observer.step = [&](const train::StepReport& report) { taken = report.step; };
    observer.stop = [&] { return taken >= step || taken < 0; };
    train::Train(config, data, run, observer);
  }
};

// A copy of the run for each input: reading it goes on with it.
struct RunReading {
  std::shared_ptr<const Run> run = std::make_shared<const Run>();
  std::shared_ptr<TemporaryFolder> copies = std::make_shared<TemporaryFolder>();

  fs::path Copy(const std::string& file, const std::string& bytes) const {
    const fs::path copy = *copies / "run";
    fs::remove_all(copy);
    fs::copy(run->path(), copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    WriteFile(copy / file, bytes);
    return copy;
  }
};

constexpr const char* kTraining = "checkpoint/training.safetensors";

// Its progress is JSON within the JSON of the header.
Seed ProgressSeed(const std::string& bytes) {
  Seed whole = SafeTensorsSeed(kTraining, bytes);
  const io::Json header = io::Json::parse(whole.json);
  return {.name = kTraining,
          .bytes = bytes,
          .json = header.at("__metadata__").at("progress").get<std::string>(),
          .rebuild = [header, rebuild = whole.rebuild](const std::string& progress) {
            io::Json changed = header;
            changed["__metadata__"]["progress"] = progress;
            return rebuild(changed.dump(-1, ' ', false, io::Json::error_handler_t::replace));
          }};
}

// Training goes on from the changed state for a step.
Reading Resumed(bool progress) {
  const RunReading runs;
  const std::string bytes = ReadFile(runs.run->path() / kTraining);
  Reading reading;
  reading.seeds.push_back(progress ? ProgressSeed(bytes) : SafeTensorsSeed(kTraining, bytes));
  reading.read = [runs](const Seed& seed, const std::string& changed) {
    train::RunFolder run(runs.Copy(seed.name, changed), true);
    train::Observer observer;
    observer.stop = [] { return true; };
    train::Train(runs.run->config, runs.run->data, run, observer);
  };
  return reading;
}

Reading Settings() {
  const RunReading runs;
  const auto folder = std::make_shared<TemporaryFolder>();
  const std::string yaml = ReadFile(runs.run->path() / train::RunFolder::kConfig);
  Reading reading;
  reading.seeds = {{"yaml", yaml},
                   JsonSeed("json", R"({"preset": "vit-cifar", "lr": 3e-4, "qk-norm": true, "image_size": [32, 24],
                                        "mean": [0.1, 0.2, 0.3], "attention": "low_rank", "rank": 8, "epochs": 3})")};
  reading.read = [folder](const Seed&, const std::string& bytes) {
    WriteFile(*folder / "settings", bytes);
    train::ToYaml(train::Resolve(train::ReadSettings(*folder / "settings")));
  };
  return reading;
}

lab::AblationData NamedData() {
  lab::AblationData data;
  data.name = "data";
  return data;
}

// As `qkv ablate` reads a run that has ended; and as a run that goes on reads and cuts its log.
Reading Logs() {
  const RunReading runs;
  const std::string log = ReadFile(runs.run->path() / "log.jsonl");
  const size_t line = log.find("\"evaluation\"");
  const size_t begin = log.rfind('\n', line) + 1, end = log.find('\n', line);
  Reading reading;
  reading.seeds.push_back({.name = "log.jsonl",
                           .bytes = log,
                           .json = log.substr(begin, end - begin),
                           .rebuild = [](const std::string& json) { return json + "\n"; }});
  reading.read = [runs](const Seed& seed, const std::string& bytes) {
    const fs::path run = runs.Copy(seed.name, bytes);
    lab::ReadRun(run, NamedData(), "separate", 1).ToJson();
    train::Log(run / seed.name, 1).Append({{"step", 2}});
  };
  return reading;
}

Reading Models() {
  const RunReading runs;
  const std::string file = "checkpoint/last/config.json";
  Reading reading;
  reading.seeds.push_back(JsonSeed(file, ReadFile(runs.run->path() / file)));
  reading.read = [runs](const Seed& seed, const std::string& bytes) {
    const fs::path run = runs.Copy(seed.name, bytes);
    model::Model::Load(run / "last");
    lab::ReadRun(run, NamedData(), "separate", 1);
  };
  return reading;
}

Reading Results() {
  lab::AblationResults results;
  results.title = "Kinds of attention on digits";
  results.facts = {{"data", "digits"}};
  results.arms = {"separate", "shared"};
  results.planned = 4;
  for (const char* arm : {"separate", "shared"}) {
    for (int64_t seed = 0; seed < 2; ++seed) {
      results.runs.push_back({.data = "digits", .arm = arm, .seed = seed, .top1 = 0.5, .loss = 1.25, .steps = 10});
    }
    results.speeds[arm] = {100, 200};
  }
  Reading reading;
  reading.seeds = {JsonSeed("results", results.ToJson()), JsonSeed("run", results.runs[0].ToJson())};
  reading.read = [](const Seed& seed, const std::string& bytes) {
    if (seed.name == "run") {
      lab::RunResult::FromJson(bytes, "file").ToJson();
      return;
    }
    const lab::AblationResults read = lab::AblationResults::FromJson(bytes, "file");
    for (const std::string& data : read.Data()) lab::Summarise(read, data);
    read.ToJson();
  };
  return reading;
}

}  // namespace

std::vector<Reader> RunReaders() {
  return {{.name = "TrainingState", .open = [] { return Resumed(false); }, .inputs = 24},
          {.name = "Progress", .open = [] { return Resumed(true); }, .inputs = 60},
          {.name = "Settings", .open = Settings, .inputs = 100},
          {.name = "Log", .open = Logs},
          {.name = "RunModel", .open = Models},
          {.name = "Results", .open = Results, .inputs = 80}};
}

}  // namespace qkv::hostile
