// The results of a search: as JSON, as a picture and as a page.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/image/image.h"
#include "qkv/io/json.h"

namespace qkv::app {

struct SearchHit {
  std::string path;  // or the number of the row
  int64_t row = 0;
  float score = 0;  // cosine
};

struct SearchAnswer {
  std::string query;  // path of an image, or words
  bool words = false;
  bool of_texts = false;        // hits are texts, else images
  std::vector<SearchHit> hits;  // best first
};

/// {"query", "results": [{"score", "path" of an image or "text", "row"}]}
io::Json ToJson(const SearchAnswer& answer);

/// A contact sheet for each query, one below the other: the query at the left, the results beside it with score and
/// name. RGB. Images that cannot be read any more are empty places. Throws Error if the picture would be too large.
image::Image SearchPicture(std::span<const SearchAnswer> answers, const image::DecodeOptions& decode);

/// The same as a self-contained HTML page; `summary` says where the search was.
std::string SearchPage(std::span<const SearchAnswer> answers, const std::string& summary,
                       const image::DecodeOptions& decode);

}  // namespace qkv::app
