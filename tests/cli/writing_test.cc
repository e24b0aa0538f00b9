// Text models from the command line: translate, summarize, generate, embed --text, search, info, run and verify.
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

std::string Task(const std::string& name) { return Golden("tasks/" + name); }
io::Json Expected(const std::string& name) { return io::ReadJson(fs::path(Task(name)) / "expected.json"); }

TEST(Translate, WritesALineForEachText) {
  const TemporaryFolder folder;
  const io::Json expected = Expected("marian");
  std::string lines, answers;
  for (size_t i = 0; i < expected["texts"].size(); ++i) {
    lines += expected["texts"][i].get<std::string>() + "\n";
    answers += expected["greedy"][i].get<std::string>() + "\n";
  }
  WriteFile(folder / "texts.txt", lines);
  const std::string model = "-m " + Task("marian") + " --tokens 10 ";
  const CommandOutput of_file = Qkv("translate " + model + (folder / "texts.txt").string());
  EXPECT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_EQ(of_file.out, answers);
  EXPECT_EQ(Qkv("translate " + model, "cat " + (folder / "texts.txt").string() + " |").out, answers);
  const CommandOutput words = Qkv("translate " + model + "'The house is green.' --json");
  EXPECT_EQ(JsonLines(words.out)[0]["text"], expected["greedy"][0]);
  EXPECT_EQ(JsonLines(words.out)[0]["tokens"], 10);
  EXPECT_EQ(JsonLines(words.out)[0]["ended"], false) << "its end was forced";
  EXPECT_TRUE(Contains(words.err, "without the model's end")) << words.err;
  EXPECT_EQ(Qkv("translate " + model, "printf 'a\\n\\nb\\n' |").out.find("\n\n") == std::string::npos, false)
      << "a line without words stays one";
  const CommandOutput to_file =
      Qkv("translate " + model + "--beams 3 'The house is green.' -o " + (folder / "out.txt").string());
  EXPECT_EQ(to_file.exit_code, 0) << to_file.err;
  EXPECT_EQ(ReadFile(folder / "out.txt"), expected["beam"][0].get<std::string>() + "\n");
  const CommandOutput over =
      Qkv("translate " + model + (folder / "texts.txt").string() + " -o " + (folder / "texts.txt").string());
  EXPECT_EQ(over.exit_code, 1);
  EXPECT_EQ(ReadFile(folder / "texts.txt"), lines) << "what is read is not written over";
  EXPECT_EQ(Qkv("translate " + model + "a -o " + Task("marian") + "/generation_config.json").exit_code, 1);
}

TEST(Translate, RefusesWhatItCannotDo) {
  const std::string long_text(2000, 'a');
  const CommandOutput too_long = Qkv("translate -m " + Task("marian") + " '" + long_text + "'");
  EXPECT_EQ(too_long.exit_code, 1);
  EXPECT_TRUE(Contains(too_long.err, "--cut")) << too_long.err;
  EXPECT_TRUE(Contains(Qkv("translate -m " + Task("bert") + " hello").err, "Marian, T5"));
  EXPECT_TRUE(Contains(Qkv("translate -m " + Task("marian") + " missing.txt").err, "no such file"));
  EXPECT_TRUE(
      Contains(Qkv("translate -m " + Golden("hf_vit") + " hello").err, "is an image model, expected a text model"));
}

TEST(Summarize, TakesAFileAsOneText) {
  const TemporaryFolder folder;
  WriteFile(folder / "a.txt", "The house is green.");
  const CommandOutput run = Qkv("summarize -q -m " + Task("t5") + " --tokens 10 " + (folder / "a.txt").string());
  EXPECT_EQ(run.out, Expected("t5")["greedy"][0].get<std::string>() + "\n") << run.err;
}

TEST(GenerateText, StreamsWhatTransformersWrites) {
  const io::Json expected = Expected("gpt2");
  const std::string model = "generate -m " + Task("gpt2") + " --tokens 10 --temperature 0 --prompt 'attention'";
  const std::string written = "attention" + expected["greedy"][1].get<std::string>();
  EXPECT_TRUE(Qkv(model).out.starts_with(written));
  EXPECT_EQ(JsonLines(Qkv(model + " --json").out)[0]["text"], expected["greedy"][1]);
}

TEST(EmbedText, VectorsAreFoundByWords) {
  const TemporaryFolder folder;
  const io::Json expected = Expected("bert");
  std::string lines;
  for (const auto& text : expected["texts"]) lines += text.get<std::string>() + "\n";
  WriteFile(folder / "texts.txt", lines);
  const std::string vectors = (folder / "texts.npy").string();
  const CommandOutput embed =
      Qkv("embed -m " + Task("bert") + " --text " + (folder / "texts.txt").string() + " -o " + vectors);
  EXPECT_EQ(embed.exit_code, 0) << embed.err;
  const CommandOutput found = Qkv("search --top 1 " + vectors + " 'The house is green.'");
  EXPECT_TRUE(Contains(found.out, "1.0000  The house is green.")) << found.out << found.err;
  // A query a line, of a file or of standard input; without the query itself.
  const std::string json = "search --json --top 1 " + vectors + " ";
  const std::vector<io::Json> answers = JsonLines(Qkv(json + (folder / "texts.txt").string()).out);
  ASSERT_EQ(answers.size(), expected["texts"].size());
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i]["query"], expected["texts"][i]);
    EXPECT_NEAR(answers[i]["results"][0]["score"].get<double>(), 1, 1e-5);
    EXPECT_TRUE(answers[i]["results"][0].contains("text")) << answers[i];
  }
  const std::vector<io::Json> others =
      JsonLines(Qkv(json + "- --exclude-self", "cat " + (folder / "texts.txt").string() + " |").out);
  ASSERT_EQ(others.size(), answers.size());
  for (const io::Json& other : others) EXPECT_NE(other["results"][0]["text"], other["query"]);
  const CommandOutput gone = Qkv("search " + vectors + " " + (folder / "gone.txt").string());
  EXPECT_EQ(gone.exit_code, 1) << gone.out;
}

TEST(TextModels, AreDescribedRunAndVerified) {
  const TemporaryFolder folder;
  const std::string t5 = Golden("text/t5"), reference = t5 + "/expected.safetensors";
  EXPECT_TRUE(Contains(Qkv("info -m " + t5).out, "cross-attention"));
  EXPECT_EQ(io::Json::parse(Qkv("info --json -m " + t5).out)["decoder"]["cross_attention"], true);
  const std::string out = (folder / "out.safetensors").string();
  EXPECT_EQ(Qkv("run -m " + t5 + " --input " + reference + " --attention 1 -o " + out).exit_code, 0);
  const auto tensors = io::SafeTensors::Open(out);
  for (const char* name : {"tokens", "encoder_tokens", "logits", "attention.1", "cross_attention.1"}) {
    EXPECT_NE(tensors.Find(name), nullptr) << name;
  }
  EXPECT_EQ(tensors.Find("attention.0"), nullptr);
  const CommandOutput verified = Qkv("verify -m " + t5 + " " + reference);
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_NE(Qkv("verify --tolerance 1e-9 -m " + t5 + " " + reference).exit_code, 0);
  const CommandOutput image = Qkv("classify -m " + t5 + " photo.jpg");
  EXPECT_TRUE(Contains(image.err, "qkv translate -m " + t5)) << image.err;
}

// The models that come with qkv.
TEST(ShippedTexts, AnswerWithoutAModel) {
  const CommandOutput translated = Qkv("translate 'This package contains the documentation for the Python library.'");
  ASSERT_EQ(translated.exit_code, 0) << translated.err;
  EXPECT_EQ(translated.out, "Questo pacchetto contiene la documentazione per la libreria Python.\n");
  EXPECT_TRUE(Contains(translated.err, "english-italian answers")) << translated.err;
  const CommandOutput summarized = Qkv("summarize 'This package contains the debugging symbols of the library.'");
  ASSERT_EQ(summarized.exit_code, 0) << summarized.err;
  EXPECT_TRUE(Contains(summarized.out, "debugging symbols")) << summarized.out;
  EXPECT_TRUE(Contains(summarized.err, "synopsis answers")) << summarized.err;
  EXPECT_TRUE(Contains(Qkv("info -m english-italian").out, "MarianMTModel"));
}

TEST(ShippedTexts, AreNotWrittenOver) {
  const TemporaryFolder folder;
  const std::string copy = (folder / "copy").string();
  ASSERT_EQ(Qkv("convert -m english-italian -o " + copy).exit_code, 0);
  const std::string before = ReadFile(folder / "copy/model.safetensors");
  const CommandOutput over = Qkv("convert --force --dtype fp16 -m " + copy + " -o " + copy);
  EXPECT_EQ(over.exit_code, 1);
  EXPECT_TRUE(Contains(over.err, "the model that is read")) << over.err;
  EXPECT_TRUE(ReadFile(folder / "copy/model.safetensors") == before);
  EXPECT_TRUE(Contains(Qkv("translate -m no-such-model a").err, "no such file or folder"));
  EXPECT_TRUE(Contains(Qkv("generate -m " + Task("bert")).err, "is a text model, expected a decoder"));
  EXPECT_TRUE(Contains(Qkv("attend a --prefix b -o " + copy + ".json -m " + Task("bert")).err, "--prefix, --beams"));
}

// As their cards say, of the pairs beside them.
TEST(ShippedTexts, AreAsGoodAsTheirCardsSay) {
  for (const auto& [name, metric, least] :
       {std::tuple{"english-italian", "bleu", 56.5}, {"synopsis", "rougeL", 40.0}}) {
    const std::string data = (SourceFolder() / "models" / name / "test.tsv").string();
    const CommandOutput answer = Qkv(fmt::format("evaluate --json --beams 1 -m {} {}", name, data));
    ASSERT_EQ(answer.exit_code, 0) << answer.err;
    EXPECT_GT(JsonLines(answer.out).at(0)[metric], least) << name;
  }
}

}  // namespace
}  // namespace qkv
