// Text on images: DejaVu Sans by FreeType, one glyph after the other from left to right. No shaping: scripts that join
// letters or run from the right are legible, not beautiful.
#include <ft2build.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "qkv/image/draw.h"
#include "qkv/image/font_file.h"
// Defined by ft2build.h.
#include FT_FREETYPE_H

namespace qkv::image {
namespace {

// DejaVu Sans: above and below the baseline, in parts of an em.
constexpr double kAscent = 0.928, kDescent = 0.236;
constexpr std::string_view kEllipsis = "…";

// The face, which one thread uses.
class Font {
 public:
  Font() {
    const std::string_view file = FontFile();
    const bool ok =
        FT_Init_FreeType(&library_) == 0 && FT_New_Memory_Face(library_, reinterpret_cast<const FT_Byte*>(file.data()),
                                                               static_cast<FT_Long>(file.size()), 0, &face_) == 0;
    Require(ok, "draw: FreeType cannot read the font");
  }
  Font(const Font&) = delete;
  Font& operator=(const Font&) = delete;
  ~Font() {
    FT_Done_Face(face_);
    FT_Done_FreeType(library_);
  }

  // Calls use(glyph, x) for each character of the text, x being the pen's place in pixels; returns where it ends.
  int64_t ForGlyphs(std::string_view text, int size, int flags,
                    const std::function<void(const FT_GlyphSlotRec_& glyph, int64_t x)>& use) {
    Require(FT_Set_Pixel_Sizes(face_, 0, static_cast<FT_UInt>(size)) == 0, "draw: text of {} pixels", size);
    int64_t x = 0;
    while (!text.empty()) {
      const char32_t code = TakeCharacter(text);
      if (code < 0x20 || FT_Load_Char(face_, code, flags) != 0) continue;
      if (use) use(*face_->glyph, x);
      x += (face_->glyph->advance.x + 32) >> 6;
    }
    return x;
  }

 private:
  // Removes the first character; U+FFFD for a byte that begins none.
  static char32_t TakeCharacter(std::string_view& text) {
    const size_t length = CharacterLength(text);
    const auto first = static_cast<uint8_t>(text[0]);
    char32_t code = length == 0 ? 0xFFFD : length == 1 ? first : first & (0x7F >> length);
    for (size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3F);
    text.remove_prefix(std::max<size_t>(1, length));
    return code;
  }

  FT_Library library_ = nullptr;
  FT_Face face_ = nullptr;
};

// One a thread, some 0.2 ms each, rather than a lock, which a forked child would find as another thread held it.
Font& LabelFont() {
  static thread_local Font font;
  return font;
}

// Blends the colour into the pixel (y, x), if there is one.
void BlendPixel(Image& image, int64_t y, int64_t x, const Colour& colour, int coverage) {
  if (y < 0 || x < 0 || y >= image.height() || x >= image.width()) return;
  uint8_t* to = image.pixels.view().at(y, x);
  for (size_t c = 0; c < 3; ++c)
    to[c] = static_cast<uint8_t>((to[c] * (255 - coverage) + colour[c] * coverage + 127) / 255);
}

// Calls use(y, x, coverage) for the pixels of a line whose corner is (0, 0); coverage: 0 to 255.
template <typename F>
void ForPixels(std::string_view text, int size, F&& use) {
  const int64_t baseline = std::lround(kAscent * size);
  LabelFont().ForGlyphs(text, size, FT_LOAD_RENDER | FT_LOAD_TARGET_LIGHT,
                        [&](const FT_GlyphSlotRec_& glyph, int64_t x) {
                          const FT_Bitmap& bitmap = glyph.bitmap;
                          for (int64_t row = 0; row < bitmap.rows; ++row) {
                            for (int64_t column = 0; column < bitmap.width; ++column) {
                              use(baseline - glyph.bitmap_top + row, x + glyph.bitmap_left + column,
                                  bitmap.buffer[row * bitmap.pitch + column]);
                            }
                          }
                        });
}

}  // namespace

void DrawText(Image& image, std::string_view text, int64_t top, int64_t left, int size, const Colour& colour) {
  ForPixels(text, size,
            [&](int64_t y, int64_t x, int coverage) { BlendPixel(image, top + y, left + x, colour, coverage); });
}

void DrawUprightText(Image& image, std::string_view text, int64_t bottom, int64_t left, int size,
                     const Colour& colour) {
  ForPixels(text, size,
            [&](int64_t y, int64_t x, int coverage) { BlendPixel(image, bottom - 1 - x, left + y, colour, coverage); });
}

int64_t TextWidth(std::string_view text, int size) {
  return LabelFont().ForGlyphs(text, size, FT_LOAD_TARGET_LIGHT, {});
}

int64_t TextHeight(int size) { return std::lround((kAscent + kDescent) * size); }

std::string ShortenText(std::string_view text, int size, int64_t width) {
  if (TextWidth(text, size) <= width) return std::string(text);
  // A third of the width for the beginning: the end of a file's name tells more.
  const int64_t room = std::max<int64_t>(0, width - TextWidth(kEllipsis, size)), first = room / 3;
  std::string begin, end;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view letter = rest.substr(0, std::max<size_t>(1, CharacterLength(rest)));
    if (TextWidth(begin + std::string(letter), size) > first) break;
    begin += letter;
    rest.remove_prefix(letter.size());
  }
  for (size_t at = text.size(); at > begin.size();) {
    do --at;
    while (at > begin.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
    const std::string_view tail = text.substr(at);
    if (TextWidth(tail, size) > room - TextWidth(begin, size)) break;
    end = tail;
  }
  return begin + std::string(kEllipsis) + end;
}

}  // namespace qkv::image
