// Files of tokenizers: any bytes are one, which then encodes and decodes any text, or an Error. The first byte says
// which file the rest is; what follows the last zero byte is the text.
#include <cstdlib>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/io/json.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/tokenizer_parts.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

void Use(const qkv::text::Tokenizer& tokenizer, std::string_view text) {
  for (const std::string_view some : {text, std::string_view("a cat  \xe7\x8c\xab</s>1.\n")}) {
    const std::vector<int32_t> ids = tokenizer.Encode(some);
    for (const int32_t id : ids) Check(id >= 0);
    Check(ids == tokenizer.Encode(some));
    tokenizer.Decode(ids, true);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t end = bytes.rfind('\0');
  const std::string_view text = end == std::string_view::npos ? std::string_view("a") : bytes.substr(end + 1);
  const std::string_view file = bytes.substr(0, std::min(end, bytes.size()));
  try {
    switch (data[0] % 3) {
      case 0:
        Use(qkv::text::Tokenizer::FromJson(file, "fuzz"), text);
        break;
      case 1:
        Use(qkv::text::Tokenizer::FromSentencePiece(file, "fuzz"), text);
        break;
      default: {
        // vocab.json, a line feed, merges.txt.
        const size_t line = std::min(file.find('\n'), file.size());
        const auto vocab = qkv::io::ParseJson(file.substr(0, line), "fuzz");
        qkv::text::ReadVocabAndMerges(vocab, file.substr(line), {}, "fuzz");
      }
    }
  } catch (const qkv::Error&) {
  }
  return 0;
}
