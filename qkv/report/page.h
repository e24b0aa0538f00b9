// A self-contained HTML page: text, tables and charts under headings, with a table of contents. The style covers
// phones, dark mode and print.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/report/table.h"

namespace qkv::report {

/// The Content-Security-Policy tag of a self-contained page: no network access, and no scripts, or with `scripts` only
/// inline ones.
std::string PolicyTag(bool scripts);

/// A coloured label beside a heading.
struct Badge {
  enum class Kind { kPlain, kGood, kPartly, kBad } kind = Kind::kPlain;
  std::string words;
};

/// The version of qkv that writes a page.
std::string_view Version();

/// A picture of a gallery.
struct Picture {
  std::string webp;     // the file; empty: there is none to show
  std::string caption;  // below it
  std::string detail;   // below that, small
  std::string tip;      // tooltip
  bool marked = false;  // with a coloured frame
};

class Page {
 public:
  /// `summary` is shown under the title; may be empty.
  explicit Page(std::string title, std::string_view summary = {});

  /// Starts a section and lists it in the contents.
  void Section(std::string_view title, const Badge& badge = {});
  void Heading(std::string_view title);
  /// Adds a paragraph. Text between two backticks is set as code; everything else is escaped.
  void Prose(std::string_view text);
  /// Adds small print: what was run, on which data.
  void Note(std::string_view text);
  void Add(const Table& table);
  /// Adds names and values in two columns.
  void Facts(const std::vector<std::pair<std::string, std::string>>& facts);
  /// Adds SVG as Draw or Svg::Finish returns it; the text is not escaped.
  void Figure(const std::string& svg, std::string_view caption = {});
  /// Adds pictures in rows, as many beside each other as there is room for.
  void Gallery(const std::vector<Picture>& pictures);

  /// The page. Its last line says which version wrote it.
  std::string Html() const;

 private:
  std::string title_, summary_, contents_, body_;
  int sections_ = 0;
};

}  // namespace qkv::report
