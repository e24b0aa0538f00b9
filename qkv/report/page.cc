#include "qkv/report/page.h"

#include <fmt/format.h>

#include "qkv/report/text.h"

namespace qkv::report {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1f2328; --muted: #57606a; --line: #d8dee4; --ground: #fff; --soft: #f6f8fa;
  --link: #0969da; --good: #1a7f37; --partly: #9a6700; --bad: #cf222e }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --muted: #9198a1; --line: #30363d;
  --ground: #0d1117; --soft: #161b22; --link: #4493f8; --good: #3fb950; --partly: #d29922; --bad: #f85149 } }
* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100% }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 46rem; background: var(--ground); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line) }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem }
p { margin: .75rem 0 } .summary { color: var(--muted); font-size: 1.1rem } .note { color: var(--muted); font-size: .85rem }
code { font: .88em ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; background: var(--soft);
  padding: .1em .3em; border-radius: 4px }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
nav ol { list-style: none; margin: 1.5rem 0; padding: .75rem 1rem; background: var(--soft); border-radius: 8px }
nav li { display: flex; gap: 1rem; justify-content: space-between; align-items: baseline; padding: .12rem 0 }
.badge { font-size: .78rem; font-weight: 600; white-space: nowrap; color: var(--muted) }
h2 .badge { display: inline-block; margin-left: .6rem; vertical-align: .15em; padding: .05rem .55rem;
  border: 1px solid currentColor; border-radius: 1rem }
.good { color: var(--good) } .partly { color: var(--partly) } .bad { color: var(--bad) }
.wide { overflow-x: auto; margin: 1.25rem 0 }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; caption-side: top }
th, td { padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th { font-weight: 600; color: var(--muted) } th:last-child, td:last-child { padding-right: 0 }
.number { text-align: right } td.number { white-space: nowrap }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.1rem; margin: 1rem 0 }
dt { color: var(--muted) } dd { margin: 0 }
figure { display: inline-block; vertical-align: top; max-width: 100%; margin: 1rem 1.5rem .5rem 0 } figcaption { color: var(--muted); font-size: .85rem; margin-top: .25rem }
.picture { overflow-x: auto } .picture svg { display: block; max-width: 100%; height: auto }
@media (max-width: 40rem) { body { padding-top: 1.5rem } dl { grid-template-columns: 1fr; gap: 0 } dd { margin-bottom: .5rem }
  .picture svg { max-width: max(100%, 30rem) } }
@media print { body { max-width: none; padding: 0; font-size: 11pt } figure, table, dl { break-inside: avoid }
  h2, h3 { break-after: avoid } .wide, .picture { overflow: visible } a { color: inherit } }
)";

std::string_view NameOf(Badge::Kind kind) {
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
  return fmt::format(" <span class=\"{}\">{}</span>", NameOf(badge.kind), EscapeXml(badge.words));
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

std::string Page::Html() const {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "{}\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
      PolicyTag(/*scripts=*/false), EscapeXml(title_), kStyle, Inline(title_));
  if (!summary_.empty()) html += fmt::format("<p class=\"summary\">{}</p>\n", Inline(summary_));
  // no contents for a single section
  if (sections_ > 1) html += fmt::format("<nav aria-label=\"Contents\">\n<ol>\n{}</ol>\n</nav>\n", contents_);
  return html + body_ + "</main>\n</body>\n</html>\n";
}

}  // namespace qkv::report
