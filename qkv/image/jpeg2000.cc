#include "qkv/image/jpeg2000.h"

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/image/codec.h"
#include "qkv/image/jpeg2000_header.h"

#ifdef QKV_OPENJPEG
#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>
#endif

namespace qkv::image {

#ifdef QKV_OPENJPEG

namespace {

// libopenjp2 asks for so many bytes at a time.
constexpr size_t kChunk = size_t{1} << 16;
// Entropy decoding takes some 20 ns a bit, the transforms a few a sample.
constexpr int64_t kStepsPerByte2000 = 20, kStepsPerSample2000 = 8;

struct Input2000 {
  std::span<const std::byte> bytes;
  size_t position = 0;
  Interrupt interrupt;
  std::string message;  // the first error

  static Input2000& Of(void* user) { return *static_cast<Input2000*>(user); }
};

/// Messages end with a line feed.
void KeepMessage(const char* text, void* user) {
  std::string& message = Input2000::Of(user).message;
  if (!message.empty()) return;
  message = text;
  while (!message.empty() && message.back() == '\n') message.pop_back();
}

/// Data that is missing is a warning to the library, which leaves its samples grey.
void KeepWarning(const char* text, void* user) {
  for (const char* missing : {"too long", "too short", "Missing packets", "PTERM", "bpno_plus_one", "inconsistent"})
    if (std::strstr(text, missing) != nullptr) KeepMessage(text, user);
}

OPJ_SIZE_T ReadChunk(void* out, OPJ_SIZE_T count, void* user) {
  Input2000& in = Input2000::Of(user);
  const size_t taken = std::min<size_t>(count, in.bytes.size() - in.position);
  // The only place where the library can be stopped: between tiles.
  if (taken == 0 || !in.interrupt.Spend(kStepsPerByte2000 * static_cast<int64_t>(taken)))
    return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(out, in.bytes.data() + in.position, taken);
  in.position += taken;
  return taken;
}

OPJ_OFF_T SkipBytes(OPJ_OFF_T count, void* user) {
  Input2000& in = Input2000::Of(user);
  if (count < 0 || static_cast<uint64_t>(count) > in.bytes.size() - in.position) return -1;
  in.position += static_cast<size_t>(count);
  return count;
}

OPJ_BOOL SeekBytes(OPJ_OFF_T position, void* user) {
  Input2000& in = Input2000::Of(user);
  if (position < 0 || static_cast<uint64_t>(position) > in.bytes.size()) return OPJ_FALSE;
  in.position = static_cast<size_t>(position);
  return OPJ_TRUE;
}

using Stream2000 = std::unique_ptr<opj_stream_t, decltype(&opj_stream_destroy)>;
using Codec2000 = std::unique_ptr<opj_codec_t, decltype(&opj_destroy_codec)>;
using Picture2000 = std::unique_ptr<opj_image_t, decltype(&opj_image_destroy)>;

Picture2000 DecodePicture(Input2000& in, bool is_file, std::string_view where) {
  const Stream2000 stream(opj_stream_create(std::min(kChunk, in.bytes.size()), OPJ_TRUE), opj_stream_destroy);
  const Codec2000 codec(opj_create_decompress(is_file ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K), opj_destroy_codec);
  Require(stream != nullptr && codec != nullptr, "{}: JPEG 2000: no memory", where);
  opj_stream_set_read_function(stream.get(), ReadChunk);
  opj_stream_set_skip_function(stream.get(), SkipBytes);
  opj_stream_set_seek_function(stream.get(), SeekBytes);
  opj_stream_set_user_data(stream.get(), &in, nullptr);
  opj_stream_set_user_data_length(stream.get(), in.bytes.size());
  opj_set_error_handler(codec.get(), KeepMessage, &in);
  opj_set_warning_handler(codec.get(), KeepWarning, &in);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t* found = nullptr;
  // Zero further threads, whatever the environment says: callers decode tiles side by side.
  const bool has_header = opj_setup_decoder(codec.get(), &parameters) && opj_codec_set_threads(codec.get(), 0) &&
                          opj_decoder_set_strict_mode(codec.get(), OPJ_TRUE) &&
                          opj_read_header(stream.get(), codec.get(), &found);
  Picture2000 picture(found, opj_image_destroy);
  const bool ok = has_header && opj_decode(codec.get(), stream.get(), picture.get());
  in.interrupt.Rethrow();
  Require(ok && in.message.empty(), "{}: JPEG 2000: {}", where, in.message.empty() ? "damaged" : in.message);
  return picture;
}

void CheckPicture(const opj_image_t& picture, const Jpeg2000Header& header, std::string_view where) {
  Require(picture.numcomps >= 1 && static_cast<int>(picture.numcomps) <= std::max(header.components, header.channels),
          "{}: JPEG 2000: {} components, {} were declared", where, picture.numcomps, header.components);
  const opj_image_comp_t& first = picture.comps[0];
  for (OPJ_UINT32 c = 0; c < picture.numcomps; ++c) {
    const opj_image_comp_t& component = picture.comps[c];
    Require(component.data != nullptr && component.w > 0 && component.h > 0, "{}: JPEG 2000: component {} has no data",
            where, c);
    Require(component.prec == first.prec && component.sgnd == first.sgnd && component.prec <= 16,
            "{}: JPEG 2000: component {} has {} bits ({}), the first {} ({}); expected the same, at most 16", where, c,
            component.prec, component.sgnd ? "signed" : "unsigned", first.prec, first.sgnd ? "signed" : "unsigned");
  }
  Require(first.w == header.width && first.h == header.height, "{}: JPEG 2000: {} x {} pixels, {} x {} were declared",
          where, first.w, first.h, header.width, header.height);
}

/// For each of `count` samples of the first component along an axis, that of one with steps of `step`, repeated.
std::vector<int64_t> Repeated(int64_t count, int64_t origin, int64_t first_step, int64_t step, int64_t extent) {
  std::vector<int64_t> index(static_cast<size_t>(count));
  const int64_t first_begin = (origin + first_step - 1) / first_step, begin = (origin + step - 1) / step;
  for (int64_t i = 0; i < count; ++i)
    index[static_cast<size_t>(i)] = std::clamp<int64_t>((first_begin + i) * first_step / step - begin, 0, extent - 1);
  return index;
}

void CopySamples(const opj_image_t& picture, const Jpeg2000Header& header, Tensor<int32_t>& samples) {
  const auto channels = static_cast<int64_t>(picture.numcomps);
  const opj_image_comp_t& first = picture.comps[0];
  for (int64_t c = 0; c < channels; ++c) {
    const opj_image_comp_t& component = picture.comps[c];
    const std::vector<int64_t> columns = Repeated(header.width, header.grid_x, first.dx, component.dx, component.w);
    const std::vector<int64_t> rows = Repeated(header.height, header.grid_y, first.dy, component.dy, component.h);
    for (int64_t y = 0; y < header.height; ++y) {
      Spend(header.width);
      const OPJ_INT32* in = component.data + rows[static_cast<size_t>(y)] * component.w;
      int32_t* out = samples.data() + y * header.width * channels + c;
      for (int64_t x = 0; x < header.width; ++x, out += channels) *out = in[columns[static_cast<size_t>(x)]];
    }
  }
}

}  // namespace

Jpeg2000 DecodeJpeg2000(std::span<const std::byte> bytes, int64_t max_pixels, std::string_view where) {
  const Jpeg2000Header header = ReadJpeg2000Header(bytes, max_pixels, where);
  const int64_t channels = std::max(header.components, header.channels), size = header.width * header.height * channels;
  RequireMemory(
      static_cast<double>(header.library_bytes) + static_cast<double>(sizeof(int32_t)) * static_cast<double>(size),
      FormatShown("{}: JPEG 2000", where));
  CheckCancelled();
  Spend(kStepsPerSample2000 * size);
  Input2000 in{bytes};
  const Picture2000 picture = DecodePicture(in, header.is_file, where);
  CheckPicture(*picture, header, where);
  Jpeg2000 decoded;
  decoded.bits = static_cast<int>(picture->comps[0].prec);
  decoded.is_signed = picture->comps[0].sgnd != 0;
  decoded.is_ycc = picture->numcomps == 3 && picture->color_space == OPJ_CLRSPC_SYCC;
  decoded.samples =
      Tensor<int32_t>::Uninitialised({header.height, header.width, static_cast<int64_t>(picture->numcomps)});
  CopySamples(*picture, header, decoded.samples);
  return decoded;
}

bool HasJpeg2000() { return true; }

#else

bool HasJpeg2000() { return false; }

Jpeg2000 DecodeJpeg2000(std::span<const std::byte>, int64_t, std::string_view where) {
  Fail("{}: JPEG 2000: built without libopenjp2 (Debian: libopenjp2-7-dev); build qkv again with it", where);
}

#endif

}  // namespace qkv::image
