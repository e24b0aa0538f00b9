#include "qkv/app/attention/attend_page.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "qkv/app/attention/attend_html.h"
#include "qkv/app/attention/weight_bytes.h"
#include "qkv/app/images/thumbnail.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/error.h"
#include "qkv/report/base64.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

// What the built page has in place of its title and its data.
constexpr std::string_view kTitlePlace = "<title>Attention</title>", kDataPlace = "<!-- data -->";

std::string TitleOf(const AttentionMaps& maps) {
  return maps.path == "-" ? "stdin" : std::filesystem::path(maps.path).filename().string();
}

// The elements that web/app/src/attend/facts.ts reads.
std::string DataElements(const AttentionMaps& maps) {
  const int64_t N = maps.grid.tokens(), rows = maps.weights.size() / N;
  std::vector<uint8_t> bytes(static_cast<size_t>(maps.weights.size()));
  std::vector<float> scales(static_cast<size_t>(rows));
  WeightBytes(View<const float>(maps.weights.data(), {rows, N}), bytes.data(), scales.data());
  const bool every = maps.weights.dim(2) > 1;
  const std::string photo = every ? PagePhoto(maps.photo) : LargePagePhoto(maps.photo);
  io::Json facts = Facts(maps);
  facts.erase("path");
  facts["title"] = TitleOf(maps);
  std::string elements;
  const auto add = [&](std::string_view type, std::string_view id, const std::string& text) {
    elements.append("<script type=\"").append(type).append("\" id=\"").append(id).append("\">");
    elements.append(text).append("</script>\n");
  };
  add("application/json", "facts", JsonInScript(facts));
  add("text/plain", "weights", report::Base64(std::as_bytes(std::span(bytes))));
  add("text/plain", "scales", report::Base64(std::as_bytes(std::span(scales))));
  add("text/plain", "photo", report::Base64(std::as_bytes(std::span(photo))));
  return elements;
}

}  // namespace

bool HasAttendPage() { return AttendHtml().find(kDataPlace) != std::string_view::npos; }

void RequireAttendPage() {
  Require(HasAttendPage(),
          "attend: this program was built without Node.js, which builds its page of images; write .png, .npy, "
          ".safetensors or .json, or build qkv again with Node.js and npm (on Debian: tools/setup.sh page)");
}

std::string AttendPage(const AttentionMaps& maps) {
  RequireAttendPage();
  const std::string_view page = AttendHtml();
  const size_t title = page.find(kTitlePlace), data = page.find(kDataPlace);
  Require(title < data, "attend: the page has no {} before its data; build web/app again", kTitlePlace);
  std::string html(page.substr(0, title));
  html += "<title>" + report::EscapeXml("Attention: " + TitleOf(maps)) + "</title>";
  html += page.substr(title + kTitlePlace.size(), data - title - kTitlePlace.size());
  html += DataElements(maps);
  html += page.substr(data + kDataPlace.size());
  return html;
}

}  // namespace qkv::app
