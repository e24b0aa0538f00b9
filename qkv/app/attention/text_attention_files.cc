#include "qkv/app/attention/text_attention_files.h"

#include <map>

#include "qkv/app/attention/alignment_page.h"
#include "qkv/app/attention/alignment_picture.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/file_set.h"
#include "qkv/image/encode.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "qkv/text/unicode.h"

namespace qkv::app {

std::filesystem::path TokensFileOf(const std::filesystem::path& npy) {
  return std::filesystem::path(npy).replace_extension(".tokens.json");
}

namespace {

void WriteNpyAndTokens(const TextAttention& attention, const std::filesystem::path& file) {
  FileSet files;
  files.Add(file, [&](FileSink& sink) { io::WriteNpy<float>(sink, attention.weights); });
  files.Add(TokensFileOf(file), JsonLine(Facts(attention)) + "\n");
  files.Publish();
}

}  // namespace

void WriteTextAttention(const TextAttention& attention, MapFormat format, const std::filesystem::path& file) {
  switch (format) {
    case MapFormat::kPng:
      return image::WritePng(file, AlignmentPicture(attention));
    case MapFormat::kNpy:
      return WriteNpyAndTokens(attention, file);
    case MapFormat::kSafeTensors: {
      std::map<std::string, std::string> metadata;
      const io::Json facts = Facts(attention);
      for (const auto& [key, value] : facts.items()) {
        metadata[key] = value.is_string() ? text::ReplaceInvalidUtf8(value.get<std::string>()) : JsonLine(value);
      }
      return io::WriteSafeTensors(file, {io::Stored<float>("weights", attention.weights)}, metadata);
    }
    case MapFormat::kHtml:
      return WriteFile(file, AlignmentPage(attention));
    case MapFormat::kJson:
      return WriteFile(file, JsonLine(ToJson(attention)) + "\n");
  }
}

}  // namespace qkv::app
