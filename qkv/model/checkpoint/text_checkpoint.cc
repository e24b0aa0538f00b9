#include "qkv/model/checkpoint/text_checkpoint.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "qkv/core/error.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/open_once.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"
#include "qkv/model/layout/binder.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKnownPools = "mean, cls, max, lasttoken, mean_sqrt_len_tokens";

// Keys in the files of sentence-transformers that do not affect a vector.
constexpr io::KnownKey kPoolKeys[] = {{"word_embedding_dimension"}, {"embedding_dimension"}};
constexpr io::KnownKey kModuleKeys[] = {{"idx"}, {"name"}, {"kwargs", "{}|[]"}};
constexpr io::KnownKey kPromptKeys[] = {{"__version__"}, {"similarity_fn_name"}, {"prompts"}};
constexpr io::KnownKey kLengthKeys[] = {{"transformer_task", "\"feature-extraction\""},
                                        {"modality_config"},
                                        {"module_output_name", "\"token_embeddings\""},
                                        {"method_output_name"},
                                        {"query_length"},
                                        {"document_length"}};

// Keys that these files pass to the libraries that open a model, overriding its own files.
constexpr std::string_view kPassedOn[] = {"config_args",    "config_kwargs",    "model_args",      "model_kwargs",
                                          "tokenizer_args", "tokenizer_kwargs", "processor_kwargs"};
// Where files come from, and how the library computes; the precision of qkv is the caller's.
constexpr std::string_view kHarmless[] = {
    "trust_remote_code",   "revision",   "cache_dir", "local_files_only",  "token",          "torch_dtype", "dtype",
    "attn_implementation", "device_map", "use_cache", "low_cpu_mem_usage", "use_safetensors"};

// A flag for each mode, as releases before 5.4 wrote it.
SentencePool ReadPoolFlags(const io::Fields& fields) {
  std::optional<SentencePool> pool;
  constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
      {"pooling_mode_cls_token", "cls"},
      {"pooling_mode_max_tokens", "max"},
      {"pooling_mode_mean_tokens", "mean"},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
      {"pooling_mode_weightedmean_tokens", "weightedmean"},
      {"pooling_mode_lasttoken", "lasttoken"}};
  for (const auto& [flag, name] : kFlags) {
    if (!fields.Bool(flag, false)) continue;
    const std::optional<SentencePool> found = FindSentencePool(name);
    Require(found && !pool, "{}: \"{}\" is true, and qkv knows one of {}", fields.where(), flag, kKnownPools);
    pool = found;
  }
  return pool.value_or(SentencePool::kMean);
}

// The pooling of a module's own config.json: a word, a list of one, or flags.
void ReadPool(const io::Fields& fields, SentenceEmbedding* sentence) {
  const io::Json& modes = fields.Value("pooling_mode");
  const SentencePool flags = ReadPoolFlags(fields);
  sentence->pools_prompt = fields.Bool("include_prompt", true);
  if (modes.is_null()) {
    sentence->pool = flags;
    return;
  }
  const io::Json& mode = modes.is_array() && modes.size() == 1 ? modes[0] : modes;
  const std::optional<SentencePool> found = mode.is_string() ? FindSentencePool(mode.get<std::string>()) : std::nullopt;
  Require(found.has_value(), "{}: \"pooling_mode\" is {}, and qkv knows one of {}", fields.where(),
          io::Quoted(modes.dump()), kKnownPools);
  sentence->pool = *found;
}

// Applies the modules of sentence-transformers to the encoder's description.
void ReadModules(const fs::path& folder, const io::Json& modules, TextDescription* d) {
  const std::string where = (folder / kModulesFile).string();
  Require(modules.is_array(), "{}: expected a list of modules", where);
  for (const io::Json& module : modules) {
    const io::Fields fields(module, where);
    const std::string type = fields.String("type", ""), path = fields.String("path", "");
    const std::string_view name = std::string_view(type).substr(type.rfind('.') + 1);
    Require(path.find("..") == std::string::npos && !path.starts_with('/'),
            "{}: a module lies at {}, outside the model", where, io::Quoted(path));
    if (name == "Transformer") {
      Require(path.empty() || path == ".", "{}: the model lies in its folder {}; give that folder with -m", where,
              path);
    } else if (name == "Pooling") {
      const fs::path file = folder / path / kConfigFile;
      const std::optional<io::Json> config = ReadOptionalJson(file);
      Require(config.has_value(), "{}: there is no {}", where, file.string());
      const io::Fields pooling(*config, file.string());
      ReadPool(pooling, &d->sentence);
      io::Append(pooling.Settle({kPoolKeys}), &d->settings);
    } else if (name == "Normalize") {
      d->sentence.normalise = true;
    } else {
      Require(name == "Dropout", "{}: a module {}, and qkv knows Transformer, Pooling and Normalize", where,
              io::Quoted(type));
    }
    io::Append(fields.Settle({kModuleKeys}), &d->settings);
  }
}

// The prompt before each text, unless the caller names another.
void ReadPrompt(const io::Fields& fields, TextDescription* d) {
  // The library gives a model of another class pooling of its own, without prompts.
  const io::Json& type = fields.Value("model_type");
  Require(!fields.json().contains("model_type") || type == "SentenceTransformer",
          "{}: \"model_type\" is {}, expected \"SentenceTransformer\"; convert it with sentence-transformers",
          fields.where(), type.dump().substr(0, 60));
  const std::string name = fields.String("default_prompt_name", "");
  if (!name.empty()) {
    const io::Fields prompts = fields.Object("prompts");
    Require(prompts.json().contains(name), "{}: \"default_prompt_name\" is {}, and \"prompts\" has none of that name",
            fields.where(), io::Quoted(name));
    d->sentence.prompt = prompts.String(name, "");
  }
  if (const int64_t width = fields.Int("truncate_dim", 0); width > 0) {
    Require(width >= d->encoder->block.width, "{}: \"truncate_dim\" is {}: vectors of fewer numbers are not supported",
            fields.where(), width);
  }
  // All prompts can be requested by name.
  std::vector<io::Setting> settings = fields.Settle({kPromptKeys});
  std::erase_if(settings, [](const io::Setting& setting) {
    return setting.use == io::Setting::Use::kUnknown && setting.key.starts_with("prompts.");
  });
  io::Append(std::move(settings), &d->settings);
}

// Files that sentence-transformers reads beside modules.json.
void ReadSentenceFiles(const fs::path& folder, TextDescription* d) {
  if (const std::optional<io::Json> prompts = ReadOptionalJson(folder / kPromptsFile)) {
    ReadPrompt(io::Fields(*prompts, kPromptsFile), d);
  }
  for (const char* name : kSentenceFiles) {
    const std::optional<io::Json> config = ReadOptionalJson(folder / name);
    if (!config || config->empty()) continue;
    const io::Fields fields(*config, name);
    d->sentence.length = fields.Int("max_seq_length", 0);
    Require(d->sentence.length >= 0, "{}: \"max_seq_length\" is negative", name);
    d->sentence.lower_case = fields.Bool("do_lower_case", false);
    for (const std::string_view group : kPassedOn) {
      for (const auto& [key, value] : fields.Object(group).json().items()) {
        Require(std::ranges::find(kHarmless, key) != std::end(kHarmless),
                "{}: \"{}\" sets {} to {}, which qkv does not do; put it into the model's own file", name, group,
                io::Quoted(key), value.dump().substr(0, 60));
      }
    }
    io::Append(fields.Settle({kLengthKeys}), &d->settings);
    return;
  }
}

// config.json and generation_config.json.
void ReadConfigs(const fs::path& folder, const io::Fields& config, const TextFamilyRow& family,
                 const io::TensorSet& tensors, TextDescription* d) {
  // Null is a default of T5's class alone.
  const bool is_null = config.json().contains("tie_word_embeddings") && config.json()["tie_word_embeddings"].is_null();
  Require(!is_null || &family == &kHfT5, "{}: \"tie_word_embeddings\" is null, expected true or false", config.where());
  *d = family.describe(config, tensors);
  const std::optional<io::Json> json = ReadOptionalJson(folder / kGenerationFile);
  std::optional<io::Fields> generation;
  if (json) generation.emplace(*json, kGenerationFile);
  if (d->decoder) d->generation = ReadGenerationDefaults(config, generation ? &*generation : nullptr);
  const bool superseded = generation || !d->decoder;
  d->settings = config.Settle({family.known, GenerationKeys(superseded), kHfKnownKeys});
  if (generation && d->decoder) {
    io::Append(generation->Settle({GenerationKeys(/*superseded=*/false), kHfKnownKeys}), &d->settings);
  }
}

void BindParts(const TextFamilyRow& family, TextCheckpoint* checkpoint) {
  const TextDescription& d = checkpoint->description;
  const std::string prefix = PrefixBefore(*checkpoint->tensors, family.anchors);
  std::vector<BoundPart> parts;
  if (d.encoder) parts.push_back({*d.encoder, TensorTable(*d.encoder), family.encoder(*d.encoder), prefix});
  if (d.decoder) parts.push_back({*d.decoder, TensorTable(*d.decoder), family.decoder(*d.decoder), prefix});
  auto bound = model::BindParts(std::move(parts), *checkpoint->tensors, d.architecture);
  if (d.encoder) checkpoint->encoder = std::move(bound.front());
  if (d.decoder) checkpoint->decoder = std::move(bound.back());
}

}  // namespace

TextCheckpoint OpenTextsOnce(const fs::path& path, std::optional<io::Json> json) {
  TextCheckpoint checkpoint;
  checkpoint.source = path.string();
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  Require(json.has_value(), "cannot open model {}: there is no {}", path.string(), kConfigFile);
  const io::Fields config(*json, (folder / kConfigFile).string());
  const TextFamilyRow* const family = FindTextFamily(config);
  Require(family != nullptr, "{}: \"model_type\" is {}; supported text models: {}", config.where(),
          io::Quoted(config.String("model_type", "")), TextModelTypes());
  io::TensorSet tensors = io::OpenWeights(path);
  tensors.StripPrefixes(kWrapperPrefixes, family->anchors, family->base);
  checkpoint.tensors = std::make_shared<const io::TensorSet>(std::move(tensors));
  try {
    TextDescription& d = checkpoint.description;
    RequirePlainWeights(*checkpoint.tensors);
    ReadConfigs(folder, config, *family, *checkpoint.tensors, &d);
    if (const std::optional<io::Json> modules = ReadOptionalJson(folder / kModulesFile); modules && d.encoder) {
      ReadModules(folder, *modules, &d);
      ReadSentenceFiles(folder, &d);
    } else if (d.encoder && !d.decoder) {
      d.assumptions.push_back("a text's vector is the mean of its tokens, as no modules.json says otherwise");
    }
    if (std::string unknown = io::DescribeUnknown(d.settings); !unknown.empty()) {
      d.assumptions.push_back(std::move(unknown));
    }
    for (const std::string& remark : checkpoint.tensors->remarks()) d.assumptions.push_back(remark);
    Validate(d);
    checkpoint.configuration = json->dump();
    BindParts(*family, &checkpoint);
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find(folder.string()) != std::string::npos && !folder.empty()) throw;
    Fail("{}: {}", path.string(), EscapedText{message});
  }
  return checkpoint;
}

TextCheckpoint TextCheckpoint::Open(const fs::path& path) {
  RequireModelExists(path);
  return OpenWhole(path, [&] { return OpenTextsOnce(path, ReadOptionalJson(ConfigFile(path))); });
}

std::vector<std::string> ModuleFiles(const fs::path& folder) {
  std::vector<std::string> files;
  const std::optional<io::Json> modules = ReadOptionalJson(folder / kModulesFile);
  if (!modules) return files;
  // ReadModules has refused malformed lists of modules, and paths outside.
  for (const io::Json& module : *modules) {
    const std::string path = io::Fields(module, kModulesFile).String("path", "");
    const std::string file = (fs::path(path) / kConfigFile).string();
    if (!path.empty() && path != "." && fs::exists(folder / file)) files.push_back(file);
  }
  return files;
}

}  // namespace qkv::model
