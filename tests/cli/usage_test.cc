// Wrong words on the command line, models of the wrong kind, and the progress line on a terminal.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/cli/program.h"

namespace qkv {
namespace {

TEST(Usage, NamesAWordThatIsNotUnderstood) {
  for (const auto& [arguments, message] : std::initializer_list<std::pair<std::string, std::string>>{
           {"clasify x.png", "qkv: there is no command \"clasify\"; did you mean classify?"},
           {"qk inspct", "qkv qk: there is no command \"inspct\"; did you mean inspect?"},
           {"frobnicate", "qkv: there is no command \"frobnicate\"\n"},
           {"train data --widht 3 -o run", "qkv train: there is no option --widht; did you mean --width?"},
           {"classify --tpo=3 x.png", "qkv classify: there is no option --tpo; did you mean --top?"},
           {"classify -z x.png", "qkv classify: there is no option -z\n"},
           {"classify --quite-another-thing x.png", "there is no option --quite-another-thing\n"},
           {"classify", "PATH is required"},
           {"embed --pool maxx x.png", "--pool: maxx not in"}}) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    EXPECT_TRUE(Contains(said.err, message)) << said.err;
    EXPECT_EQ(said.out, "") << arguments;
  }
  EXPECT_EQ(Qkv("--help").exit_code, 0);
  EXPECT_EQ(Qkv("--version").exit_code, 0);
}

TEST(Usage, HelpAndVersionAreCommandsToo) {
  EXPECT_EQ(Qkv("help classify").out, Qkv("classify --help").out);
  EXPECT_EQ(Qkv("help qk inspect").out, Qkv("qk inspect --help").out);
  EXPECT_EQ(Qkv("help").out, Qkv("--help").out);
  const CommandOutput none = Qkv("help clasify");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(Contains(none.err, "there is no command \"clasify\"")) << none.err;
  for (const char* version : {"-V", "version"}) EXPECT_EQ(Qkv(version).out, Qkv("--version").out);
}

// The names of all commands, those of groups too.
std::vector<std::string> Commands() {
  std::vector<std::string> names = {""};
  for (const std::string& above : {std::string(), std::string("qk ")}) {
    std::istringstream help(Qkv(above + "--help").out);
    bool listed = false;
    for (std::string line; std::getline(help, line);) {
      if (listed && line.starts_with("  ") && line[2] != ' ')
        names.push_back(above + line.substr(2, line.find(' ', 2) - 2));
      listed = (listed && !line.empty()) || line == "Subcommands:";
    }
  }
  return names;
}

size_t Columns(const std::string& line) {
  return static_cast<size_t>(std::ranges::count_if(line, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

TEST(Usage, HelpFitsTheTerminal) {
  const std::vector<std::string> commands = Commands();
  EXPECT_GE(commands.size(), 29u);
  for (const std::string& command : commands) {
    const std::string help = Qkv(command + " --help", "COLUMNS=").out,
                      narrow = Qkv(command + " --help", "COLUMNS=60").out;
    std::istringstream lines(help), narrow_lines(narrow);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(Columns(line), 100u) << command << ": " << line;
      EXPECT_FALSE(line.ends_with(' ')) << command << ": " << line;
    }
    // Examples, which are commands to copy, are not broken.
    for (std::string line; std::getline(narrow_lines, line);) {
      if (!line.starts_with("  qkv ") && !line.starts_with("  curl ") && !line.starts_with("  hf ")) {
        EXPECT_LE(Columns(line), 60u) << command << ": " << line;
      }
    }
    EXPECT_NE(help, narrow);
    // The parser's notation.
    for (const char* word :
         {"TEXT:", "INT:", "FLOAT:", "INT ", "Excludes:", "Needs:", "REQUIRED", "POSITIVE", "->", "=fp32"})
      EXPECT_FALSE(Contains(help, word)) << command << ": " << word;
  }
}

TEST(Usage, HelpListsOwnOptionsFirst) {
  for (const auto& [command, own] :
       std::initializer_list<std::pair<std::string, std::string>>{{"classify", "--prompts"},
                                                                  {"embed", "--pool"},
                                                                  {"search", "--pairs"},
                                                                  {"evaluate", "--split"},
                                                                  {"info", "--json"},
                                                                  {"run", "--hidden"},
                                                                  {"attend", "--layer"},
                                                                  {"bench", "--seconds"},
                                                                  {"translate", "--cut"},
                                                                  {"verify", "--tolerance"}}) {
    const std::string help = Qkv(command + " --help").out;
    const size_t at = help.find("  " + own), files = help.find("\nModel files"), computing = help.find("\nComputing:");
    ASSERT_NE(at, std::string::npos) << command << help;
    ASSERT_NE(computing, std::string::npos) << command;
    EXPECT_LT(at, computing) << command;
    EXPECT_LT(at, std::min(files, help.size())) << command;
    EXPECT_GT(help.find("--max-memory"), computing) << command;
  }
}

TEST(Usage, HelpSaysItInWords) {
  const std::string help = Qkv("classify --help", "COLUMNS=400").out;
  for (const char* line : {"Usage: qkv classify [OPTIONS] PATH...\n", "  --dtype fp32|bf16|int8|auto\n",
                           "(default: fp32); auto: bf16 where", "All logits too, by --json or in -o FILE.jsonl\n",
                           "\n  -q, --quiet ", "  --cache[=use|verify] ", "\nExamples:\n"}) {
    EXPECT_TRUE(Contains(help, line)) << line << " is not in\n" << help;
  }
  EXPECT_TRUE(Contains(Qkv("qk merge --help").out, "(required)"));
  for (const char* command : {"classify", "embed", "search", "evaluate", "info", "run"}) {
    EXPECT_TRUE(Contains(Qkv(std::string(command) + " --help").out, std::string("\n  qkv ") + command)) << command;
  }
}

TEST(Usage, QuietSilencesNotesAndKeepsErrors) {
  const TemporaryFolder folder;
  WriteFile(folder / "broken.png", "no image");
  std::filesystem::copy(Golden("hf_vit"), folder / "model");
  std::filesystem::remove(folder / "model/preprocessor_config.json");
  const std::string arguments =
      "classify -m " + (folder / "model").string() + " " + Digits() + " " + (folder / "broken.png").string();
  EXPECT_TRUE(Contains(Qkv(arguments).err, "preprocess")) << Qkv(arguments).err;
  const CommandOutput quiet = Qkv(arguments + " -q");
  EXPECT_FALSE(Contains(quiet.err, "preprocess")) << quiet.err;
  EXPECT_TRUE(Contains(quiet.err, "broken.png")) << quiet.err;
}

TEST(Usage, QuietSilencesWhichModelAnswers) {
  for (const std::string& arguments : {"classify " + Digits(), "qk inspect " + Digits(),
                                       std::string("translate \"This package contains the documentation.\"")}) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_TRUE(Contains(said.err, " answers (")) << said.err;
    const CommandOutput quiet = Qkv(arguments + " -q");
    EXPECT_EQ(quiet.exit_code, 0) << arguments;
    EXPECT_EQ(quiet.err, "") << arguments;
    EXPECT_EQ(quiet.out, said.out) << arguments;
  }
}

TEST(Usage, AnOptionIsNamedOnce) {
  for (const char* arguments :
       {"train x -o y --preset nope", "train x -o y --width x", "ablate x -o y --preset nope"}) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    const size_t first = said.err.find("--");
    const std::string name = said.err.substr(first, said.err.find_first_of(": ", first) - first);
    EXPECT_EQ(said.err.find(name + ": " + name), std::string::npos) << said.err;
  }
}

TEST(Usage, ModelsOfTheWrongKindSayWhatToDo) {
  const CommandOutput generate = Qkv("generate -m " + Golden("timm_vit"));
  EXPECT_EQ(generate.exit_code, 1);
  EXPECT_TRUE(Contains(generate.err, "an image model")) << generate.err;
  EXPECT_TRUE(Contains(generate.err, "qkv classify -m")) << generate.err;
}

// script(1) runs the program on a terminal of its own.
TEST(Progress, LeavesTheLineBeforeResultsArePrinted) {
  if (std::system("script --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no script(1) here";
  const TemporaryFolder folder;
  const std::string typescript = (folder / "typescript").string();
  const std::string command =
      "script -qec '" QKV_PROGRAM " classify --batch 1 " + Digits() + "' " + typescript + " >/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string shown = ReadFile(typescript);
  ASSERT_TRUE(Contains(shown, "20 images")) << shown;
  int results = 0;
  for (size_t at = shown.find(Digits()); at != std::string::npos; at = shown.find(Digits(), at + 1)) {
    const std::string before = shown.substr(0, at);
    const size_t line = before.rfind(" left");
    if (line != std::string::npos) {
      EXPECT_TRUE(Contains(before.substr(line), "\x1b[K")) << "the result follows the progress on its line";
      ++results;
    }
  }
  EXPECT_GT(results, 5);
}

}  // namespace
}  // namespace qkv
