// multipart/form-data (RFC 7578): the files and fields of a form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qkv::server {

struct FormPart {
  std::string name;      // of the field
  std::string filename;  // of a file, as its sender calls it; empty for a field
  bool is_file = false;
  std::string_view body;  // refers to the message
};

/// The parts of a message. content_type: its header, with the boundary. Throws HttpError 400 if the message is
/// malformed or has more than 1,000 parts.
std::vector<FormPart> ParseMultipart(std::string_view content_type, std::string_view message);

}  // namespace qkv::server
