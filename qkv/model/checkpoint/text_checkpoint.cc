#include "qkv/model/checkpoint/text_checkpoint.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWrappers[] = {"module.", "_orig_mod."};

// The pooling of a module's own config.json: the one mode that is true.
SentencePool ReadPool(const io::Json& json, const std::string& where) {
  const Fields fields(json, where);
  std::optional<SentencePool> pool;
  for (const auto& [key, value] : json.items()) {
    constexpr std::string_view kBegin = "pooling_mode_";
    if (!std::string_view(key).starts_with(kBegin) || value != true) continue;
    std::string_view name = std::string_view(key).substr(kBegin.size());
    if (name.ends_with("_tokens") && name != "mean_sqrt_len_tokens") name.remove_suffix(7);
    if (name == "cls_token") name = "cls";
    if (name == "max_token") name = "max";
    const std::optional<SentencePool> found = FindSentencePool(name);
    Require(found && !pool, "{}: \"{}\" is true, and qkv knows one of mean, cls, max, lasttoken, mean_sqrt_len_tokens",
            where, key);
    pool = found;
  }
  Require(pool.has_value(), "{}: no pooling mode is true", where);
  return *pool;
}

// What the modules of sentence-transformers do with the encoder's tokens.
SentenceEmbedding ReadModules(const fs::path& folder, const io::Json& modules, std::vector<std::string>* assumptions) {
  const std::string where = (folder / kModulesFile).string();
  Require(modules.is_array(), "{}: expected a list of modules", where);
  SentenceEmbedding sentence;
  for (const io::Json& module : modules) {
    const Fields fields(module, where);
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
      sentence.pool = ReadPool(*config, file.string());
    } else if (name == "Normalize") {
      sentence.normalise = true;
    } else {
      Require(name == "Dropout", "{}: a module {}, and qkv knows Transformer, Pooling and Normalize", where,
              io::Quoted(type));
    }
  }
  if (const std::optional<io::Json> config = ReadOptionalJson(folder / kSentenceFile)) {
    sentence.length = Fields(*config, kSentenceFile).Int("max_seq_length", 0);
    Require(sentence.length >= 0, "{}: \"max_seq_length\" is negative", kSentenceFile);
    if (Fields(*config, kSentenceFile).Bool("do_lower_case", false)) {
      assumptions->push_back("\"do_lower_case\" of sentence-transformers is left to the tokenizer");
    }
  }
  return sentence;
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

TextCheckpoint OpenOnce(const fs::path& path) {
  TextCheckpoint checkpoint;
  checkpoint.source = path.string();
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  const std::optional<io::Json> json = ReadOptionalJson(folder / kConfigFile);
  Require(json.has_value(), "cannot open model {}: there is no {}", path.string(), kConfigFile);
  const Fields config(*json, (folder / kConfigFile).string());
  const TextFamilyRow* const family = FindTextFamily(config);
  Require(family != nullptr, "{}: \"model_type\" is {}, and qkv knows these of texts: {}", config.where(),
          io::Quoted(config.String("model_type", "")), TextModelTypes());
  io::TensorSet tensors = io::OpenWeights(path);
  tensors.StripPrefixes(kWrappers);
  checkpoint.tensors = std::make_shared<const io::TensorSet>(std::move(tensors));
  try {
    TextDescription& d = checkpoint.description;
    d = family->describe(config, *checkpoint.tensors);
    const std::optional<io::Json> generation = ReadOptionalJson(folder / kGenerationFile);
    d.generation = ReadGenerationDefaults(*json, generation.value_or(nullptr));
    if (const std::optional<io::Json> modules = ReadOptionalJson(folder / kModulesFile); modules && d.encoder) {
      d.sentence = ReadModules(folder, *modules, &d.assumptions);
    } else if (d.encoder && !d.decoder) {
      d.assumptions.push_back("a text's vector is the mean of its tokens, as no modules.json says otherwise");
    }
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

}  // namespace

TextCheckpoint TextCheckpoint::Open(const fs::path& path) {
  std::error_code ignored;
  Require(fs::exists(path, ignored), "cannot open model {}: no such file or folder", path.string());
  return OpenWhole(path, [&] { return OpenOnce(path); });
}

std::vector<std::string> ModuleFiles(const fs::path& folder) {
  std::vector<std::string> files;
  const std::optional<io::Json> modules = ReadOptionalJson(folder / kModulesFile);
  if (!modules) return files;
  // ReadModules has refused what is no list of modules, or lies outside.
  for (const io::Json& module : *modules) {
    const std::string path = Fields(module, kModulesFile).String("path", "");
    const std::string file = (fs::path(path) / kConfigFile).string();
    if (!path.empty() && path != "." && fs::exists(folder / file)) files.push_back(file);
  }
  return files;
}

bool IsTextModel(const fs::path& path) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  const std::optional<io::Json> json = ReadOptionalJson(folder / kConfigFile);
  return json && json->is_object() && FindTextFamily(Fields(*json, kConfigFile)) != nullptr;
}

}  // namespace qkv::model
