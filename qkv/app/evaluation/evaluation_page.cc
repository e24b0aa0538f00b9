// The pictures and the page of qkv evaluate.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/app/evaluation/evaluation.h"
#include "qkv/app/models/model_title.h"
#include "qkv/image/draw.h"
#include "qkv/image/encode.h"
#include "qkv/report/charts.h"
#include "qkv/report/heatmap.h"
#include "qkv/report/page.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

constexpr const char* kElsewhere = "others";
// Classes whose names and numbers fit into a picture.
constexpr size_t kNamedClasses = 40, kNumberedClasses = 20;

// Shares of a class's images in whole percent, [classes, columns].
struct Confusion {
  int64_t rows = 0, columns = 0;
  std::vector<double> percent;
};

Confusion CountConfusion(const ImageEvaluation& evaluation) {
  const train::Evaluation& e = evaluation.evaluation;
  Confusion confusion{.rows = std::ssize(evaluation.labels), .columns = std::ssize(evaluation.labels) + 1};
  bool elsewhere = false;
  for (const int64_t truth : evaluation.labels) {
    const int64_t images = e.images_of(truth);
    int64_t left = images;
    const auto share = [&](int64_t count) {
      return images > 0 ? std::round(100 * static_cast<double>(count) / static_cast<double>(images)) : report::kMissing;
    };
    for (const int64_t guess : evaluation.labels) {
      confusion.percent.push_back(share(e.confusion(truth, guess)));
      left -= e.confusion(truth, guess);
    }
    confusion.percent.push_back(share(left));
    elsewhere = elsewhere || left > 0;
  }
  if (elsewhere) return confusion;
  Confusion square{confusion.rows, confusion.rows, {}};
  for (int64_t row = 0; row < square.rows; ++row) {
    const auto begin = confusion.percent.begin() + row * confusion.columns;
    square.percent.insert(square.percent.end(), begin, begin + square.columns);
  }
  return square;
}

std::string Percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string Reliability(const train::Evaluation& e) {
  report::LineChart chart{.heading = {"Reliability",
                                      "How often the model is right, over how sure it is of its first "
                                      "class, and the line on which the two are equal"},
                          .x = {.name = "confidence", .low = 0, .high = 1},
                          .y = {.name = "share that is right", .low = 0, .high = 1},
                          .width = 360,
                          .height = 300};
  report::Series measured{.name = "measured"};
  for (const train::CalibrationBin& bin : e.bins()) {
    if (bin.images == 0) continue;
    const auto n = static_cast<double>(bin.images);
    const double share = static_cast<double>(bin.right) / n, error = std::sqrt(share * (1 - share) / n);
    measured.samples.push_back(
        {bin.confidence / n, share, std::max(0.0, share - 1.96 * error), std::min(1.0, share + 1.96 * error)});
  }
  chart.series = {measured, {.name = "calibrated", .samples = {{0, 0}, {1, 1}}, .marks = false, .dashed = true}};
  return Draw(chart);
}

std::string Confidences(const train::Evaluation& e) {
  report::BarChart chart{.heading = {"How sure it is", "Images over the probability of the first class"},
                         .value_name = "images",
                         .width = 360};
  for (size_t i = 0; i < e.bins().size(); ++i) {
    const auto upper = static_cast<double>(i + 1) / train::kCalibrationBins;
    chart.groups.push_back({i % 3 == 2 ? fmt::format("{:.1f}", upper) : "",
                            {static_cast<double>(e.bins()[i].images)},
                            {report::WithCommas(e.bins()[i].images)}});
  }
  return Draw(chart);
}

}  // namespace

std::string ConfusionSvg(const ImageEvaluation& evaluation) {
  const Confusion confusion = CountConfusion(evaluation);
  report::Heatmap map{.heading = {"Confusion", "Which share of each class's images was taken for which class"},
                      .row_name = "is",
                      .column_name = "taken for",
                      .row_count = confusion.rows,
                      .column_count = confusion.columns,
                      .values = confusion.percent,
                      .low = 0,
                      .high = 100,
                      .value_name = "% of the row",
                      .numbers = evaluation.names.size() <= kNumberedClasses};
  if (evaluation.names.size() <= kNamedClasses) {
    map.rows = map.columns = evaluation.names;
    if (confusion.columns > confusion.rows) map.columns.emplace_back(kElsewhere);
  }
  return Draw(map);
}

image::Image ConfusionPicture(const ImageEvaluation& evaluation) {
  constexpr int64_t kMargin = 16, kSide = 720, kGreatestCell = 56, kLeastNamed = 14, kGap = 8;
  constexpr int64_t kLongestName = 180;
  constexpr int kTitleSize = 15, kNameSize = 12;
  constexpr image::Colour kInk = {31, 35, 40}, kMuted = {87, 96, 106}, kPaper = {255, 255, 255};
  const Confusion confusion = CountConfusion(evaluation);
  const int64_t cell = std::clamp<int64_t>(kSide / confusion.columns, 1, kGreatestCell);
  std::vector<std::string> names;
  int64_t widest = 0;
  if (cell >= kLeastNamed) {
    for (const std::string& name : evaluation.names) {
      names.push_back(image::ShortenText(name, kNameSize, kLongestName));
      widest = std::max(widest, image::TextWidth(names.back(), kNameSize));
    }
    if (confusion.columns > confusion.rows) names.emplace_back(kElsewhere);
  }
  const int64_t line = image::TextHeight(kNameSize), title = image::TextHeight(kTitleSize);
  const bool upright = widest + kGap > cell;
  const int64_t left = kMargin + (names.empty() ? 0 : widest + kGap);
  const int64_t top = kMargin + title + line + kGap + (names.empty() ? 0 : (upright ? widest : line) + kGap);
  const std::string_view heading = "Confusion",
                         axes = "rows: is, columns: taken for; dark to bright: 0 to 100 % of the row";
  const int64_t width =
      std::max(left + cell * confusion.columns, kMargin + image::TextWidth(axes, kNameSize)) + kMargin;
  image::Image picture{Tensor<uint8_t>({top + cell * confusion.rows + kMargin, width, 3})};
  image::Fill(picture, 0, 0, picture.height(), picture.width(), kPaper);
  image::DrawText(picture, heading, kMargin, kMargin, kTitleSize, kInk);
  image::DrawText(picture, axes, kMargin + title, kMargin, kNameSize, kMuted);
  for (int64_t row = 0; row < confusion.rows; ++row) {
    for (int64_t column = 0; column < confusion.columns; ++column) {
      const double percent = confusion.percent[static_cast<size_t>(row * confusion.columns + column)];
      image::Fill(picture, top + row * cell, left + column * cell, cell - (cell > 8), cell - (cell > 8),
                  image::ColourAt(image::ColourMap::kSequential, percent / 100));
    }
  }
  for (int64_t i = 0; i < std::ssize(names); ++i) {
    const std::string& name = names[static_cast<size_t>(i)];
    const int64_t across = image::TextWidth(name, kNameSize), middle = i * cell + (cell - line) / 2;
    if (i < confusion.rows) {
      image::DrawText(picture, name, top + middle, left - kGap - across, kNameSize, kInk);
    }
    if (upright) {
      image::DrawUprightText(picture, name, top - kGap, left + middle, kNameSize, kInk);
    } else {
      image::DrawText(picture, name, top - kGap - line, left + i * cell + (cell - across) / 2, kNameSize, kInk);
    }
  }
  return picture;
}

std::string EvaluationPage(const ImageEvaluation& evaluation) {
  const train::Evaluation& e = evaluation.evaluation;
  report::Page page(fmt::format("{} on labelled images", ModelTitle(evaluation.model)), evaluation.data);
  page.Section("In numbers");
  std::vector<std::pair<std::string, std::string>> facts = {
      {"Model", evaluation.model.empty() ? ModelTitle("") : evaluation.model},
      {"Top-1 accuracy", Percent(e.top1())},
      {"Images", report::WithCommas(e.images())},
      {"NLL", fmt::format("{}: mean −log of the true class's probability", report::Number(e.nll(), 4))},
      {"Calibration error", fmt::format("{}: mean gap between confidence and accuracy, {} bins",
                                        Percent(e.calibration_error()), train::kCalibrationBins)}};
  if (e.has_top5()) facts.insert(facts.begin() + 2, {"Top-5 accuracy", Percent(e.top5())});
  if (evaluation.unreadable > 0) facts.emplace_back("Unreadable", report::WithCommas(evaluation.unreadable));
  page.Facts(facts);

  page.Section("Confusion");
  page.Figure(ConfusionSvg(evaluation),
              "Each row is a class and sums to 100 %: the shares of its images by the class that the model gives. "
              "Cells off the "
              "diagonal are errors.");
  report::Table table{.columns = {{"class", report::Align::kLeft},
                                  {"images"},
                                  {"accuracy"},
                                  {"most often taken for", report::Align::kLeft},
                                  {"times"}}};
  for (const ClassScore& score : evaluation.classes) {
    table.rows.push_back(
        {score.name, report::WithCommas(score.images),
         score.images > 0 ? Percent(static_cast<double>(score.right) / static_cast<double>(score.images)) : "–",
         score.mistake, score.mistakes > 0 ? report::WithCommas(score.mistakes) : ""});
  }
  page.Add(table);

  if (!evaluation.worst.empty()) {
    page.Section("Worst mistakes");
    page.Prose(
        "The wrong answers of which the model was most certain: what it says, how certain it is, and what is true.");
    std::vector<report::Picture> gallery;
    for (const Mistake& mistake : evaluation.worst) {
      gallery.push_back({.webp = mistake.picture.pixels.empty() ? "" : image::EncodeWebp(mistake.picture),
                         .caption = fmt::format("{}, {:.1f} %", mistake.guess, 100 * mistake.confidence),
                         .detail = fmt::format("is {}, {:.2g} %", mistake.truth, 100 * mistake.true_probability),
                         .tip = mistake.path});
    }
    page.Gallery(gallery);
  }

  page.Section("Calibration");
  page.Figure(
      Reliability(e),
      "Images in bins of the first class's probability. Below the dashed line the model is overconfident. The bars "
      "are 95 % intervals of the share.");
  page.Figure(Confidences(e), "Upper ends of the bins.");
  return page.Html();
}

}  // namespace qkv::app
