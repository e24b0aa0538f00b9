// qkv qk inspect from outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/cli/program.h"

namespace qkv {
namespace {

size_t Lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

TEST(Inspect, TellsAllHeadsOfTheBuiltInModel) {
  const CommandOutput said = Qkv("qk inspect --json --images 8 " + Digits());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json json = io::Json::parse(said.out);
  EXPECT_EQ(json["tokens"]["images"], 8);
  ASSERT_EQ(json["heads"].size(), json["blocks"].get<size_t>() * json["heads_a_block"].get<size_t>());
  for (const io::Json& head : json["heads"]) {
    const auto number = [&](const char* name) { return head[name].get<double>(); };
    EXPECT_NEAR(number("position_position") + number("position_content") + number("content_position") +
                    number("content_content"),
                1, 1e-9);
    EXPECT_EQ(head["qk_singular_values"].size(), json["head_width"].get<size_t>());
    EXPECT_EQ(head["qk_eigenvalues"].size(), json["head_width"].get<size_t>());
    EXPECT_LE(number("qk_rank_90"), number("qk_rank_99"));
    EXPECT_LE(number("entropy"), json["tokens"]["uniform"]["entropy"].get<double>());
  }
  EXPECT_EQ(Lines(Qkv("qk inspect --images 8 " + Digits()).out), json["heads"].size() + 1);
}

TEST(Inspect, WritesCsvAndAPageOfItsOwn) {
  const TemporaryFolder folder;
  const std::string csv = (folder / "heads.csv").string(), page = (folder / "heads.html").string();
  const CommandOutput said = Qkv("qk inspect -m " + Golden("vit_pytorch_vit") + " -o " + csv + " --report " + page);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(said.out.empty());
  EXPECT_TRUE(Contains(said.err, "noise")) << said.err;
  const io::Json info = io::Json::parse(Qkv("info --json -m " + Golden("vit_pytorch_vit")).out);
  EXPECT_EQ(Lines(ReadFile(csv)), info["depth"].get<size_t>() * info["heads"].get<size_t>() + 1);
  const std::string html = ReadFile(page);
  EXPECT_TRUE(Contains(html, "What stands out"));
  for (const char* outside : {"src=\"http", "href=\"http", "@import", "url(http"})
    EXPECT_FALSE(Contains(html, outside));
}

// Columns and pictures are of what the model has.
TEST(Inspect, LeavesOutWhatAModelDoesNotHave) {
  const TemporaryFolder folder;
  const std::string page = (folder / "heads.html").string();
  const auto page_of = [&](const char* golden) {
    const CommandOutput said = Qkv("qk inspect --images 2 -m " + Golden(golden) + " --report " + page);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return ReadFile(page);
  };
  const std::string whole = page_of("timm_reg4_cls"), normalised = page_of("timm_qk_norm"),
                    patches = page_of("vit_pytorch_simple");
  for (const char* part : {"W_Q/W_K", "To the class token", "To the registers", "Position to position"}) {
    EXPECT_TRUE(Contains(whole, part)) << part;
  }
  for (const char* part : {"W_Q/W_K", "Balanced", "Position to position"}) EXPECT_FALSE(Contains(normalised, part));
  for (const char* part : {"To the class token", "To the registers"}) EXPECT_FALSE(Contains(patches, part)) << part;
  EXPECT_TRUE(Contains(patches, "W_Q/W_K"));
  EXPECT_FALSE(Contains(Qkv("qk inspect --images 2 -m " + Golden("vit_pytorch_simple")).out, "class"));
}

// Of a head whose patches look at the class token alone there is no distance; a pruned head has no W_Q/W_K.
TEST(Inspect, PagesLeaveOutHeadsWithoutANumber) {
  constexpr int64_t D = 24, kHeadWidth = 8;
  const TemporaryFolder folder;
  const auto sign = [](int64_t d) { return d % 2 == 0 ? 1.0f : -1.0f; };
  WriteChanged("timm_reg4_cls", folder.path(), [&](const std::string& name, Tensor<float>& tensor) {
    const bool weight = name.ends_with("weight");
    const int64_t columns = weight ? D : 1;
    if (name == "cls_token") {
      for (int64_t d = 0; d < D; ++d) tensor[d] = 1000 * sign(d);
    } else if (name.starts_with("blocks.0.norm1.")) {
      std::fill_n(tensor.data(), D, weight ? 1.0f : 0.0f);
    } else if (name.starts_with("blocks.0.attn.qkv.")) {  // head 0: every query asks for what the class token is
      for (int64_t part = 0; part < 2; ++part) std::fill_n(tensor.data() + part * D * columns, kHeadWidth * columns, 0);
      if (!weight) tensor[0] = 1e4f;
      for (int64_t d = 0; d < D && weight; ++d) tensor[D * D + d] = sign(d);
    } else if (name.starts_with("blocks.1.attn.qkv.")) {
      for (int64_t part = 0; part < 3; ++part) std::fill_n(tensor.data() + part * D * columns, kHeadWidth * columns, 0);
    }
  });
  const std::string page = (folder / "heads.html").string();
  const CommandOutput said = Qkv("qk inspect --json --images 2 -m " + folder.path().string() + " --report " + page);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json heads = io::Json::parse(said.out)["heads"];
  ASSERT_TRUE(heads[0]["distance"].is_null());
  ASSERT_TRUE(heads[0]["near"].is_null());
  ASSERT_TRUE(heads[1]["distance"].is_number());
  ASSERT_EQ(heads[3]["query_norm"], 0);
  ASSERT_EQ(heads[3]["key_norm"], 0);
  const std::string html = ReadFile(page);
  for (const char* text : {"from nan", "to nan", "nan patches", ">nan<", "\"nan\"", "nan %"}) {
    EXPECT_FALSE(Contains(html, text)) << text;
  }
}

TEST(Inspect, WeightsAlone) {
  const CommandOutput said = Qkv("qk inspect --json --images 0 -m " + Golden("timm_qkv_bias_off"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json json = io::Json::parse(said.out);
  EXPECT_TRUE(json["tokens"].is_null());
  EXPECT_EQ(json["heads"][0]["key_bias_norm"], 0);
  EXPECT_FALSE(json["heads"][0].contains("entropy"));
}

TEST(Inspect, SaysWhatCannotBeKnown) {
  const io::Json normalised = io::Json::parse(Qkv("qk inspect --json -m " + Golden("timm_qk_norm")).out);
  EXPECT_GE(normalised["caveats"].size(), 1u);
  EXPECT_TRUE(normalised["parameters_a_head"].is_null());
  EXPECT_FALSE(normalised["heads"][0].contains("gauge_excess"));
  EXPECT_FALSE(normalised["heads"][0].contains("position_position"));
  const CommandOutput one = Qkv("qk inspect --images 1");
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_TRUE(Contains(one.err, "one image is not enough")) << one.err;

  const CommandOutput missing = Qkv("qk inspect /nonexistent.png");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_TRUE(Contains(missing.err, "/nonexistent.png"));
  EXPECT_EQ(Qkv("qk inspect --images -1").exit_code, 2);
}

TEST(Inspect, TellsThePartsOfATranslator) {
  const TemporaryFolder folder;
  const std::string lines = (folder / "lines.txt").string(), csv = (folder / "heads.csv").string(),
                    page = (folder / "heads.html").string(), model = " -m " + Golden("tasks/marian");
  WriteFile(lines, "the house is green\n\na red tree\nblue\n");
  const CommandOutput said = Qkv("qk inspect --json" + model + " " + lines + " 'and a word'");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json json = io::Json::parse(said.out);
  EXPECT_EQ(json["parts"].size(), 3u);
  EXPECT_EQ(json["parts"][2]["tokens"]["texts"], 4);
  EXPECT_EQ(
      io::Json::parse(Qkv("qk inspect --json --images 2" + model + " " + lines).out)["parts"][0]["tokens"]["from"],
      "2 texts of 3");
  const std::string table = Qkv("qk inspect" + model + " " + lines).out;
  EXPECT_EQ(Lines(table), json["heads"].size() + 1);
  for (const char* word : {"part", "encoder", "decoder", "cross", "diagonal", "–"}) EXPECT_TRUE(Contains(table, word));
  ASSERT_EQ(Qkv("qk inspect -o " + csv + " --report " + page + model + " " + lines).exit_code, 0);
  EXPECT_EQ(Lines(ReadFile(csv)), json["heads"].size() + 1);
  EXPECT_TRUE(Contains(ReadFile(page), "Cross-attention. Alignment"));
  // Weights alone, from standard input, and refusals.
  EXPECT_FALSE(Contains(Qkv("qk inspect" + model).out, "diagonal"));
  EXPECT_TRUE(Contains(Qkv("qk inspect" + model + " -", "echo a red tree |").out, "diagonal"));
  const CommandOutput over = Qkv("qk inspect -o " + lines + model + " " + lines);
  EXPECT_EQ(over.exit_code, 1);
  EXPECT_TRUE(Contains(Qkv("qk inspect" + model + " nothing.txt").err, "nothing.txt"));
  EXPECT_TRUE(Contains(Qkv("qk inspect --size 32" + model).err, "do not apply to a text model"));
  EXPECT_TRUE(Contains(Qkv("qk inspect --ignore-exif" + model).err, "apply to images only"));
}

TEST(Inspect, TakesEveryFamilyOfText) {
  for (const char* name : {"bert", "gpt2", "llama", "t5"}) {
    const CommandOutput said = Qkv("qk inspect -m " + Golden(std::string("tasks/") + name) + " 'red house' 'a tree'");
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_TRUE(Contains(said.out, "first")) << name;
  }
  EXPECT_TRUE(Contains(Qkv("qk inspect -m " + Golden("tasks/llama")).err, "distance 0"));
}

// Models of sequences of qkv's own have weights, and parts whose scores do not come from tokens have none to tell.
TEST(Inspect, TakesRunsOfTraining) {
  const TemporaryFolder folder;
  const std::string task = (folder / "task").string(), pairs = (folder / "pairs.tsv").string(),
                    run = (folder / "run").string();
  ASSERT_EQ(Qkv("train task:copy --steps 2 --width 16 --depth 2 --heads 2 -q -o " + task).exit_code, 0);
  const CommandOutput said = Qkv("qk inspect -m " + task);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(Lines(said.out), 5u);
  EXPECT_EQ(Qkv("qk certify -m " + task).exit_code, 0);
  EXPECT_TRUE(Contains(Qkv("qk inspect -m " + task + " words").err, "without a tokenizer"));

  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "rot Haus\tred house\nblau Baum\tblue tree\n";
  WriteFile(pairs, lines);
  const CommandOutput trained =
      Qkv("train " + pairs + " -o " + run +
          " --vocabulary 300 --length 24 --width 16 --depth 1 --heads 2 --steps 2 --batch 200 "
          "--attention gaussian -q");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  for (const char* command : {"qk inspect", "qk certify"}) {
    const CommandOutput of_run = Qkv(std::string(command) + " -m " + run + (command[3] == 'i' ? " 'rot Haus'" : ""));
    ASSERT_EQ(of_run.exit_code, 0) << of_run.err;
    EXPECT_TRUE(Contains(of_run.out, "cross")) << of_run.out;
    EXPECT_TRUE(Contains(of_run.err, "gaussian")) << of_run.err;
    EXPECT_FALSE(Contains(of_run.out, "encoder"));
  }
}

TEST(Certify, TellsThePartsOfATranslator) {
  const std::string model = " -m " + Golden("text/marian");
  const CommandOutput said = Qkv("qk certify" + model);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const char* words :
       {"encoder\n", "\n\ndecoder\n", "\n\ncross\n", "the residual stream goes through the norm too"}) {
    EXPECT_TRUE(Contains(said.out, words)) << words << said.out;
  }
  size_t cross = 0;
  for (const io::Json& json : JsonLines(Qkv("qk certify --json --rank 3" + model).out)) {
    cross += json["part"] == "cross";
    if (json["rewriting"] == "truncate") {
      EXPECT_EQ(json["rank"], 3);
    }
  }
  EXPECT_EQ(cross, 2u * (3 * 10 + 3));
  EXPECT_TRUE(Contains(Qkv("qk certify --rank 9" + model).err, "encoder part have 8 features"));
  EXPECT_TRUE(Contains(Qkv("qk certify --with rope -m " + Golden("text/t5")).out, "RoPE"));
  EXPECT_TRUE(Contains(Qkv("qk certify --crop-pct 0.9" + model).err, "do not apply to a text model"));
}

TEST(Rewriting, IsOfModelsOfImages) {
  const std::string model = " -m " + Golden("text/bert");
  for (const char* command : {"merge -o x", "split -o x", "truncate -o x --rank 2", "plan", "claims --only C1"}) {
    const CommandOutput said = Qkv(std::string("qk ") + command + model);
    EXPECT_EQ(said.exit_code, 1) << command;
    EXPECT_TRUE(Contains(said.err, "is a text model, expected an image model")) << said.err;
  }
}

// What describes images is refused, not ignored.
// How images were embedded does not bind a text model.
TEST(ModelsOfText, SearchVectorsOfImagesWithANote) {
  const TemporaryFolder folder;
  const std::string vectors = (folder / "v.npy").string();
  ASSERT_EQ(
      Qkv("embed -m " + Golden("timm_vit") + " --pool mean --size 32x32 -o " + vectors + " " + Digits()).exit_code, 0);
  const CommandOutput said = Qkv("search " + vectors + " red -m " + Golden("tasks/bert"));
  EXPECT_TRUE(Contains(said.err, "scores across models mean nothing")) << said.err;
  EXPECT_FALSE(Contains(said.err, "do not apply")) << said.err;
}

TEST(ModelsOfText, RefuseOptionsOfImages) {
  const TemporaryFolder folder;
  const std::string model = " -m " + Golden("tasks/bert"), vectors = (folder / "v.npy").string();
  WriteFile(folder / "lines.txt", "red\nblue\n");
  ASSERT_EQ(Qkv("embed" + model + " --text " + (folder / "lines.txt").string() + " -o " + vectors).exit_code, 0);
  const std::string reference = Golden("text/bert") + "/expected.safetensors";
  for (const char* option : {"--crop-pct 0.9", "--mean 0.5", "--labels x.txt", "--heads 3", "--set a=1",
                             "--architecture vit", "--state-dict model"}) {
    for (const std::string& command :
         {"info" + model, "search " + vectors + " red" + model, "verify " + reference + " -m " + Golden("text/bert")}) {
      const CommandOutput said = Qkv(command + " " + option);
      EXPECT_EQ(said.exit_code, 1) << command << " " << option;
      EXPECT_TRUE(Contains(said.err, "do not apply to a text model")) << said.err;
    }
  }
  EXPECT_TRUE(Contains(Qkv("search " + vectors + " red --window 0,9" + model).err, "apply to images only"));
  EXPECT_TRUE(Contains(Qkv("search " + vectors + " red --pool cls" + model).err, "do not apply to a text model"));
  EXPECT_EQ(Qkv("search " + vectors + " red" + model).exit_code, 0);
  EXPECT_EQ(Qkv("info" + model).exit_code, 0);
}

}  // namespace
}  // namespace qkv
