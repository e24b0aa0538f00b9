// Content codings of HTTP (RFC 9110, 8.4 and 12.5.3): gzip, for request bodies and for answers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "qkv/server/http_message.h"

namespace qkv::server {

/// True if a Content-Encoding is gzip, false if it is missing or identity. Throws HttpError 415 for any other.
bool IsGzip(std::string_view content_encoding);

/// True if an Accept-Encoding prefers gzip to the bytes as they are, or likes both equally.
bool AcceptsGzip(std::string_view accept_encoding);

/// The content of a gzip file with one member or several. `reserve` is called with a number of bytes before memory
/// grows by them, and may throw; and with a negative number when memory was given back. Throws HttpError 413 above
/// `most` bytes, 400 if the file is malformed.
std::string Gunzip(std::string_view packed, int64_t most, const std::function<void(int64_t)>& reserve);

/// Compresses an answer of JSON, HTML or text from about a kilobyte on if its client accepts that. Call it on the
/// thread that made the answer: a megabyte takes some 20 ms.
void CompressAnswer(const HttpRequest& request, HttpResponse* response);

/// The content as a gzip file, at zlib's level from 1 (fast) to 9 (small). Can be cancelled (core/work.h).
std::string Gzip(std::string_view content, int level);

}  // namespace qkv::server
