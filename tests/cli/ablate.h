// Runs of `qkv ablate` on a few drawn images and on tasks, and what they write.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "qkv/io/json.h"
#include "tests/cli/program.h"
#include "tests/cli/training.h"

namespace qkv {

class Ablate : public testing::Test {
 protected:
  Ablate() {
    DrawImages(folder_ / "data/train", 12, 1);
    DrawImages(folder_ / "data/val", 6, 2);
  }
  // A run is six steps of a model of a few thousand parameters.
  std::string Arguments(const std::string& output, const std::string& more) const {
    return fmt::format(
        "ablate {} -o {} --preset vit-digits --image-size 8 --patch-size 4 --width 16 --depth 2 --heads 2 --batch 12 "
        "--epochs 2 --warmup-epochs 0 --save-steps 1 --threads 1 {}",
        (folder_ / "data").string(), (folder_ / output).string(), more);
  }
  std::string Text(const std::string& file) const { return ReadFile(folder_ / file); }

  // Runs of twenty steps.
  std::string OnTasks(const std::string& tasks, const std::string& output, const std::string& more) const {
    return fmt::format(
        "ablate {} -o {} --length 6 --vocabulary 8 --width 16 --depth 2 --heads 2 --batch 12 --steps 20 "
        "--warmup-epochs 0 --save-steps 1 --threads 1 {}",
        tasks, (folder_ / output).string(), more);
  }

  // runs.csv, by "data arm seed" and column.
  std::map<std::string, std::map<std::string, std::string>> Runs(const std::string& output) const {
    std::istringstream text(Text(output + "/runs.csv"));
    const auto fields = [](const std::string& line) {
      std::vector<std::string> words;
      std::istringstream in(line);
      for (std::string word; std::getline(in, word, ',');) words.push_back(word);
      return words;
    };
    std::string line;
    std::getline(text, line);
    const std::vector<std::string> names = fields(line);
    std::map<std::string, std::map<std::string, std::string>> runs;
    while (std::getline(text, line)) {
      const std::vector<std::string> values = fields(line);
      auto& run = runs[values.at(0) + " " + values.at(1) + " " + values.at(2)];
      for (size_t i = 0; i < values.size(); ++i) run[names.at(i)] = values[i];
    }
    return runs;
  }

  static size_t Pictures(const std::string& page) {
    size_t pictures = 0;
    for (size_t at = page.find("<svg"); at != page.npos; at = page.find("<svg", at + 1)) ++pictures;
    return pictures;
  }
  static void ExpectSpeeds(const io::Json& results) {
    for (const auto& [arm, speed] : results["speeds"].items()) {
      EXPECT_GT(speed["training"], 0) << arm;
      EXPECT_GT(speed["inference"], 0) << arm;
    }
  }

  const TemporaryFolder folder_;
};

}  // namespace qkv
