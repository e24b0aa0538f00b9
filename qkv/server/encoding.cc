#include "qkv/server/encoding.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <cctype>
#include <charconv>
#include <limits>
#include <new>
#include <optional>

#include "qkv/core/work.h"

namespace qkv::server {
namespace {

constexpr int kGzipWindow = 15 + 16;                  // zlib's greatest window, behind a header of gzip
constexpr int64_t kFirstRoom = int64_t{64} << 10;     // bytes that an unpacked body has room for at first
constexpr size_t kLeastToPack = 1000;                 // bytes: below, the packet is as large
constexpr int64_t kInflateStep = int64_t{256} << 10;  // bytes that are unpacked at a time
constexpr size_t kDeflateStep = size_t{256} << 10;    // bytes that are packed at a time

// Removes the part before a separator and returns it.
std::string_view NextItem(std::string_view& list, char separator) {
  const size_t end = std::min(list.find(separator), list.size());
  const std::string_view part = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return TrimBlanks(part);
}

bool IsNamed(std::string_view coding, std::string_view name) {
  return boost::beast::iequals({coding.data(), coding.size()}, {name.data(), name.size()});
}

bool IsNamedGzip(std::string_view coding) { return IsNamed(coding, "gzip") || IsNamed(coding, "x-gzip"); }

// The weight of "gzip;q=0.5": 1 if it has none, 0 if that is not well formed.
double WeightOf(std::string_view parameters) {
  double weight = 1;
  while (!parameters.empty()) {
    const std::string_view one = NextItem(parameters, ';');
    if (!one.starts_with("q=") && !one.starts_with("Q=")) continue;
    const std::string_view value = one.substr(2);
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), weight, std::chars_format::fixed);
    if (error != std::errc() || end != value.data() + value.size() || !(weight >= 0 && weight <= 1)) return 0;
  }
  return weight;
}

struct Inflater {
  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

struct Deflater {
  explicit Deflater(int level) {
    constexpr int kMemory = 8;  // zlib's usual
    if (deflateInit2(&stream, level, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~Deflater() { deflateEnd(&stream); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  z_stream stream{};
};

Bytef* ZlibBytes(std::string_view text) { return reinterpret_cast<Bytef*>(const_cast<char*>(text.data())); }

}  // namespace

bool IsGzip(std::string_view content_encoding) {
  if (content_encoding.empty() || IsNamed(content_encoding, "identity")) return false;
  if (IsNamedGzip(content_encoding)) return true;
  throw HttpError(415, "invalid_request_error",
                  FormatShown("Content-Encoding: expected gzip or identity, got {}", content_encoding));
}

bool AcceptsGzip(std::string_view accept_encoding) {
  std::optional<double> gzip, identity, any;
  while (!accept_encoding.empty()) {
    std::string_view parameters = NextItem(accept_encoding, ',');
    const std::string_view coding = NextItem(parameters, ';');
    const double weight = WeightOf(parameters);
    if (IsNamedGzip(coding)) gzip = std::max(gzip.value_or(0), weight);
    if (IsNamed(coding, "identity")) identity = weight;
    if (coding == "*") any = weight;
  }
  const double wanted = gzip ? *gzip : any.value_or(0);
  return wanted > 0 && wanted >= identity.value_or(0);
}

std::string Gunzip(std::string_view packed, int64_t most, const std::function<void(int64_t)>& reserve) {
  // zlib counts in 32 bits.
  if (packed.size() > std::numeric_limits<uInt>::max()) BadRequest("Content-Encoding: a gzip file below 4 GiB");
  Inflater inflater;
  z_stream& stream = inflater.stream;
  stream.next_in = ZlibBytes(packed);
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string content;
  int64_t room = 0, size = 0;
  for (bool ended = false; !ended;) {
    if (size == room) {
      const int64_t more =
          std::min(std::max(room, kFirstRoom), most + 1 - size);  // one more byte shows that it is too large
      reserve(room + more);                                       // the old memory stays until it is copied
      std::string larger(static_cast<size_t>(room + more), '\0');
      std::copy(content.begin(), content.end(), larger.begin());
      content = std::move(larger);
      if (room > 0) reserve(-room);
      room += more;
    }
    const int64_t step = std::min(room - size, kInflateStep);
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + size);
    stream.avail_out = static_cast<uInt>(step);
    const uInt before = stream.avail_in;
    const int status = inflate(&stream, Z_NO_FLUSH);
    const int64_t got = step - stream.avail_out;
    size += got;
    if (size > most) {
      throw HttpError(413, "invalid_request_error",
                      fmt::format("the request's body is larger than the {} bytes that this server takes "
                                  "(limits.body), once it is unpacked",
                                  most));
    }
    Spend(got + (before - stream.avail_in));
    if (status == Z_STREAM_END) {
      ended = stream.avail_in == 0;
      if (!ended) inflateReset(&stream);  // another member follows
    } else if (status != Z_OK || (got == 0 && before == stream.avail_in)) {
      BadRequest("Content-Encoding", "a whole gzip file");
    }
  }
  content.resize(static_cast<size_t>(size));
  return content;
}

void CompressAnswer(const HttpRequest& request, HttpResponse* response) {
  const std::string_view type = response->type;
  const bool texts =
      type.starts_with("application/json") || type.starts_with("text/html") || type.starts_with("text/plain");
  const bool encoded = std::any_of(response->headers.begin(), response->headers.end(),
                                   [](const auto& header) { return header.first == "Content-Encoding"; });
  if (!texts || encoded || response->body.size() < kLeastToPack) return;
  response->headers.emplace_back("Vary", "Accept-Encoding");
  if (!AcceptsGzip(request.Header("accept-encoding"))) return;
  response->body = Gzip(response->body, Z_BEST_SPEED);
  response->headers.emplace_back("Content-Encoding", "gzip");
}

std::string Gzip(std::string_view content, int level) {
  Deflater deflater(level);
  z_stream& stream = deflater.stream;
  std::string packed(deflateBound(&stream, content.size()), '\0');
  size_t written = 0, read = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (written == packed.size()) packed.resize(written + kDeflateStep);
    const size_t in = std::min(content.size() - read, kDeflateStep),
                 out = std::min(packed.size() - written, kDeflateStep);
    stream.next_in = ZlibBytes(content.substr(read));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = ZlibBytes(std::string_view(packed).substr(written));
    stream.avail_out = static_cast<uInt>(out);
    status = deflate(&stream, read + in == content.size() ? Z_FINISH : Z_NO_FLUSH);
    Require(status == Z_OK || status == Z_STREAM_END, "cannot compress {} bytes: zlib's status {}", content.size(),
            status);
    const size_t taken = in - stream.avail_in;
    read += taken;
    written += out - stream.avail_out;
    Spend(static_cast<int64_t>(taken));
  }
  packed.resize(written);
  return packed;
}

}  // namespace qkv::server
