#include "qkv/app/vectors/search_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "qkv/app/images/thumbnail.h"
#include "qkv/core/memory.h"
#include "qkv/image/draw.h"
#include "qkv/image/encode.h"
#include "qkv/report/page.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// Pixels of a sheet. The width fits a screen.
constexpr int64_t kSheetMargin = 28, kQuerySide = 248, kHitSide = 176, kHitGap = 14, kHitColumns = 5;
constexpr int kTitleSize = 17, kScoreSize = 15, kNameSize = 12;
constexpr int64_t kCaption = 46, kQueryGap = 30;
constexpr int64_t kSheetWidth =
    2 * kSheetMargin + kQuerySide + kQueryGap + kHitColumns * kHitSide + (kHitColumns - 1) * kHitGap;
constexpr image::Colour kSheetInk = {31, 35, 40}, kSheetMuted = {87, 96, 106}, kSheetPaper = {255, 255, 255},
                        kSheetBox = {243, 245, 247}, kSheetMark = {9, 105, 218}, kSheetLine = {216, 222, 228};
// Side of a page's pictures.
constexpr int64_t kPageSide = 320;

std::string FileName(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.empty() ? path : name;
}

// The images of one answer: the query's (empty for words), and each hit's.
std::vector<image::Image> PicturesOf(const SearchAnswer& answer, const image::DecodeOptions& decode, int64_t side) {
  std::vector<fs::path> files = {answer.words ? fs::path("-") : fs::path(answer.query)};
  for (const SearchHit& hit : answer.hits) files.emplace_back(hit.path);
  return ReadThumbnails(files, decode, side);
}

int64_t RowsOf(const SearchAnswer& answer) {
  return std::max<int64_t>(1, (std::ssize(answer.hits) + kHitColumns - 1) / kHitColumns);
}

int64_t HeightOf(const SearchAnswer& answer) {
  return std::max(kQuerySide + kCaption, RowsOf(answer) * (kHitSide + kCaption + kHitGap) - kHitGap);
}

// The picture in the middle of a grey square, whose side it fits.
void DrawBoxed(image::Image& sheet, const image::Image& picture, int64_t top, int64_t left, int64_t side) {
  image::Fill(sheet, top, left, side, side, kSheetBox);
  if (picture.pixels.empty()) {
    const std::string_view words = "no picture";
    image::DrawText(sheet, words, top + (side - image::TextHeight(kNameSize)) / 2,
                    left + (side - image::TextWidth(words, kNameSize)) / 2, kNameSize, kSheetMuted);
    return;
  }
  const image::Image small = Thumbnail(picture, side);
  image::Paste(sheet, small, top + (side - small.height()) / 2, left + (side - small.width()) / 2);
}

void DrawFrame(image::Image& sheet, int64_t top, int64_t left, int64_t side, int64_t line) {
  image::Fill(sheet, top - line, left - line, line, side + 2 * line, kSheetMark);
  image::Fill(sheet, top + side, left - line, line, side + 2 * line, kSheetMark);
  image::Fill(sheet, top, left - line, side, line, kSheetMark);
  image::Fill(sheet, top, left + side, side, line, kSheetMark);
}

// Words of a query instead of a picture, on several lines.
void DrawWords(image::Image& sheet, std::string_view words, int64_t top, int64_t left) {
  constexpr int64_t kPadding = 16;
  image::Fill(sheet, top, left, kQuerySide, kQuerySide, kSheetBox);
  const int64_t width = kQuerySide - 2 * kPadding, line = image::TextHeight(kTitleSize) + 4;
  int64_t y = top + kPadding;
  std::string text;
  const auto put = [&] {
    image::DrawText(sheet, image::ShortenText(text, kTitleSize, width), y, left + kPadding, kTitleSize, kSheetInk);
    y += line;
  };
  while (!words.empty() && y + line <= top + kQuerySide - kPadding) {
    const size_t end = std::min(words.find(' '), words.size());
    const std::string longer = text + (text.empty() ? "" : " ") + std::string(words.substr(0, end));
    if (!text.empty() && image::TextWidth(longer, kTitleSize) > width) {
      put();
      text = words.substr(0, end);
    } else {
      text = longer;
    }
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  if (!text.empty() && y + line <= top + kQuerySide) put();
}

void DrawAnswer(image::Image& sheet, const SearchAnswer& answer, const std::vector<image::Image>& pictures,
                int64_t top) {
  if (answer.words) {
    DrawWords(sheet, answer.query, top, kSheetMargin);
  } else {
    DrawBoxed(sheet, pictures[0], top, kSheetMargin, kQuerySide);
  }
  DrawFrame(sheet, top, kSheetMargin, kQuerySide, 3);
  int64_t y = top + kQuerySide + 8;
  image::DrawText(sheet, "query", y, kSheetMargin, kScoreSize, kSheetMark);
  if (!answer.words) {
    y += image::TextHeight(kScoreSize);
    image::DrawText(sheet, image::ShortenText(FileName(answer.query), kNameSize, kQuerySide), y, kSheetMargin,
                    kNameSize, kSheetMuted);
  }
  for (int64_t i = 0; i < std::ssize(answer.hits); ++i) {
    const SearchHit& hit = answer.hits[static_cast<size_t>(i)];
    const int64_t left = kSheetMargin + kQuerySide + kQueryGap + i % kHitColumns * (kHitSide + kHitGap);
    const int64_t corner = top + i / kHitColumns * (kHitSide + kCaption + kHitGap);
    DrawBoxed(sheet, pictures[static_cast<size_t>(i) + 1], corner, left, kHitSide);
    image::DrawText(sheet, fmt::format("{:.3f}", hit.score), corner + kHitSide + 5, left, kScoreSize, kSheetInk);
    image::DrawText(sheet, image::ShortenText(FileName(hit.path), kNameSize, kHitSide),
                    corner + kHitSide + 5 + image::TextHeight(kScoreSize), left, kNameSize, kSheetMuted);
  }
}

}  // namespace

io::Json ToJson(const SearchAnswer& answer) {
  io::Json json = {{"query", answer.query}, {"results", io::Json::array()}};
  for (const SearchHit& hit : answer.hits) {
    json["results"].push_back({{"score", hit.score}, {answer.of_texts ? "text" : "path", hit.path}, {"row", hit.row}});
  }
  return json;
}

image::Image SearchPicture(std::span<const SearchAnswer> answers, const image::DecodeOptions& decode) {
  int64_t height = kSheetMargin;
  for (const SearchAnswer& answer : answers) height += HeightOf(answer) + kSheetMargin;
  // Memory of the sheet, and as much for the encoder.
  RequireMemory(2.0 * 3 * kSheetWidth * static_cast<double>(height), "search: the sheet");
  image::Image sheet{Tensor<uint8_t>::Uninitialised({height, kSheetWidth, 3})};
  image::Fill(sheet, 0, 0, height, kSheetWidth, kSheetPaper);
  int64_t top = kSheetMargin;
  for (const SearchAnswer& answer : answers) {
    if (top > kSheetMargin) {
      image::Fill(sheet, top - kSheetMargin / 2, kSheetMargin, 1, kSheetWidth - 2 * kSheetMargin, kSheetLine);
    }
    DrawAnswer(sheet, answer, PicturesOf(answer, decode, kQuerySide), top);
    top += HeightOf(answer) + kSheetMargin;
  }
  return sheet;
}

std::string SearchPage(std::span<const SearchAnswer> answers, const std::string& summary,
                       const image::DecodeOptions& decode) {
  const auto title = [](const SearchAnswer& answer) {
    return answer.words ? fmt::format("“{}”", answer.query) : FileName(answer.query);
  };
  const bool one = answers.size() == 1;
  report::Page page(one ? "Nearest to " + title(answers[0]) : fmt::format("{} searches", answers.size()), summary);
  for (const SearchAnswer& answer : answers) {
    if (!one) page.Section(title(answer));
    const std::vector<image::Image> pictures = PicturesOf(answer, decode, kPageSide);
    std::vector<report::Picture> gallery;
    const auto add = [&](size_t i, report::Picture picture) {
      if (!pictures[i].pixels.empty()) picture.webp = image::EncodeWebp(pictures[i]);
      gallery.push_back(std::move(picture));
    };
    if (!answer.words) {
      add(0, {.caption = "query", .detail = FileName(answer.query), .tip = answer.query, .marked = true});
    }
    for (size_t i = 0; i < answer.hits.size(); ++i) {
      const SearchHit& hit = answer.hits[i];
      add(i + 1, {.caption = fmt::format("{:.3f}", hit.score), .detail = FileName(hit.path), .tip = hit.path});
    }
    page.Gallery(gallery);
  }
  return page.Html();
}

}  // namespace qkv::app
