// qkv qk inspect: measures the heads of a model, as a table, as data, and as a page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/inspection/inspection.h"
#include "qkv/app/inspection/inspection_texts.h"
#include "qkv/app/texts/texts.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"
#include "qkv/train/sequences/pair_texts.h"

namespace qkv::cli {
namespace {

using app::Inspection;

constexpr uint64_t kNoiseSeed = 1;

struct QkInspectOptions {
  ModelOptions model;
  ImageOptions images;
  int64_t count = 16;
  bool json = false;
  std::string report, output;
};

// Inputs of the statistics of tokens.
struct Pixels {
  Tensor<float> values;  // [B, channels, height, width]
  std::string images;    // in words
  int failed = 0;        // images that were left out
};

Pixels ReadImages(const QkInspectOptions& options, const model::Model& model) {
  const ImageList all = CollectImages(options.images.paths);
  const ImageList images = app::SampleEvenly(all, options.count);
  Pixels pixels;
  pixels.failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
    app::CollectedPixels read = app::CollectPixels(pipeline, images, model, "inspect");
    pixels.values = std::move(read.values);
    return read.failed;
  });
  Require(!pixels.values.empty(), "inspect: no image could be read");
  pixels.images = fmt::format("{} images", pixels.values.dim(0));
  if (images.files.size() < all.files.size()) pixels.images += fmt::format(" of {}", all.files.size());
  return pixels;
}

Pixels MakeImages(const QkInspectOptions& options, const model::VitConfig& c) {
  Pixels pixels;
  pixels.images = fmt::format("{} images of random noise", options.count);
  PrintMessage("qkv: no images given: tokens come from {}; content is that of noise\n", pixels.images);
  pixels.values = inspect::NoiseImages({options.count, c.channels, c.image_height, c.image_width}, kNoiseSeed);
  return pixels;
}

// Measures the heads of an image model.
Inspection MeasureImages(const QkInspectOptions& options, const app::AnyModel& opened, int* failed) {
  const model::Checkpoint& checkpoint = opened.images();
  const model::VitConfig& c = checkpoint.description.config;
  Inspection inspection;
  {
    Progress progress(c.depth, "blocks", options.images.quiet);
    inspection = app::InspectWeights(checkpoint, [&] { progress.Advance(1); });
  }
  if (options.count == 0) return inspection;
  const model::Model model = opened.BuildImages();
  const Pixels pixels =
      options.images.paths.empty() ? MakeImages(options, opened.facts().config) : ReadImages(options, model);
  *failed = pixels.failed;
  Progress progress(app::InspectionSteps(c, pixels.values.dim(0)), "images", options.images.quiet);
  app::InspectTokens(
      checkpoint, model, pixels.values, pixels.images, [&] { progress.Advance(1); }, inspection);
  return inspection;
}

bool IsFile(const std::string& text) {
  std::error_code ignored;
  return text == "-" || std::filesystem::is_regular_file(text, ignored);
}

// Texts for a text model: files with one a line, or words.
std::vector<std::string> ReadTexts(const QkInspectOptions& options, std::string* from) {
  std::vector<std::string> all, chosen;
  for (const std::string& text : options.images.paths) {
    if (IsFile(text)) {
      const std::vector<std::string> lines =
          train::IsPairs(text) ? train::ReadPairs(text).sources : app::ReadTexts(text);
      std::ranges::copy_if(lines, std::back_inserter(all), [](const std::string& line) { return !Trim(line).empty(); });
    } else {
      app::RequireWords(text, "qk inspect");
      all.push_back(text);
    }
  }
  Require(!all.empty(), "qk inspect: the files hold no text");
  const auto count = std::ssize(all), taken = std::min(count, options.count);
  for (int64_t i = 0; i < taken; ++i) chosen.push_back(all[static_cast<size_t>(i * count / taken)]);
  *from = fmt::format("{} texts", taken);
  if (taken < count) *from += fmt::format(" of {}", count);
  return chosen;
}

Inspection MeasureWeights(const QkInspectOptions& options, const std::string& source,
                          const std::vector<inspect::AttentionPart>& parts) {
  int64_t blocks = 0;
  for (const inspect::AttentionPart& part : parts) blocks += part.has_queries() ? part.config->depth : 0;
  Progress progress(blocks, "blocks", options.images.quiet);
  return app::InspectWeights(source, parts, [&] { progress.Advance(1); });
}

// Measures the heads of a text model; if texts are given, also on their tokens.
Inspection MeasureTexts(const QkInspectOptions& options, const app::AnyModel& opened) {
  options.images.RequireNone("qk inspect");
  if (options.images.paths.empty() || options.count == 0) {
    if (options.count > 0) PrintMessage("qkv: no texts given: what heads do on tokens is not shown\n");
    return MeasureWeights(options, opened.texts().source, inspect::FindParts(opened.texts()));
  }
  const app::LanguageModel model = opened.BuildLanguage();
  const std::vector<inspect::AttentionPart> all = inspect::FindParts(model.checkpoint());
  Inspection inspection = MeasureWeights(options, model.checkpoint().source, all);
  const std::vector<inspect::AttentionPart> parts = inspect::MeasuredParts(all);
  std::string from;
  const std::vector<std::string> texts = ReadTexts(options, &from);
  const std::vector<inspect::TextIds> ids = app::IdsOfTexts(model, texts, PrintNote);
  Progress progress(inspect::TextSteps(parts, ids), "texts", options.images.quiet);
  app::InspectTexts(
      model, parts, ids, from, [&] { progress.Advance(1); }, inspection);
  return inspection;
}

// Measures the heads of a sequence model that qkv trained on a task or a text.
Inspection MeasureSequences(const QkInspectOptions& options, const app::AnyModel& opened) {
  options.images.RequireNone("qk inspect");
  if (!options.images.paths.empty()) {
    Fail("qk inspect: {} is a sequence model without a tokenizer: its weights are inspected, without {}",
         options.model.path, options.images.paths.front());
  }
  return MeasureWeights(options, opened.sequences().source, inspect::FindParts(opened.sequences()));
}

Inspection Measure(const QkInspectOptions& options, const app::AnyModel& model, int* failed) {
  if (model.facts().is_text()) return MeasureTexts(options, model);
  return model.facts().is_image() ? MeasureImages(options, model, failed) : MeasureSequences(options, model);
}

// A finite number, or a dash.
std::string Shown(double value, int digits, double times = 1, const char* unit = "") {
  return std::isfinite(value) ? fmt::format("{:.{}f}{}", times * value, digits, unit) : "–";
}

// Columns of the statistics of tokens.
std::vector<std::string> TokenColumns(const Inspection& inspection) {
  std::vector<std::string> names = {"position", "content", "same", "entropy", "distance", "near"};
  if (inspection.texts) names.emplace_back("first");
  if (std::ranges::any_of(inspection.parts, &app::InspectedPart::cross)) {
    names.insert(names.end(), {"diagonal", "end"});
  }
  if (inspection.class_token) names.emplace_back("class");
  return names;
}

void AddTokenCells(const Inspection& inspection, const app::InspectedPart& part, size_t i,
                   std::vector<std::string>* row) {
  const inspect::LogitShares none{.share = {NAN, NAN, NAN, NAN}, .same = NAN};
  const inspect::LogitShares& logits = part.splits_logits() ? part.tokens->logits[i] : none;
  const inspect::HeadAttention& a = part.tokens->attention[i];
  const auto percent = [](double share) { return Shown(share, 0, 100, " %"); };
  row->insert(row->end(),
              {percent(logits.share[inspect::kPositionPosition]), percent(logits.share[inspect::kContentContent]),
               percent(logits.same), Shown(a.entropy, 2), Shown(a.distance, 2), percent(a.near)});
  if (inspection.texts) row->push_back(percent(a.first));
  if (std::ranges::any_of(inspection.parts, &app::InspectedPart::cross)) {
    row->insert(row->end(), {Shown(a.diagonal, 2), percent(a.last)});
  }
  if (inspection.class_token) row->push_back(percent(a.class_token));
}

// The few columns that fit a terminal.
void PrintTable(const Inspection& inspection) {
  report::Table table;
  if (inspection.texts) table.columns.push_back({"part", report::Align::kLeft});
  table.columns.insert(table.columns.end(),
                       {{"block"}, {"head"}, {"effective rank"}, {"for 99 %"}, {"symmetry"}, {"QK sign"}, {"OV sign"}});
  const bool gauge = std::ranges::any_of(inspection.parts, &app::InspectedPart::free_gauge);
  const bool tokens = inspection.parts.front().tokens.has_value();
  if (gauge) table.columns.push_back({"W_Q/W_K"});
  if (tokens) {
    for (const std::string& name : TokenColumns(inspection)) table.columns.push_back({name});
  }
  for (const app::InspectedPart& part : inspection.parts) {
    for (size_t i = 0; i < part.heads(); ++i) {
      const inspect::HeadWeights& head = part.weights[i];
      std::vector<std::string> row;
      if (inspection.texts) row.push_back(part.name);
      row.insert(row.end(),
                 {fmt::format("{}", part.block(i)), fmt::format("{}", part.head(i)),
                  fmt::format("{:.1f}", head.qk.effective_rank), fmt::format("{}", head.qk.energy_rank[1]),
                  Shown(head.qk.symmetry, 2), Shown(head.qk.eigenvalue_sign, 2), Shown(head.ov.eigenvalue_sign, 2)});
      if (gauge) row.push_back(part.free_gauge ? report::Number(head.query_norm / head.key_norm) : "–");
      if (tokens) AddTokenCells(inspection, part, i, &row);
      table.rows.push_back(std::move(row));
    }
  }
  PrintRaw(report::ToText(table));
}

// The files of images or texts that the command reads.
void AddInputs(const QkInspectOptions& options, bool of_texts, app::InputFiles* inputs) {
  if (options.images.paths.empty()) return;
  if (!of_texts) return inputs->Add(CollectImages(options.images.paths).files);
  std::vector<std::filesystem::path> files;
  for (const std::string& text : options.images.paths) {
    if (text != "-" && IsFile(text)) files.emplace_back(text);
  }
  inputs->Add(files);
}

int Inspect(const QkInspectOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  app::InputFiles inputs = InputsOf(options.model);
  AddInputs(options, model.facts().is_text(), &inputs);
  for (const std::string& file : {options.output, options.report}) inputs.RequireOutput(file);
  int failed = 0;
  const Inspection inspection = Measure(options, model, &failed);
  if (!options.output.empty()) WriteFile(options.output, ToCsv(inspection));
  if (!options.report.empty()) WriteFile(options.report, app::InspectionPage(inspection));
  if (options.json) {
    PrintJsonLine(ToJson(inspection));
  } else if (options.output.empty() && options.report.empty()) {
    PrintTable(inspection);
  }
  if (!options.json) {
    for (const std::string& caveat : inspection.caveats) PrintMessage("qkv: {}\n", caveat);
  }
  FlushOutput();
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterQkInspect(Command app, int* exit_code) {
  const auto options = std::make_shared<QkInspectOptions>();
  const Command command =
      app.AddCommand("inspect", "Show what each head is: rank, symmetry, position and content, reach");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  command.AddOption("PATH", &options->images.paths,
                    "Images, folders of images (read recursively), or - for stdin; for a text model files with a "
                    "text a line, -, or words");
  options->images.AddHow(command);
  options->images.AddBatch(command);
  command
      .AddOption("--images", &options->count,
                 "Images or texts to take of those given, or images of random noise to make where none are; 0: weights "
                 "alone")
      .Range(0, 4096)
      .TypeName("N")
      .ShowDefault();
  command.AddFlag("--json", &options->json, "One JSON object on stdout, spectra included");
  command.AddOption("--report", &options->report, "HTML page to write, with pictures").TypeName("FILE");
  command.AddOption("-o,--output", &options->output, "CSV file to write, a line a head").TypeName("FILE");
  command.Footer(
      "Columns of the table, a line a head:\n"
      "  part              for text models: encoder, decoder, or cross (the decoder cross-attends to the encoder)\n"
      "  effective rank    exp of the entropy of M's singular values, M = W_Q'W_K with the norm before it folded in\n"
      "  for 99 %          features that hold 99 % of M's energy\n"
      "  symmetry          1: M is symmetric, as with W_Q = W_K; -1: antisymmetric; 0: as much of one as of the other\n"
      "  QK sign           of M's eigenvalues: 1: tokens attend to similar ones; -1: to dissimilar ones\n"
      "  OV sign           of W_O W_V's: 1: what is read is copied, -1: taken away\n"
      "  W_Q/W_K           ratio of the norms\n"
      "  position,content  shares of the logits' variance; the rest is of both together. With N images about 1/N of "
      "the content counts as position\n"
      "  same              share of the logits' variance that is the same for all queries of an image: at 100 % it "
      "does not matter which token asks\n"
      "  entropy           of the attention, in nats; distance: in patches; near: to the token itself and the 8 around "
      "it; class: to the class token\n"
      "  for texts         distance: in tokens; near: to the token itself and the 2 beside it; first: to the first "
      "token; cross-attention: diagonal: 1 if it follows the source in order, 0 as uniform attention; end: to the "
      "source's last token\n"
      "A number that a head does not have is \u2013: cross-attention has no symmetry and no signs, as M's rows and "
      "columns belong to two spaces.\n\n"
      "Examples:\n"
      "  qkv qk inspect -m vit photos/                        the table\n"
      "  qkv qk inspect -m vit --report heads.html photos/    a page with pictures\n"
      "  qkv qk inspect -m vit --images 0 -o heads.csv        the weights alone\n"
      "  qkv qk inspect -m opus-mt-en-it lines.txt            a translator, on texts and its own answers to them");
  command.Callback([options, exit_code] { *exit_code = Inspect(*options); });
}

}  // namespace qkv::cli
