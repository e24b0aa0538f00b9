// Texts that end where a given text begins.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::app {

/// Ends a text where one of several stop texts begins, even if that is split between pieces.
class StopScanner {
 public:
  /// stops: none of them empty.
  explicit StopScanner(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Takes the next piece and returns what may be shown: a possible beginning of a stop is kept back.
  std::string Add(std::string_view piece);
  /// True once a stop has come. It is not shown, nor is what follows.
  bool stopped() const { return stopped_; }
  /// The rest that was kept back, at the text's end.
  std::string Rest();

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace qkv::app
