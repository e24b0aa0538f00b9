// Finds the files of a tokenizer.
#include <string>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTokenizerBytes = size_t{64} << 20;

// tokenizer_config.json with special_tokens_map.json and added_tokens.json, which count less if it lists the added
// tokens itself.
io::Json ReadConfigs(const fs::path& folder) {
  const auto read = [&](std::string_view name) {
    const fs::path path = folder / name;
    if (!FileExists(path)) return io::Json::object();
    io::Json json = io::ReadJson(path);
    Require(json.is_object(), "{}: expected an object, got {}", path.native(), json.type_name());
    return json;
  };
  io::Json config = io::Json::object();
  io::Json settings = read("tokenizer_config.json"), special = read("special_tokens_map.json");
  const bool complete = settings.contains("added_tokens_decoder");
  for (io::Json* json : {complete ? &special : &settings, complete ? &settings : &special}) {
    for (auto& [key, value] : json->items()) {
      if (!value.is_null()) config[key] = std::move(value);
    }
  }
  if (!complete) config[std::string(kAddedTokensFile)] = read(kAddedTokensFile);
  return config;
}

// Of Marian's two sides, that of the source encodes; which decodes follows transformers.
TokenizerParts OpenMarian(const fs::path& folder, bool target) {
  const io::Json config = ReadConfigs(folder);
  const auto separate = config.find("separate_vocabs");
  const bool is_separate = separate != config.end() && separate->is_boolean() && separate->get<bool>();
  const std::string source = ReadFile(folder / "source.spm", kMaxTokenizerBytes);
  const std::string other =
      FileExists(folder / "target.spm") ? ReadFile(folder / "target.spm", kMaxTokenizerBytes) : source;
  const io::Json vocabulary = io::ReadJson(folder / (target && is_separate ? "target_vocab.json" : "vocab.json"));
  TokenizerParts parts = ReadMarian({.encoding = target ? other : source,
                                     .decoding = target && is_separate ? other : source,
                                     .vocabulary = &vocabulary},
                                    config, (folder / (target ? "target.spm" : "source.spm")).native());
  parts.description += fmt::format(" ({}.spm, vocab.json)", target ? "target" : "source");
  return parts;
}

}  // namespace

Tokenizer Tokenizer::Open(const fs::path& path) { return OpenSide(path, /*target=*/false); }

Tokenizer Tokenizer::OpenTarget(const fs::path& path) { return OpenSide(path, /*target=*/true); }

Tokenizer Tokenizer::OpenSide(const fs::path& path, bool target) {
  const bool is_folder = fs::is_directory(path);
  const fs::path folder = is_folder ? path : path.parent_path();
  const auto file = [&](const char* name) -> std::optional<fs::path> {
    if (is_folder ? FileExists(folder / name) : path.filename() == name) return folder / name;
    return std::nullopt;
  };
  if (const auto json = file("tokenizer.json")) {
    TokenizerParts parts = ReadTokenizerJson(io::ReadJson(*json), json->native());
    ApplyTokenizerConfig(ReadConfigs(folder), &parts);
    parts.description += " (tokenizer.json)";
    return Tokenizer(std::move(parts));
  }
  if (is_folder && FileExists(folder / "source.spm")) return Tokenizer(OpenMarian(folder, target));
  if (file("vocab.json") || file("merges.txt")) {
    const fs::path vocab = folder / "vocab.json", merges = folder / "merges.txt";
    TokenizerParts parts = ReadVocabAndMerges(io::ReadJson(vocab), ReadFile(merges, kMaxTokenizerBytes),
                                              ReadConfigs(folder), folder.native());
    parts.description += " (vocab.json, merges.txt)";
    return Tokenizer(std::move(parts));
  }
  if (const auto vocab = file("vocab.txt")) {
    TokenizerParts parts = ReadVocabTxt(ReadFile(*vocab, kMaxTokenizerBytes), ReadConfigs(folder), vocab->native());
    parts.description += " (vocab.txt)";
    return Tokenizer(std::move(parts));
  }
  const bool is_model = !is_folder && (path.extension() == ".model" || path.extension() == ".spm");
  for (const char* name : {"spiece.model", "tokenizer.model", "sentencepiece.bpe.model"}) {
    if (!is_model && !file(name)) continue;
    const fs::path found = is_model ? path : folder / name;
    // A file alone is what it is; the configuration beside it counts for a folder.
    TokenizerParts parts = ReadSentencePiece(ReadFile(found, kMaxTokenizerBytes),
                                             is_folder ? ReadConfigs(folder) : io::Json(), found.native());
    parts.description += fmt::format(" ({})", found.filename().native());
    return Tokenizer(std::move(parts));
  }
  Require(is_folder || FileExists(path), "{}: no such file or folder", path.native());
  Fail(
      "{}: expected a tokenizer: tokenizer.json, vocab.json with merges.txt, vocab.txt, source.spm with vocab.json, or "
      "spiece.model or tokenizer.model",
      path.native());
}

}  // namespace qkv::text
