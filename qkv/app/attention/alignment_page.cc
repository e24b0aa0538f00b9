#include "qkv/app/attention/alignment_page.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "qkv/app/attention/alignment_files.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/text.h"
#include "qkv/image/colour_map.h"
#include "qkv/report/base64.h"
#include "qkv/report/page.h"
#include "qkv/report/template.h"
#include "qkv/report/text.h"
#include "qkv/report/web_files.h"

namespace qkv::app {
namespace {

constexpr size_t kTitleBytes = 120;

// A text is one line here, and a long one is cut.
std::string AlignmentTitle(const TextAttention& attention) {
  std::string line = attention.source;
  std::ranges::replace(line, '\n', ' ');
  std::ranges::replace(line, '\t', ' ');
  if (line.size() > kTitleBytes) {
    size_t end = kTitleBytes;
    while (end > 0 && (static_cast<uint8_t>(line[end]) & 0xC0) == 0x80) --end;
    line = line.substr(0, end) + "…";
  }
  return Printable(line);
}

// The colour map of the page's script: 256 colours of six hexadecimal digits.
std::string PageColours() {
  std::string colours;
  for (int i = 0; i < 256; ++i) {
    colours += image::Hex(image::ColourAt(image::ColourMap::kSequential, i / 255.0)).substr(1);
  }
  return colours;
}

}  // namespace

std::string AlignmentPage(const TextAttention& attention) {
  std::vector<uint8_t> bytes;
  bytes.reserve(static_cast<size_t>(2 * attention.weights.size()));
  for (const float weight : attention.weights.span()) {
    const auto share = static_cast<uint16_t>(std::lround(65535 * std::clamp(weight, 0.0f, 1.0f)));
    bytes.push_back(static_cast<uint8_t>(share & 255)), bytes.push_back(static_cast<uint8_t>(share >> 8));
  }
  const std::string title = AlignmentTitle(attention);
  io::Json facts = Facts(attention);
  facts["title"] = title;
  facts["describe"] = Describe(attention);
  facts["colours"] = PageColours();
  const std::string style = std::string(report::SharedCss()) + std::string(report::WithoutLastLineEnd(AlignmentCss()));
  return report::FillTemplate(AlignmentHtml(), {{"POLICY", report::PolicyTag(/*scripts=*/true)},
                                                {"TITLE", report::EscapeXml("Attention: " + title)},
                                                {"VERSION", report::Version()},
                                                {"STYLE", style},
                                                {"WEIGHTS", report::Base64(std::as_bytes(std::span(bytes)))},
                                                {"PAGE", JsonInScript(facts)},
                                                {"SCRIPT", report::WithoutLastLineEnd(AlignmentScript())}});
}

}  // namespace qkv::app
