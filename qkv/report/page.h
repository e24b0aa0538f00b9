// One HTML file that needs nothing else: words, tables and pictures under headings, with a list of contents. It reads
// well on a phone, in the dark and on paper.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/report/table.h"

namespace qkv::report {

/// The tag that holds a page to what it has in itself: nothing is fetched or sent, and no script runs, or with
/// `scripts` only its own.
std::string PolicyTag(bool scripts);

/// A word beside a heading, in the colour of what it says.
struct Badge {
  enum class Kind { kPlain, kGood, kPartly, kBad } kind = Kind::kPlain;
  std::string words;
};

class Page {
 public:
  /// `summary` stands under the title; it may be empty.
  explicit Page(std::string title, std::string_view summary = {});

  /// A section, listed in the contents.
  void Section(std::string_view title, const Badge& badge = {});
  void Heading(std::string_view title);
  /// A paragraph. What stands between two backticks is set as code; everything else as it is.
  void Prose(std::string_view text);
  /// Small print: what was run, on what.
  void Note(std::string_view text);
  void Add(const Table& table);
  /// Names and what they are, in two columns.
  void Facts(const std::vector<std::pair<std::string, std::string>>& facts);
  /// A picture as Draw or Svg::Finish returns it; any other text would be taken for HTML.
  void Figure(const std::string& svg, std::string_view caption = {});

  std::string Html() const;

 private:
  std::string title_, summary_, contents_, body_;
  int sections_ = 0;
};

}  // namespace qkv::report
