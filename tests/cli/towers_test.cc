// Models with two towers as their users run them: classes by prompts, vectors of images and texts.
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace qkv {
namespace {

class Towers : public testing::TestWithParam<const char*> {
 protected:
  static std::string Model() { return Golden(std::string("towers/") + GetParam()); }
  std::string Photos() const {
    std::string paths;
    for (const io::Json& name : expected_["photos"]) paths += " " + Digits() + "/" + name.get<std::string>();
    return paths;
  }
  std::string TextsFile() const {
    std::string lines;
    for (const io::Json& text : expected_["texts"]) lines += text.get<std::string>() + "\n";
    WriteFile(folder_ / "texts", lines);
    return (folder_ / "texts").string();
  }
  // Scores in the order of the classes.
  static std::vector<double> Scores(const io::Json& line) {
    std::vector<double> scores(line["top"].size());
    for (const io::Json& one : line["top"]) scores[one["index"].get<size_t>()] = one["score"];
    return scores;
  }

  const TemporaryFolder folder_;
  const io::Json expected_ = io::ReadJson(Model() + "/expected.json");
};
INSTANTIATE_TEST_SUITE_P(Models, Towers, testing::Values("clip", "siglip"),
                         [](const auto& name) { return std::string(name.param); });

void ExpectNear(const std::vector<double>& values, const io::Json& wanted) {
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], wanted[i].get<double>(), 2e-5) << i;
}

TEST_P(Towers, ClassifyByPromptsAsTransformersDoes) {
  const CommandOutput said =
      Qkv("classify --json --logits -m " + Model() + " --prompts " + TextsFile() + Photos() + " --top 9");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), expected_["photos"].size());
  for (size_t i = 0; i < lines.size(); ++i) {
    ExpectNear(Scores(lines[i]), expected_["probabilities"][i]);
    for (size_t c = 0; c < lines[i]["logits"].size(); ++c) {
      EXPECT_NEAR(lines[i]["logits"][c].get<double>(), expected_["logits"][i][c].get<double>(), 1e-4);
    }
  }
}

TEST_P(Towers, TemplatesAreAveraged) {
  std::string templates;
  for (const io::Json& text : expected_["templates"]) templates += " --template '" + text.get<std::string>() + "'";
  const CommandOutput said =
      Qkv("classify --json -m " + Model() + " --prompts " + TextsFile() + templates + Photos() + " --top 9");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  for (size_t i = 0; i < lines.size(); ++i) ExpectNear(Scores(lines[i]), expected_["template_probabilities"][i]);
}

TEST_P(Towers, EmbedImagesAndTexts) {
  const CommandOutput images = Qkv("embed -m " + Model() + Photos());
  ASSERT_EQ(images.exit_code, 0) << images.err;
  const std::vector<io::Json> rows = JsonLines(images.out);
  ASSERT_EQ(rows.size(), expected_["photos"].size());
  for (size_t i = 0; i < rows.size(); ++i) {
    ExpectNear(rows[i]["embedding"].get<std::vector<double>>(), expected_["image_embeds"][i]);
  }
  const std::string file = (folder_ / "t.npy").string();
  const CommandOutput texts = Qkv("embed -m " + Model() + " --text " + TextsFile());
  ASSERT_EQ(texts.exit_code, 0) << texts.err;
  const std::vector<io::Json> vectors = JsonLines(texts.out);
  ASSERT_EQ(vectors.size(), expected_["texts"].size());
  for (size_t i = 0; i < vectors.size(); ++i) {
    EXPECT_EQ(vectors[i]["text"], expected_["texts"][i]);
    ExpectNear(vectors[i]["embedding"].get<std::vector<double>>(), expected_["text_embeds"][i]);
  }
  ASSERT_EQ(Qkv("embed -m " + Model() + " --text " + TextsFile() + " -o " + file).exit_code, 0);
  EXPECT_TRUE(Contains(ReadFile(folder_ / "t.paths.txt"), expected_["texts"][0].get<std::string>()));
}

TEST_P(Towers, SearchByWordsGivesTheirCosines) {
  const std::string file = (folder_ / "p.npy").string();
  ASSERT_EQ(Qkv("embed -m " + Model() + Photos() + " -o " + file).exit_code, 0);
  for (size_t t = 0; t < expected_["texts"].size(); ++t) {
    const CommandOutput said =
        Qkv("search --json -m " + Model() + " " + file + " '" + expected_["texts"][t].get<std::string>() + "'");
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const io::Json answer = JsonLines(said.out)[0];
    ASSERT_EQ(answer["results"].size(), expected_["photos"].size());
    for (const io::Json& hit : answer["results"]) {
      const auto row = hit["row"].get<size_t>();
      double cosine = 0;
      for (size_t d = 0; d < expected_["text_embeds"][t].size(); ++d) {
        cosine += expected_["text_embeds"][t][d].get<double>() * expected_["image_embeds"][row][d].get<double>();
      }
      EXPECT_NEAR(hit["score"].get<double>(), cosine, 2e-5);
    }
  }
  // A photo and words in one call, with a sheet.
  const std::string sheet = (folder_ / "sheet.html").string();
  const CommandOutput both = Qkv("search -m " + Model() + " " + file + Photos() + " 'a cat' --top 1 --sheet " + sheet);
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_TRUE(Contains(ReadFile(sheet), "a cat"));
  const CommandOutput none = Qkv("search -m " + Golden("hf_vit") + " " + file + " 'a cat'");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(Contains(none.err, "text tower")) << none.err;
}

TEST_P(Towers, WordsAreSearchedInTheSharedSpaceOnly) {
  const std::string file = (folder_ / "m.npy").string(), whole = (folder_ / "w.npy").string();
  ASSERT_EQ(Qkv("embed -m " + Model() + " --pool mean" + Photos() + " -o " + file).exit_code, 0);
  ASSERT_EQ(Qkv("embed -m " + Model() + Photos() + " -o " + whole).exit_code, 0);
  for (const char* pool : {"", " --pool model"}) {
    const CommandOutput mean = Qkv("search " + file + " 'a dog' -m " + Model() + pool);
    EXPECT_EQ(mean.exit_code, 1);
    EXPECT_TRUE(Contains(mean.err, "--pool mean")) << mean.err;
  }
  EXPECT_EQ(Qkv("search " + whole + " 'a dog' --pool cls").exit_code, 1);
  EXPECT_EQ(Qkv("search " + whole + " 'a dog' --pool foo").exit_code, 2);
  // Queries keep their order; the model is the one that the file names.
  const std::string photo = Digits() + "/" + expected_["photos"][0].get<std::string>();
  const CommandOutput mixed = Qkv("search --json " + whole + " 'a dog' " + photo + " 'a cat'");
  ASSERT_EQ(mixed.exit_code, 0) << mixed.err;
  const std::vector<io::Json> answers = JsonLines(mixed.out);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0]["query"], "a dog");
  EXPECT_EQ(answers[1]["query"], photo);
  EXPECT_NEAR(answers[1]["results"][0]["score"].get<double>(), 1, 1e-5);
  EXPECT_EQ(answers[2]["query"], "a cat");
  EXPECT_FALSE(Contains(mixed.err, "built-in")) << mixed.err;
}

TEST_P(Towers, ReadTextsFromLines) {
  WriteFile(folder_ / "lines",
            "\xEF\xBB\xBF"
            "a cat\r\na dog on the beach\n\n");
  const std::string lines = (folder_ / "lines").string();
  const CommandOutput piped = Qkv("embed --text - -m " + Model(), "cat " + lines + " |");
  ASSERT_EQ(piped.exit_code, 0) << piped.err;
  const std::vector<io::Json> vectors = JsonLines(piped.out);
  ASSERT_EQ(vectors.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(vectors[i]["text"], expected_["texts"][i]);
    ExpectNear(vectors[i]["embedding"].get<std::vector<double>>(), expected_["text_embeds"][i]);
  }
  EXPECT_FALSE(Contains(piped.err, "are cut")) << piped.err;
  const std::string table = (folder_ / "texts.csv").string();
  ASSERT_EQ(Qkv("embed -o " + table + " -m " + Model() + " --text " + lines).exit_code, 0);
  EXPECT_TRUE(ReadFile(table).starts_with("text,x0,")) << ReadFile(table).substr(0, 99);
  const CommandOutput cut = Qkv("embed -m " + Model() + " --text " + TextsFile());
  EXPECT_TRUE(Contains(cut.err, "more than the model's 12 tokens and are cut")) << cut.err;
  const CommandOutput pool = Qkv("embed --pool cls -m " + Model() + " --text " + lines);
  EXPECT_EQ(pool.exit_code, 1);
  EXPECT_TRUE(Contains(pool.err, "--pool cls")) << pool.err;

  const CommandOutput prompts = Qkv("classify --json -m " + Model() + Photos() + " --prompts " + lines);
  ASSERT_EQ(prompts.exit_code, 0) << prompts.err;
  EXPECT_TRUE(Contains(prompts.out, "\"a cat\"")) << prompts.out;
  WriteFile(folder_ / "gap", "a cat\n\na dog\n");
  const CommandOutput gap = Qkv("classify -m " + Model() + Photos() + " --prompts " + (folder_ / "gap").string());
  EXPECT_EQ(gap.exit_code, 1);
  EXPECT_TRUE(Contains(gap.err, "gap:2: an empty line")) << gap.err;
}

TEST_P(Towers, MissingFilesAreNoWords) {
  const std::string file = (folder_ / "e.npy").string();
  ASSERT_EQ(Qkv("embed -m " + Model() + Photos() + " -o " + file).exit_code, 0);
  for (const char* name : {"nosuch.txt", "./dir/labels", "-", "nosuch.JPG"}) {
    const CommandOutput prompts = Qkv("classify -m " + Model() + Photos() + " --prompts " + name);
    EXPECT_EQ(prompts.exit_code, 1) << name;
    EXPECT_TRUE(Contains(prompts.err, std::string("--prompts: ") + name)) << prompts.err;
    if (*name == '-') continue;  // an image on standard input
    const CommandOutput search = Qkv("search " + file + " " + name);
    EXPECT_EQ(search.exit_code, 1) << name;
    EXPECT_TRUE(Contains(search.err, "no such file")) << search.err;
  }
  EXPECT_EQ(Qkv("classify -m " + Model() + Photos() + " --prompts 'cat/dog '").exit_code, 0);
  EXPECT_EQ(Qkv("classify -m " + Model() + Photos() + " --prompts 'cat/dog,bird'").exit_code, 0);
  EXPECT_EQ(Qkv("search " + file + " 'cat/dog '").exit_code, 0);
  const CommandOutput one = Qkv("classify -m " + Model() + Photos() + " --prompts 'a cat'");
  EXPECT_EQ(Contains(one.err, "always gets 100 %"), std::string(GetParam()) == "clip") << one.err;
}

TEST_P(Towers, TakeEveryPrecisionAndCommand) {
  for (const char* dtype : {"bf16", "int8"}) {
    const CommandOutput said =
        Qkv("classify -m " + Model() + " --dtype " + dtype + " --prompts 'a cat,a dog'" + Photos());
    EXPECT_EQ(said.exit_code, 0) << said.err;
  }
  EXPECT_TRUE(Contains(Qkv("info -m " + Model()).out, "787") || Contains(Qkv("info -m " + Model()).out, "640"));
  const CommandOutput maps = Qkv("attend -m " + Model() + Photos());
  EXPECT_EQ(maps.exit_code, 0) << maps.err;
}

// A converted or rewritten model still takes texts.
TEST_P(Towers, KeepTheirTokenizerWhenWritten) {
  const std::string half = (folder_ / "half").string(), split = (folder_ / "split").string();
  ASSERT_EQ(Qkv("convert -m " + Model() + " --dtype fp16 -o " + half).exit_code, 0);
  ASSERT_EQ(Qkv("qk truncate --rank 2 -m " + Model() + " -o " + split).exit_code, 0);
  for (const std::string& model : {half, split}) {
    EXPECT_EQ(ReadFile(model + "/tokenizer.json"), ReadFile(Model() + "/tokenizer.json"));
    EXPECT_EQ(ReadFile(model + "/tokenizer_config.json"), ReadFile(Model() + "/tokenizer_config.json"));
    EXPECT_FALSE(FileExists(model + "/expected.json"));
    const CommandOutput said = Qkv("classify -m " + model + " --prompts 'a cat,a dog'" + Photos());
    EXPECT_EQ(said.exit_code, 0) << said.err;
  }
  // Over another model: what its tokenizer left there goes.
  WriteFile(half + "/merges.txt", "#");
  ASSERT_EQ(Qkv("convert --force -m " + Model() + " -o " + half).exit_code, 0);
  EXPECT_FALSE(FileExists(half + "/merges.txt"));
  // Not over itself, which stays as it is.
  EXPECT_EQ(Qkv("convert --force -m " + half + " -o " + half).exit_code, 1);
  EXPECT_EQ(Qkv("classify -m " + half + " --prompts 'a cat,a dog'" + Photos()).exit_code, 0);
}

TEST_P(Towers, SayWhatIsMissing) {
  const auto error = [&](const std::string& arguments) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_NE(said.exit_code, 0) << arguments;
    return said.err;
  };
  const std::string photo = " " + Digits() + "/7-black.png";
  EXPECT_TRUE(Contains(error("classify -m " + Model() + photo), "--prompts"));
  EXPECT_TRUE(Contains(error("classify -m " + Golden("hf_vit") + " --prompts a,b" + photo), "text tower"));
  EXPECT_TRUE(Contains(error("classify -m " + Model() + " --prompts a,,b" + photo), "empty label"));
  EXPECT_TRUE(Contains(error("classify -m " + Model() + " --prompts a,b,a" + photo), "twice"));
  EXPECT_TRUE(Contains(error("classify -m " + Model() + " --prompts a,b --template x" + photo), "--template"));
  EXPECT_TRUE(Contains(error("embed -m " + Golden("hf_vit") + " --text " + TextsFile()), "text"));
  EXPECT_TRUE(Contains(error("embed -m " + Model()), "--text"));
  EXPECT_TRUE(Contains(error("embed -m " + Model() + " --text /nowhere"), "/nowhere"));
  // The image encoder alone has no texts to compare with: both ways say so.
  const std::string vision = Golden("hf_clip_vision_projection");
  EXPECT_TRUE(Contains(error("classify -m " + vision + photo), "text encoder"));
  EXPECT_TRUE(Contains(error("classify --prompts a,b -m " + vision + photo), "image encoder alone"));
  std::filesystem::create_directories(folder_ / "data/a");
  std::filesystem::copy(Digits() + "/7-black.png", folder_ / "data/a/7.png");
  EXPECT_TRUE(Contains(error("evaluate -m " + Model() + " " + (folder_ / "data").string()), "--prompts"));
  EXPECT_TRUE(Contains(error("detect" + photo), "-m"));
  // Without its tokenizer the image tower still answers.
  std::filesystem::copy(Model(), folder_ / "model");
  std::filesystem::remove(folder_ / "model/tokenizer.json");
  const std::string model = (folder_ / "model").string();
  EXPECT_TRUE(Contains(error("classify -m " + model + " --prompts a,b" + photo), "tokenizer.json"));
  EXPECT_EQ(Qkv("embed -m " + model + photo).exit_code, 0);
}

}  // namespace
}  // namespace qkv
