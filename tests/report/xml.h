// Whether documents are well formed: the judge is Python's expat, which shares nothing with what it judges.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "qkv/core/file.h"
#include "tests/support/files.h"

namespace qkv::report {

inline bool IsXml(const std::string& document) {
  const TemporaryFolder folder;
  const auto path = folder / "document.xml";
  WriteFile(path, document);
  const std::string command = fmt::format(
      "'{}' -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' '{}'", QKV_PYTHON, path.string());
  return std::system(command.c_str()) == 0;
}

/// How often `part` stands in `text`.
inline int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace qkv::report
