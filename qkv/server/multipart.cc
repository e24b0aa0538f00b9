#include "qkv/server/multipart.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/rfc7230.hpp>

#include "qkv/server/http_message.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxParts = 1000, kMaxHeader = 8192;

[[noreturn]] void Malformed(const char* why) { BadRequest(std::string("multipart/form-data: ") + why); }

// A parameter's value, without its quotes.
std::string Unquoted(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return std::string(value);
  std::string text;
  for (size_t i = 1; i + 1 < value.size(); ++i) {
    if (value[i] == '\\' && i + 2 < value.size()) ++i;
    text += value[i];
  }
  return text;
}

// Calls use(name, value) for each parameter of "x; name=value; …".
template <typename Use>
void ForEachParameter(std::string_view header, Use use) {
  const size_t begin = std::min(header.find(';'), header.size());
  const std::string parameters(header.substr(begin));
  for (const auto& [name, value] : boost::beast::http::param_list(parameters)) {
    use(std::string_view(name.data(), name.size()), Unquoted({value.data(), value.size()}));
  }
}

std::string Boundary(std::string_view content_type) {
  std::string boundary;
  ForEachParameter(content_type, [&](std::string_view name, const std::string& value) {
    if (boost::beast::iequals({name.data(), name.size()}, "boundary")) boundary = value;
  });
  if (boundary.empty() || boundary.size() > 70) Malformed("its Content-Type has no boundary of 1 to 70 characters");
  return boundary;
}

// Reads the headers of a part.
FormPart ParseHeaders(std::string_view headers) {
  FormPart part;
  bool named = false;
  while (!headers.empty()) {
    const size_t end = std::min(headers.find("\r\n"), headers.size());
    const std::string_view line = headers.substr(0, end);
    headers.remove_prefix(std::min(end + 2, headers.size()));
    const size_t colon = line.find(':');
    if (colon == line.npos) Malformed("a part's header has no colon");
    if (!boost::beast::iequals({line.data(), colon}, "content-disposition")) continue;
    ForEachParameter(line.substr(colon + 1), [&](std::string_view name, const std::string& value) {
      if (boost::beast::iequals({name.data(), name.size()}, "name")) part.name = value, named = true;
      if (boost::beast::iequals({name.data(), name.size()}, "filename")) part.filename = value, part.is_file = true;
    });
  }
  if (!named) Malformed("a part has no name");
  return part;
}

}  // namespace

std::vector<FormPart> ParseMultipart(std::string_view content_type, std::string_view message) {
  const std::string delimiter = "\r\n--" + Boundary(content_type);
  // The first delimiter may stand at the very beginning, without a line end before it.
  size_t at = message.starts_with(std::string_view(delimiter).substr(2)) ? delimiter.size() - 2 : [&] {
    const size_t found = message.find(delimiter);
    return found == message.npos ? found : found + delimiter.size();
  }();
  if (at == message.npos) Malformed("its boundary is not in it");
  std::vector<FormPart> parts;
  for (;;) {
    message.remove_prefix(at);
    if (message.starts_with("--")) return parts;
    const size_t line = message.find("\r\n");
    if (line == message.npos || message.substr(0, line).find_first_not_of(" \t") != message.npos) {
      Malformed("it has no end");
    }
    message.remove_prefix(line);  // the line end stays, for a part without headers
    const size_t end = message.find("\r\n\r\n");
    if (end == message.npos || end > kMaxHeader) Malformed("a part's headers have no end");
    if (parts.size() == kMaxParts) Malformed("more than 1,000 parts");
    FormPart part = ParseHeaders(end == 0 ? std::string_view() : message.substr(2, end - 2));
    message.remove_prefix(end + 2);  // the last line end may begin the next delimiter
    const size_t next = message.find(delimiter);
    if (next == message.npos) Malformed("it has no end");
    part.body = next < 2 ? std::string_view() : message.substr(2, next - 2);
    parts.push_back(std::move(part));
    at = next + delimiter.size();
  }
}

}  // namespace qkv::server
