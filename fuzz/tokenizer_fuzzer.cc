// Files of tokenizers: any bytes are one, which then encodes and decodes any text, or an Error. Lines of text train
// one. The first byte says which file the rest is; what follows the last zero byte is the text.
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/lines.h"
#include "qkv/core/work.h"
#include "qkv/text/bpe_trainer.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/unicode.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

// Steps of encoding and decoding so many copies of the text; -1: an Error.
int64_t StepsOf(const qkv::text::Tokenizer& tokenizer, std::string_view text, int copies) {
  std::string all;
  for (int i = 0; i < copies; ++i) all += text;
  const int64_t before = qkv::StepsDone();
  try {
    tokenizer.Decode(tokenizer.Encode(all), true);
  } catch (const qkv::Error&) {
    return -1;
  }
  return qkv::StepsDone() - before;
}

// Work grows as the text does, or ends at its budget.
void CheckGrowth(const qkv::text::Tokenizer& tokenizer, std::string_view text) {
  constexpr int64_t kOnce = 1'000'000;
  const int64_t steps = StepsOf(tokenizer, text, 1), more = StepsOf(tokenizer, text, 4);
  Check(steps < 0 || more < 0 || more <= 16 * steps + kOnce);
}

void Use(const qkv::text::Tokenizer& tokenizer, std::string_view text) {
  for (const std::string_view some : {text, std::string_view("a cat  \xe7\x8c\xab</s>1.\n")}) {
    const std::vector<int32_t> ids = tokenizer.Encode(some);
    for (const int32_t id : ids) Check(id >= 0);
    Check(ids == tokenizer.Encode(some));
    tokenizer.Decode(ids, true);
    qkv::text::StreamingDecoder decoder(tokenizer);
    for (const int32_t id : ids) decoder.Add(id);
    decoder.Finish();
  }
  CheckGrowth(tokenizer, text);
}

// A vocabulary learned from the lines opens, and gives back every text.
void Train(std::string_view lines, std::string_view text) {
  qkv::text::BpeTrainer trainer({.vocabulary_size = 320, .special_tokens = {"<pad>"}});
  for (const std::string_view line : qkv::SplitLines(lines)) trainer.Add(line);
  const auto tokenizer =
      qkv::text::Tokenizer::FromJson(TokenizerJson(trainer.Train(), {.padding = "<pad>"}), "trained");
  Use(tokenizer, text);
  const std::string valid = qkv::text::ReplaceInvalidUtf8(text);
  Check(tokenizer.Decode(tokenizer.Encode(valid), true) == valid);
}

// A folder for the files of one input, removed at the end.
class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "qkv_fuzz_XXXXXX").native();
    Check(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  void Write(const char* name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Two files of before tokenizer.json: the first line and the rest.
void UseOlderFiles(int kind, std::string_view file, std::string_view text) {
  const size_t line = std::min(file.find('\n'), file.size());
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"vocab.json", "merges.txt"}, {"tokenizer_config.json", "vocab.txt"}, {"vocab.json", "source.spm"}};
  const auto& [first, second] = kNames[kind];
  const Folder folder;
  folder.Write(first, file.substr(0, line));
  folder.Write(second, file.substr(std::min(file.size(), line + 1)));
  Use(qkv::text::Tokenizer::Open(folder.path()), text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t end = bytes.rfind('\0');
  const std::string_view text = end == std::string_view::npos ? std::string_view("a") : bytes.substr(end + 1);
  const std::string_view file = bytes.substr(0, std::min(end, bytes.size()));
  try {
    switch (data[0] % 6) {
      case 0:
        Use(qkv::text::Tokenizer::FromJson(file, "fuzz"), text);
        break;
      case 1:
        Use(qkv::text::Tokenizer::FromSentencePiece(file, "fuzz"), text);
        break;
      case 5:
        Train(file, text);
        break;
      default:
        UseOlderFiles(data[0] % 6 - 2, file, text);
    }
  } catch (const qkv::Error&) {
  }
  return 0;
}
