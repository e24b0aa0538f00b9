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

// tokenizer_config.json, and of special_tokens_map.json what that one does not say.
io::Json ReadConfigs(const fs::path& folder) {
  io::Json config = io::Json::object();
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path path = folder / name;
    if (!FileExists(path)) continue;
    io::Json json = io::ReadJson(path);
    Require(json.is_object(), "{}: expected an object, got {}", path.native(), json.type_name());
    for (auto& [key, value] : json.items()) {
      if (!value.is_null()) config[key] = std::move(value);
    }
  }
  return config;
}

}  // namespace

Tokenizer Tokenizer::Open(const fs::path& path) {
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
  if (file("vocab.json") || file("merges.txt")) {
    const fs::path vocab = folder / "vocab.json", merges = folder / "merges.txt";
    TokenizerParts parts = ReadVocabAndMerges(io::ReadJson(vocab), ReadFile(merges, kMaxTokenizerBytes),
                                              ReadConfigs(folder), folder.native());
    parts.description += " (vocab.json, merges.txt)";
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
  Fail("{}: expected a tokenizer: tokenizer.json, vocab.json with merges.txt, or spiece.model or tokenizer.model",
       path.native());
}

}  // namespace qkv::text
