// Reads vocab.txt, the file of BERT's tokenizers before tokenizer.json.
#include <limits>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

// Without white space at its end.
std::string_view TrimEnd(std::string_view line) {
  while (!line.empty()) {
    const size_t begin = CharacterBefore(line, line.size());
    if (!IsSpace(CharacterAt(line, begin).code)) break;
    line = line.substr(0, begin);
  }
  return line;
}

}  // namespace

io::Json VocabularyOfLines(std::string_view text, std::string_view where) {
  io::Json vocab = io::Json::object();
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    Require(number < std::numeric_limits<int32_t>::max(), "{}: too many lines", where);
    Require(IsValidUtf8(line), "{}: expected a vocabulary in UTF-8, got line {}: {}", where, number + 1,
            Printable(line, 60));
    vocab[std::string(TrimEnd(line))] = number++;  // of equal lines the last wins
  }
  Require(number > 0, "{}: expected a token a line, got none", where);
  return {{"model", {{"type", "WordPiece"}, {"vocab", std::move(vocab)}}}};
}

}  // namespace qkv::text
