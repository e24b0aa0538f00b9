// GIF through giflib: the first frame on its canvas, as in Pillow.
#include <gif_lib.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/work.h"
#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

// LZW takes about as long.
constexpr int64_t kStepsPerPixel = 4;

struct Input {
  const uint8_t* data;
  size_t left;
};

int ReadBytes(GifFileType* gif, GifByteType* out, int length) {
  auto* input = static_cast<Input*>(gif->UserData);
  const size_t count = std::min(input->left, static_cast<size_t>(length));
  std::memcpy(out, input->data, count);
  input->data += count;
  input->left -= count;
  return static_cast<int>(count);
}

class GifReader {
 public:
  explicit GifReader(const Source& source)
      : source_(source), input_{source.data(), source.size()}, gif_(nullptr, [](GifFileType* gif) {
          DGifCloseFile(gif, nullptr);
        }) {
    int error = 0;
    gif_.reset(DGifOpen(&input_, ReadBytes, &error));
    Require(gif_ != nullptr, "{}: GIF: {}", source.where, Message(error));
  }

  Decoded Read() {
    for (;;) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      Check(DGifGetRecordType(gif_.get(), &type));
      if (type == EXTENSION_RECORD_TYPE) {
        ReadExtension();
      } else {
        Require(type == IMAGE_DESC_RECORD_TYPE, "{}: GIF: no picture in it", source_.where);
        return ReadPicture();
      }
    }
  }

 private:
  static std::string Message(int error) {
    const char* text = GifErrorString(error);
    return text ? text : "damaged";
  }
  void Check(int result) { Require(result == GIF_OK, "{}: GIF: {}", source_.where, Message(gif_->Error)); }

  void ReadExtension() {
    int code = 0;
    GifByteType* block = nullptr;  // preceded by its length
    Check(DGifGetExtension(gif_.get(), &code, &block));
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && block && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
      transparent_ = control.TransparentColor == NO_TRANSPARENT_COLOR ? transparent_ : control.TransparentColor;
    while (block) Check(DGifGetExtensionNext(gif_.get(), &block));
  }

  Decoded ReadPicture() {
    Check(DGifGetImageDesc(gif_.get()));
    const GifImageDesc& frame = gif_->Image;
    // A frame that exceeds the canvas enlarges it.
    const int64_t width = std::max<int64_t>(gif_->SWidth, int64_t{frame.Left} + frame.Width);
    const int64_t height = std::max<int64_t>(gif_->SHeight, int64_t{frame.Top} + frame.Height);
    Require(frame.Width > 0 && frame.Height > 0, "{}: GIF: a picture of {} x {} pixels", source_.where, frame.Width,
            frame.Height);
    Admit(source_, width, height, transparent_ ? 4 : 3, width * height);
    Tensor<uint8_t>& indices = source_.workspace.band;
    indices.Reuse({height, width});
    // Outside the frame: the transparent colour, or the palette's first.
    std::memset(indices.data(), transparent_.value_or(0), static_cast<size_t>(indices.size()));
    ReadRows(frame, indices);
    return {Paint(indices, frame.ColorMap ? frame.ColorMap : gif_->SColorMap)};
  }

  void ReadRows(const GifImageDesc& frame, View<uint8_t> indices) {
    // Interlaced frames have four passes: every 8th row from 0, every 8th from 4, every 4th from 2, every 2nd from 1.
    constexpr int kStart[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    for (int pass = 0; pass < (frame.Interlace ? 4 : 1); ++pass) {
      for (int y = frame.Interlace ? kStart[pass] : 0; y < frame.Height; y += frame.Interlace ? kStep[pass] : 1) {
        Spend(kStepsPerPixel * frame.Width);
        Check(DGifGetLine(gif_.get(), indices.at(frame.Top + y, frame.Left), frame.Width));
      }
    }
  }

  /// Without a palette, indices are grey levels.
  Image Paint(const Tensor<uint8_t>& indices, const ColorMapObject* palette) const {
    const int channels = transparent_ ? 4 : 3;
    Image image = NewImage(source_, indices.dim(1), indices.dim(0), channels);
    ForEachRun(indices.size(), [&](int64_t begin, int64_t end) {
      uint8_t* out = image.pixels.data() + begin * channels;
      for (int64_t i = begin; i < end; ++i, out += channels) {
        const uint8_t index = indices.data()[i];
        if (!palette) {
          std::memset(out, index, 3);
        } else if (index < palette->ColorCount) {
          const GifColorType& colour = palette->Colors[index];
          out[0] = colour.Red, out[1] = colour.Green, out[2] = colour.Blue;
        }
        if (channels == 4) out[3] = index == *transparent_ ? 0 : 255;
      }
    });
    return image;
  }

  const Source& source_;
  Input input_;
  std::unique_ptr<GifFileType, void (*)(GifFileType*)> gif_;
  std::optional<int> transparent_;
};

}  // namespace

Decoded DecodeGif(const Source& source) { return GifReader(source).Read(); }

}  // namespace qkv::image
