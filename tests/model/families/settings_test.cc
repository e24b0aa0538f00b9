// Settings beside the weights: which are used, in which order files win, and that none is passed over in silence. The
// right values are those of transformers 5.23 and sentence-transformers 6.2.
#include <gtest/gtest.h>

#include <functional>

#include "qkv/core/file.h"
#include "qkv/io/fields.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/model/model.h"
#include "qkv/model/sequence/generation.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// A copy of a golden whose files a test changes.
class Settings : public testing::Test {
 protected:
  fs::path Copy(const std::string& golden) {
    fs::remove_all(folder_ / "m");
    fs::copy(GoldenFolder(golden), folder_ / "m", fs::copy_options::recursive);
    return folder_ / "m";
  }
  static void Change(const fs::path& file, const io::Json& patch) {
    io::Json json = fs::exists(file) ? io::ReadJson(file) : io::Json::object();
    for (const auto& [key, value] : patch.items()) json[key] = value;
    WriteFile(file, json.dump());
  }
  TextDescription Text(const std::string& golden, const io::Json& config, const io::Json& generation = nullptr) {
    const fs::path folder = Copy(golden);
    Change(folder / "config.json", config);
    if (generation.is_object()) WriteFile(folder / "generation_config.json", generation.dump());
    return TextCheckpoint::Open(folder).description;
  }
  std::string Refusal(const std::string& golden, const io::Json& config, const io::Json& generation = nullptr) {
    return ErrorMessage([&] { Text(golden, config, generation); });
  }
  SentenceEmbedding Sentence(const std::function<void(const fs::path&)>& change) {
    const fs::path folder = Copy("tasks/bert");
    change(folder);
    return TextCheckpoint::Open(folder).description.sentence;
  }

  TemporaryFolder folder_;
};

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// All that the libraries write is known.
TEST_F(Settings, FilesOfTheLibrariesHaveNoUnknownKey) {
  for (const std::string& name : GoldenNames()) {
    for (const io::Setting& setting : Checkpoint::Open(GoldenFolder(name)).description.settings) {
      EXPECT_NE(setting.use, io::Setting::Use::kUnknown) << name << ": " << setting.file << ": " << setting.key;
    }
  }
  for (const std::string& name : TextGoldenNames()) {
    for (const io::Setting& setting : TextCheckpoint::Open(TextGoldenFolder(name)).description.settings) {
      EXPECT_NE(setting.use, io::Setting::Use::kUnknown) << name << ": " << setting.file << ": " << setting.key;
    }
  }
}

TEST_F(Settings, UnknownKeysAreTold) {
  const TextDescription d = Text("tasks/llama", {{"mystery", 1}, {"_own", 2}});
  const auto told = [](const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& line : lines) all += line;
    return all;
  };
  EXPECT_TRUE(Has(told(d.assumptions), "does not know are passed over: \"mystery\" of ")) << told(d.assumptions);
  EXPECT_FALSE(Has(told(d.assumptions), "_own"));
  const fs::path image = Copy("hf_vit");
  Change(image / "config.json", {{"mystery", 1}});
  EXPECT_TRUE(Has(told(Checkpoint::Open(image).description.assumptions), "\"mystery\" of config.json"));
}

TEST_F(Settings, KnownOnesThatWouldChangeTheAnswerAreRefused) {
  const auto refused = [&](const std::string& golden, const io::Json& config, const std::string& key) {
    const std::string message = Refusal(golden, config);
    EXPECT_TRUE(Has(message, "\"" + key + "\" is ") && Has(message, "which qkv does not do")) << message;
  };
  refused("tasks/llama", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor");
  refused("tasks/llama", {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}},
          "rope_parameters.partial_rotary_factor");
  refused("tasks/llama", {{"pruned_heads", {{"0", {1}}}}}, "pruned_heads");
  refused("tasks/llama", {{"quantization_config", {{"bits", 4}}}}, "quantization_config");
  refused("tasks/gpt2", {{"pruned_heads", {{"0", {1}}}}}, "pruned_heads");
  // Without generation_config.json these keys of config.json count.
  const fs::path folder = Copy("tasks/t5");
  fs::remove(folder / "generation_config.json");
  Change(folder / "config.json", {{"guidance_scale", 3}});
  EXPECT_TRUE(Has(ErrorMessage([&] { TextCheckpoint::Open(folder); }), "\"guidance_scale\" is 3"));
  const fs::path image = Copy("hf_vit");
  Change(image / "config.json", {{"pruned_heads", {{"0", {1}}}}});
  EXPECT_TRUE(Has(ErrorMessage([&] { Checkpoint::Open(image); }), "\"pruned_heads\""));
}

TEST_F(Settings, GenerationThatQkvDoesNotKnowIsRefusedAwayFromItsNeutralValue) {
  const io::Json neutral = {{"guidance_scale", 1.0},
                            {"encoder_repetition_penalty", 1.0},
                            {"encoder_no_repeat_ngram_size", 0},
                            {"begin_suppress_tokens", nullptr},
                            {"exponential_decay_length_penalty", nullptr},
                            {"typical_p", 1.0},
                            {"epsilon_cutoff", 0.0},
                            {"eta_cutoff", 0.0},
                            {"num_beam_groups", 1},
                            {"diversity_penalty", 0.0},
                            {"sequence_bias", nullptr},
                            {"stop_strings", nullptr},
                            {"use_cache", false}};
  Text("tasks/gpt2", {}, neutral);
  const io::Json other = {{"guidance_scale", 1.5},
                          {"encoder_repetition_penalty", 1.2},
                          {"encoder_no_repeat_ngram_size", 2},
                          {"begin_suppress_tokens", {5}},
                          {"exponential_decay_length_penalty", {4, 1.5}},
                          {"typical_p", 0.5},
                          {"epsilon_cutoff", 1e-3},
                          {"eta_cutoff", 1e-3},
                          {"num_beam_groups", 2},
                          {"diversity_penalty", 0.5},
                          {"sequence_bias", io::Json::object()},
                          {"num_return_sequences", 2},
                          {"stop_strings", {"a"}}};
  for (const auto& [key, value] : other.items()) {
    const std::string message = Refusal("tasks/gpt2", {}, {{key, value}});
    EXPECT_TRUE(Has(message, "generation_config.json: \"" + key + "\" is ")) << message;
  }
}

// Where there is a generation_config.json, config.json's keys are those of older releases.
TEST_F(Settings, GenerationConfigReplacesTheKeysOfConfig) {
  const io::Json old = {{"num_beams", 4}, {"no_repeat_ngram_size", 2}, {"repetition_penalty", 1.5}, {"typical_p", 0.5}};
  const GenerationDefaults beside = Text("tasks/gpt2", old, {{"max_length", 30}}).generation;
  EXPECT_EQ(beside.beams, 1);
  EXPECT_EQ(beside.no_repeat_ngram, 0);
  EXPECT_EQ(beside.repetition_penalty, 1);
  EXPECT_EQ(beside.max_length, 30);
  const GenerationDefaults null = Text("tasks/gpt2", old, {{"repetition_penalty", nullptr}}).generation;
  EXPECT_EQ(null.repetition_penalty, 1);
  // Ids may still come from there.
  EXPECT_EQ(Text("tasks/gpt2", {{"eos_token_id", 7}}, {{"max_length", 30}}).generation.ends, std::vector<int32_t>{7});
  EXPECT_EQ(Text("tasks/gpt2", {{"eos_token_id", 7}}, {{"eos_token_id", {3, 4}}}).generation.ends,
            (std::vector<int32_t>{3, 4}));
}

TEST_F(Settings, DrawsAreOfFiftyTokensUnlessTold) {
  const auto top_k = [&](const io::Json& generation) { return Text("tasks/gpt2", {}, generation).generation.top_k; };
  EXPECT_EQ(top_k({{"do_sample", true}, {"temperature", 2}}), 50);
  EXPECT_EQ(top_k({{"do_sample", true}, {"top_k", nullptr}}), 50);
  EXPECT_EQ(top_k({{"do_sample", true}, {"top_k", 0}}), 0);
  EXPECT_EQ(top_k({{"do_sample", true}, {"top_k", 7}}), 7);
}

TEST_F(Settings, AFirstTokenIsForcedAfterOneTokenOnly) {
  GenerationDefaults defaults;
  defaults.forced_first = 5;
  EXPECT_EQ(SettingsOf(defaults, 1).forced_first, 5);
  EXPECT_EQ(SettingsOf(defaults, 3).forced_first, std::nullopt);
}

TEST_F(Settings, RotaryBaseAsTheLibraryFindsIt) {
  const auto base = [&](const io::Json& config) { return Text("tasks/llama", config).decoder->rotary_base; };
  EXPECT_EQ(base({{"rope_parameters", {{"rope_type", "default"}}}, {"rope_theta", 500}}), 500);
  EXPECT_EQ(base({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 300}}}, {"rope_theta", 500}}), 300);
  EXPECT_EQ(base({{"rope_parameters", nullptr}, {"rope_theta", 500}}), 500);
  EXPECT_EQ(base({{"rope_parameters", nullptr}}), 10000);
  const io::Json both = {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 300}}},
                         {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}},
                         {"rope_theta", 500}};
  const SequenceConfig scaled = *Text("tasks/llama", both).decoder;
  EXPECT_EQ(scaled.rotary_base, 500);
  EXPECT_EQ(scaled.rotary_scaling.factor, 2);
}

// transformers refuses these, too.
TEST_F(Settings, ValuesThatNoClassTakesAreRefused) {
  const io::Json null_base = {{"rope_type", "default"}, {"rope_theta", nullptr}};
  EXPECT_TRUE(Has(Refusal("tasks/llama", {{"rope_parameters", null_base}}), "\"rope_theta\" is null"));
  EXPECT_TRUE(Has(Refusal("tasks/llama", {{"tie_word_embeddings", nullptr}}), "\"tie_word_embeddings\" is null"));
  Text("tasks/t5", {{"tie_word_embeddings", nullptr}});
  const int64_t depth = Text("tasks/llama", {}).decoder->depth;
  const auto types = [&](int64_t count, const char* type) {
    return io::Json{{"layer_types", std::vector<std::string>(static_cast<size_t>(count), type)}};
  };
  EXPECT_TRUE(Has(Refusal("tasks/llama", types(depth + 1, "full_attention")), "expected one of each of"));
  EXPECT_TRUE(Has(Refusal("tasks/llama", types(depth, "odd")), "\"layer_types\" has"));
  Text("tasks/llama", types(depth, "sliding_attention"));
  EXPECT_TRUE(Has(Refusal("tasks/gpt2", {}, {{"num_return_sequences", 3}, {"num_beams", 2}}), "num_return_sequences"));
  Text("tasks/gpt2", {}, {{"num_return_sequences", 2}, {"num_beams", 2}});
  Text("tasks/gpt2", {}, {{"num_return_sequences", 2}, {"do_sample", true}});
}

TEST_F(Settings, WindowsOfAllLayersOrNone) {
  const auto window = [&](const std::string& type, io::Json config) {
    config["model_type"] = type;
    return Text("tasks/llama", config).decoder->block.attention.window_left;
  };
  const auto none = nn::AttentionConfig().window_left;
  EXPECT_EQ(window("mistral", {{"sliding_window", 8}}), 7);
  EXPECT_EQ(window("mistral", {{"sliding_window", nullptr}}), none);
  EXPECT_EQ(window("mistral", {{"max_position_embeddings", 8192}}), 4095);  // the class's own
  EXPECT_EQ(window("llama", {{"sliding_window", 8}}), none);
  EXPECT_NE(Refusal("tasks/llama", {{"model_type", "mistral"}, {"sliding_window", 0}}), "");
}

TEST_F(Settings, PoolingAsFlagsAWordOrAList) {
  const auto pool = [&](const io::Json& json) {
    return Sentence([&](const fs::path& folder) { WriteFile(folder / "1_Pooling/config.json", json.dump()); });
  };
  EXPECT_EQ(pool({{"pooling_mode_cls_token", true}}).pool, SentencePool::kFirst);
  EXPECT_EQ(pool({{"pooling_mode_cls_token", false}, {"word_embedding_dimension", 24}}).pool, SentencePool::kMean);
  EXPECT_EQ(pool({{"pooling_mode", "max"}, {"embedding_dimension", 24}}).pool, SentencePool::kMax);
  EXPECT_EQ(pool({{"pooling_mode", {"lasttoken"}}}).pool, SentencePool::kLast);
  EXPECT_FALSE(pool({{"pooling_mode", "mean"}, {"include_prompt", false}}).pools_prompt);
  for (const io::Json& wrong : {io::Json{{"pooling_mode", {"mean", "max"}}}, io::Json{{"pooling_mode", "weightedmean"}},
                                io::Json{{"pooling_mode_cls_token", true}, {"pooling_mode_max_tokens", true}}}) {
    EXPECT_TRUE(Has(ErrorMessage([&] { pool(wrong); }), "qkv knows one of mean")) << wrong;
  }
}

TEST_F(Settings, PromptsLengthsAndCaseOfSentences) {
  const SentenceEmbedding prompted = Sentence([](const fs::path& folder) {
    WriteFile(folder / "config_sentence_transformers.json",
              R"({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query",
                  "similarity_fn_name": "cosine", "__version__": {"pytorch": "2"}})");
  });
  EXPECT_EQ(prompted.prompt, "query: ");
  EXPECT_EQ(Sentence([](const fs::path& folder) {
              WriteFile(folder / "config_sentence_transformers.json",
                        R"({"prompts": {"query": "query: "}, "default_prompt_name": null})");
            }).prompt,
            "");
  EXPECT_NE(ErrorMessage([&] {
              Sentence([](const fs::path& folder) {
                WriteFile(folder / "config_sentence_transformers.json",
                          R"({"prompts": {}, "default_prompt_name": "query"})");
              });
            }),
            "");
  // sentence-transformers 6.2 gives these pooling of its own.
  for (const char* type : {R"("SparseEncoder")", R"("CrossEncoder")", "null", R"("SentenceTransformer")"}) {
    const std::string message = ErrorMessage([&] {
      Sentence([&](const fs::path& folder) {
        WriteFile(folder / "config_sentence_transformers.json", fmt::format(R"({{"model_type": {}}})", type));
      });
    });
    const bool fits = std::string_view(type) == R"("SentenceTransformer")";
    EXPECT_EQ(message.empty(), fits) << message;
    EXPECT_TRUE(fits || Has(message, fmt::format(R"(config_sentence_transformers.json: "model_type" is {})", type)));
  }
  for (const char* name : {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_xlnet_config.json"}) {
    const SentenceEmbedding s = Sentence([&](const fs::path& folder) {
      fs::remove(folder / "sentence_bert_config.json");
      WriteFile(folder / name, R"({"max_seq_length": 8, "do_lower_case": true})");
    });
    EXPECT_EQ(s.length, 8) << name;
    EXPECT_TRUE(s.lower_case) << name;
  }
}

TEST_F(Settings, TheNewerFileOfAProcessorCounts) {
  const fs::path folder = Copy("hf_vit");
  Change(folder / "preprocessor_config.json", {{"image_mean", {0.1, 0.1, 0.1}}});
  WriteFile(
      folder / "processor_config.json",
      io::Json{{"image_processor", {{"image_processor_type", "ViTImageProcessor"}, {"image_mean", {0.2, 0.2, 0.2}}}}}
          .dump());
  EXPECT_EQ(Checkpoint::Open(folder).description.preprocess.mean, (std::vector<float>{0.2f, 0.2f, 0.2f}));
}

// The library writes both forms; the second counts where it is there.
TEST_F(Settings, ActivationsOfT5InEitherForm) {
  const auto mlp = [&](const io::Json& config) { return Text("tasks/t5", config).encoder->block.mlp; };
  using enum simd::Activation;
  EXPECT_EQ(mlp({{"feed_forward_proj", "gated-silu"}, {"dense_act_fn", nullptr}}).activation, kSilu);
  EXPECT_EQ(mlp({{"feed_forward_proj", "gated-silu"}}).activation, kGeluTanh);  // beside "gelu_new"
  EXPECT_EQ(mlp({{"feed_forward_proj", "gated-gelu"}, {"dense_act_fn", "relu"}}).activation, kRelu);
}

TEST_F(Settings, WhatSentenceTransformersPassesOnIsRefused) {
  const auto refusal = [&](const io::Json& json) {
    return ErrorMessage([&] {
      Sentence([&](const fs::path& folder) { WriteFile(folder / "sentence_bert_config.json", json.dump()); });
    });
  };
  EXPECT_TRUE(Has(refusal({{"config_kwargs", {{"num_hidden_layers", 1}}}}),
                  "sentence_bert_config.json: \"config_kwargs\" sets \"num_hidden_layers\" to 1"));
  EXPECT_TRUE(Has(refusal({{"model_args", {{"hidden_act", "relu"}}}}), "\"hidden_act\""));
  EXPECT_EQ(refusal({{"max_seq_length", 8}, {"model_args", {{"torch_dtype", "bfloat16"}}}, {"tokenizer_args", {}}}),
            "");
}

// As AutoImageProcessor finds it.
TEST_F(Settings, AProcessorWithoutATypeIsThatOfTheModel) {
  const fs::path folder = Copy("hf_dinov2");
  WriteFile(folder / "preprocessor_config.json", "{}");
  const image::Preprocess p = Checkpoint::Open(folder).description.preprocess;
  EXPECT_EQ(p.resize, image::Preprocess::Resize::kShortestEdge);
  EXPECT_EQ(p.filter, image::Filter::kBicubic);
  WriteFile(folder / "processor_config.json", R"({"image_processor": null})");
  EXPECT_EQ(Checkpoint::Open(folder).description.preprocess.resize, image::Preprocess::Resize::kShortestEdge);
}

TEST_F(Settings, AnOlderFormForcesTheFirstTokenWithoutAGenerationConfig) {
  const io::Json config = {{"force_bos_token_to_be_generated", true}, {"bos_token_id", 7}};
  EXPECT_EQ(Text("tasks/t5", config).generation.forced_first, std::nullopt);
  const fs::path folder = Copy("tasks/t5");
  fs::remove(folder / "generation_config.json");
  Change(folder / "config.json", config);
  EXPECT_EQ(TextCheckpoint::Open(folder).description.generation.forced_first, 7);
}

// How images become pixels: what a processor does at one value only, where the value stands.
TEST_F(Settings, ThoseOfImagesAreKnownToo) {
  const auto refusal = [&](const char* golden, const char* file, const io::Json& patch) {
    const fs::path folder = Copy(golden);
    io::Json json = io::ReadJson(folder / file);
    json.merge_patch(patch);
    WriteFile(folder / file, json.dump());
    return ErrorMessage([&] { Checkpoint::Open(folder); });
  };
  EXPECT_TRUE(Has(refusal("hf_vit", "preprocessor_config.json", {{"do_pad", true}}), "\"do_pad\" is true"));
  const io::Json padded = {{"pad_size", {{"height", 99}, {"width", 99}}}};
  EXPECT_EQ(refusal("hf_deit", "preprocessor_config.json", padded), "");
  EXPECT_TRUE(Has(refusal("hf_yolos", "preprocessor_config.json", padded), R"("pad_size" is {"height":99)"));
  EXPECT_TRUE(Has(refusal("hf_clip", "preprocessor_config.json", {{"use_square_size", true}}), "use_square_size"));
  EXPECT_EQ(refusal("hf_clip", "preprocessor_config.json", {{"use_square_size", false}}), "");
  EXPECT_TRUE(Has(refusal("hf_vit", "preprocessor_config.json", {{"do_split_image", true}}),
                  "preprocessor_config.json: \"do_split_image\" is true, which qkv does not do"));
  EXPECT_EQ(refusal("hf_vit", "preprocessor_config.json", {{"do_split_image", false}, {"crop_size", 7}}), "");
  EXPECT_TRUE(Has(refusal("timm_vit", "config.json", {{"model_args", {{"dynamic_img_pad", true}}}}),
                  "config.json: \"model_args.dynamic_img_pad\" is true"));
  EXPECT_TRUE(Has(refusal("open_clip_clip", "open_clip_config.json",
                          {{"model_cfg", {{"vision_cfg", {{"attentional_pool", true}}}}}}),
                  "open_clip_config.json: \"model_cfg.vision_cfg.attentional_pool\" is true"));
  const fs::path folder = Copy("hf_vit");
  WriteFile(folder / "processor_config.json",
            R"({"image_processor": {"image_processor_type": "ViTImageProcessor", "do_split_image": true}})");
  EXPECT_TRUE(Has(ErrorMessage([&] { Checkpoint::Open(folder); }),
                  "processor_config.json: image_processor: \"do_split_image\""));
}

TEST_F(Settings, WhatEachDidIsKept) {
  using Use = io::Setting::Use;
  const auto use = [&](const char* golden, const char* file, const char* key) {
    for (const io::Setting& setting : Checkpoint::Open(GoldenFolder(golden)).description.settings) {
      if (setting.file == file && setting.key == key) return setting.use;
    }
    return Use::kUnknown;
  };
  EXPECT_EQ(use("hf_vit", "config.json", "hidden_size"), Use::kUsed);
  EXPECT_EQ(use("hf_vit", "config.json", "initializer_range"), Use::kNoEffect);
  EXPECT_EQ(use("hf_vit", "preprocessor_config.json", "size.height"), Use::kUsed);
  EXPECT_EQ(use("hf_beit", "preprocessor_config.json", "do_reduce_labels"), Use::kNoEffect);
  EXPECT_EQ(use("hf_eomt", "preprocessor_config.json", "do_pad"), Use::kUsed);
  EXPECT_EQ(use("timm_vit", "config.json", "model_args.depth"), Use::kUsed);
  EXPECT_EQ(use("timm_vit", "config.json: pretrained_cfg", "crop_pct"), Use::kUsed);
  EXPECT_EQ(use("timm_vit", "config.json: pretrained_cfg", "license"), Use::kNoEffect);
  EXPECT_EQ(use("open_clip_clip", "open_clip_config.json", "model_cfg.vision_cfg.layers"), Use::kUsed);
}

TEST_F(Settings, LabelsThatDoNotExcludeEachOtherHaveScoresOfTheirOwn) {
  const std::vector<float> logits = {1.5f, -0.5f, 0.25f};
  const auto scores = [&](const io::Json& problem) {
    const fs::path folder = Copy("hf_vit");
    Change(folder / "config.json", {{"problem_type", problem}});
    const Model model(Checkpoint::Open(folder));
    std::vector<float> values(logits);
    model.Score(values);
    return values;
  };
  const auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  const std::vector<float> own = scores("multi_label_classification"), shares = scores("single_label_classification");
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_FLOAT_EQ(own[i], sigmoid(logits[i]));
  EXPECT_NEAR(shares[0] + shares[1] + shares[2], 1, 1e-6);
  EXPECT_EQ(scores("regression"), logits);
}

TEST_F(Settings, NamesOfClassesMayBeNumbers) {
  const fs::path folder = Copy("hf_vit");
  io::Json config = io::ReadJson(folder / "config.json");
  io::Json& names = config["id2label"];
  for (auto& [key, name] : names.items()) name = std::stoi(key) * 10;
  WriteFile(folder / "config.json", config.dump());
  const std::vector<std::string> labels = Checkpoint::Open(folder).description.labels;
  ASSERT_GT(labels.size(), 1u);
  EXPECT_EQ(labels[1], "10");
  names["1"] = io::Json::array();
  WriteFile(folder / "config.json", config.dump());
  EXPECT_TRUE(Has(ErrorMessage([&] { Checkpoint::Open(folder); }), "the name of 1 is array, expected a text"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Weights that are not those of a model alone

class Stored : public Settings {
 protected:
  // A golden's tensors, written again under other names, with others beside them.
  void Write(const fs::path& folder, const std::function<std::string(const std::string&)>& name,
             const std::vector<std::string>& beside) {
    const auto read = io::SafeTensors::Open(folder / "model.safetensors");
    std::vector<io::StoredTensor> tensors = read.tensors();
    for (io::StoredTensor& tensor : tensors) tensor.name = name(tensor.name);
    static const float kOne = 1;
    for (const std::string& more : beside) {
      tensors.push_back(
          {.name = more, .dtype = DType::kF32, .shape = {1}, .bytes = std::as_bytes(std::span<const float>(&kOne, 1))});
    }
    io::WriteSafeTensors(folder / "new", tensors, {});
    fs::rename(folder / "new", folder / "model.safetensors");
  }
};

TEST_F(Stored, CountersBesideAWrappedModelAreNamedAndLeftOut) {
  for (const std::string prefix : {"module.", "model.", "net."}) {
    const fs::path folder = Copy("hf_vit");
    Write(folder, [&](const std::string& name) { return prefix + name; }, {"n_averaged", "val_acc.correct"});
    std::string told;
    for (const std::string& line : Checkpoint::Open(folder).description.assumptions) told += line + "\n";
    EXPECT_TRUE(Has(told, "which are not read: n_averaged, val_acc.correct")) << told;
  }
  const fs::path two = Copy("hf_vit");
  Write(two, [](const std::string& name) { return "module." + name; }, {"x.patch_embed.proj.weight"});
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(two); }), "");
}

// Texts' as images'; a prefix that wrappers and the model itself have goes once.
TEST_F(Stored, WrappersAroundTextModelsAreStripped) {
  for (const char* golden :
       {"bert_masked", "gpt2", "llama", "llama_tied", "qwen2", "t5", "t5_encoder", "marian_safetensors"}) {
    for (const std::string prefix :
         {"module.", "_orig_mod.", "model.", "net.", "backbone.", "ema.module.", "model._orig_mod."}) {
      SCOPED_TRACE(std::string(golden) + " " + prefix);
      const fs::path folder = Copy(std::string("text/") + golden);
      const TextCheckpoint plain = TextCheckpoint::Open(folder);
      Write(folder, [&](const std::string& name) { return prefix + name; }, {"n_averaged", "val_acc.correct"});
      const TextCheckpoint wrapped = TextCheckpoint::Open(folder);
      std::string told;
      for (const std::string& line : wrapped.description.assumptions) told += line + "\n";
      EXPECT_TRUE(Has(told, "which are not read: n_averaged, val_acc.correct")) << told;
      EXPECT_EQ(plain.description.decoder, wrapped.description.decoder);
      EXPECT_EQ(wrapped.tensors->Find("n_averaged"), nullptr);
      EXPECT_EQ(plain.tensors->tensors().back().name, wrapped.tensors->tensors().back().name);
    }
  }
  const fs::path other = Copy("text/llama");
  Write(other, [](const std::string& name) { return name; }, {"score.weight"});
  EXPECT_TRUE(Has(ErrorMessage([&] { TextCheckpoint::Open(other); }), "score.weight"));
}

TEST_F(Stored, AdaptersAreCalledSo) {
  const fs::path folder = Copy("tasks/llama");
  Write(folder, [](const std::string& name) { return name; }, {"model.layers.0.self_attn.q_proj.lora_A.weight"});
  EXPECT_TRUE(Has(ErrorMessage([&] { TextCheckpoint::Open(folder); }), "merge it into its base model"));
  fs::remove(folder / "model.safetensors");
  WriteFile(folder / "adapter_config.json", "{}");
  EXPECT_TRUE(Has(ErrorMessage([&] { TextCheckpoint::Open(folder); }), "an adapter alone"));
}

}  // namespace
}  // namespace qkv::model
