#include "qkv/text/byte_level.h"

#include <array>

#include "qkv/core/text.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

constexpr int kByteCharacters = 0x100 + 68;

struct ByteAlphabet {
  ByteAlphabet() {
    bytes.fill(-1);
    char32_t other = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t code = printable ? static_cast<char32_t>(byte) : other++;
      AppendUtf8(code, &texts[static_cast<size_t>(byte)]);
      bytes[code] = byte;
    }
  }
  std::array<std::string, 256> texts;
  std::array<int, kByteCharacters> bytes;
};

const ByteAlphabet& Alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

void AppendByteCharacters(std::string_view bytes, std::string* to) {
  const ByteAlphabet& alphabet = Alphabet();
  for (const char byte : bytes) {
    if (byte >= '!' && byte <= '~') {
      to->push_back(byte);
    } else {
      to->append(alphabet.texts[static_cast<unsigned char>(byte)]);
    }
  }
}

std::optional<char> ByteOfCharacter(char32_t code) {
  if (code >= kByteCharacters || Alphabet().bytes[code] < 0) return std::nullopt;
  return static_cast<char>(Alphabet().bytes[code]);
}

}  // namespace qkv::text
