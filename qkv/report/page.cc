#include "qkv/report/page.h"

#include <fmt/format.h>

#include "qkv/report/base64.h"
#include "qkv/report/template.h"
#include "qkv/report/text.h"
#include "qkv/report/web_files.h"

namespace qkv::report {
namespace {

std::string_view BadgeClass(Badge::Kind kind) {
  switch (kind) {
    case Badge::Kind::kPlain:
      return "badge";
    case Badge::Kind::kGood:
      return "badge good";
    case Badge::Kind::kPartly:
      return "badge partly";
    case Badge::Kind::kBad:
      return "badge bad";
  }
  return "badge";
}

std::string Span(const Badge& badge) {
  if (badge.words.empty()) return "";
  return fmt::format(" <span class=\"{}\">{}</span>", BadgeClass(badge.kind), EscapeXml(badge.words));
}

// Escapes the text and sets parts between backticks as code.
std::string Inline(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('`');
    const size_t close = open == std::string_view::npos ? open : text.find('`', open + 1);
    out += EscapeXml(text.substr(0, close == std::string_view::npos ? text.size() : open));
    if (close == std::string_view::npos) break;
    out += fmt::format("<code>{}</code>", EscapeXml(text.substr(open + 1, close - open - 1)));
    text.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace

Page::Page(std::string title, std::string_view summary) : title_(std::move(title)), summary_(summary) {}

void Page::Section(std::string_view title, const Badge& badge) {
  ++sections_;
  contents_ += fmt::format("<li><a href=\"#s{}\">{}</a>{}</li>\n", sections_, Inline(title), Span(badge));
  body_ += fmt::format("<h2 id=\"s{}\">{}{}</h2>\n", sections_, Inline(title), Span(badge));
}

std::string PolicyTag(bool scripts) {
  return fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; "
      "style-src 'unsafe-inline'; img-src data:{}\"/>",
      scripts ? "; script-src 'unsafe-inline'" : "");
}

void Page::Heading(std::string_view title) { body_ += fmt::format("<h3>{}</h3>\n", Inline(title)); }

void Page::Prose(std::string_view text) { body_ += fmt::format("<p>{}</p>\n", Inline(text)); }

void Page::Note(std::string_view text) { body_ += fmt::format("<p class=\"note\">{}</p>\n", Inline(text)); }

void Page::Add(const Table& table) { body_ += fmt::format("<div class=\"wide\">\n{}</div>\n", ToHtml(table)); }

void Page::Facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<dl>\n";
  for (const auto& [name, value] : facts) {
    body_ += fmt::format("<dt>{}</dt><dd>{}</dd>\n", Inline(name), Inline(value));
  }
  body_ += "</dl>\n";
}

void Page::Figure(const std::string& svg, std::string_view caption) {
  body_ += fmt::format("<figure><div class=\"picture\">\n{}</div>", svg);
  if (!caption.empty()) body_ += fmt::format("<figcaption>{}</figcaption>", Inline(caption));
  body_ += "</figure>\n";
}

void Page::Gallery(const std::vector<Picture>& pictures) {
  body_ += "<div class=\"gallery\">\n";
  for (const Picture& picture : pictures) {
    const std::string image =
        picture.webp.empty() ? "<span class=\"none\">no picture</span>"
                             : fmt::format("<img alt=\"{}\" src=\"data:image/webp;base64,{}\"/>",
                                           EscapeXml(picture.detail), Base64(std::as_bytes(std::span(picture.webp))));
    body_ += fmt::format("<figure{} title=\"{}\">{}<figcaption><b>{}</b><br/>{}</figcaption></figure>\n",
                         picture.marked ? " class=\"marked\"" : "", EscapeXml(picture.tip), image,
                         EscapeXml(picture.caption), EscapeXml(picture.detail));
  }
  body_ += "</div>\n";
}

std::string_view Version() { return QKV_VERSION; }

std::string Page::Html() const {
  std::string body;
  if (!summary_.empty()) body += fmt::format("<p class=\"summary\">{}</p>\n", Inline(summary_));
  // One section needs no list of contents.
  if (sections_ > 1) body += fmt::format("<nav aria-label=\"Contents\">\n<ol>\n{}</ol>\n</nav>\n", contents_);
  body += body_;
  body += fmt::format("<footer>qkv {}</footer>\n", Version());
  const std::string style = std::string(SharedCss()) + std::string(WithoutLastLineEnd(PageCss()));
  return FillTemplate(PageHtml(), {{"POLICY", PolicyTag(/*scripts=*/false)},
                                   {"TITLE", EscapeXml(title_)},
                                   {"STYLE", style},
                                   {"HEADING", Inline(title_)},
                                   {"BODY", body}});
}

}  // namespace qkv::report
