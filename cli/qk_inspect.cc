// qkv qk inspect: what the heads of a model are, as a table, as data, and as a page.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/inspection.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"

namespace qkv::cli {
namespace {

using app::Inspection;

constexpr uint64_t kNoiseSeed = 1;

struct Options {
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

Pixels ReadImages(const Options& options, const model::Model& model) {
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

Pixels MakeImages(const Options& options, const model::Checkpoint& checkpoint) {
  const model::VitConfig c = app::WithImageSize(model::InputConfig(checkpoint.description), options.model.Parse().size);
  Pixels pixels;
  pixels.images = fmt::format("{} images of random noise", options.count);
  PrintMessage("qkv: no images given: tokens come from {}; content is that of noise\n", pixels.images);
  pixels.values = inspect::NoiseImages({options.count, c.channels, c.image_height, c.image_width}, kNoiseSeed);
  return pixels;
}

Inspection Measure(const Options& options, int* failed) {
  if (options.model.threads > 0) SetNumThreads(options.model.threads);
  const model::Checkpoint checkpoint = OpenCheckpoint(options.model);
  const model::VitConfig& c = checkpoint.description.config;
  Inspection inspection;
  {
    Progress progress(c.depth, "blocks", options.images.quiet);
    inspection = app::InspectWeights(checkpoint, [&] { progress.Advance(1); });
  }
  if (options.count == 0) return inspection;
  const model::Model model = LoadModel(checkpoint, options.model, {.precision = ParsePrecision(options.model.dtype)});
  const Pixels pixels = options.images.paths.empty() ? MakeImages(options, checkpoint) : ReadImages(options, model);
  *failed = pixels.failed;
  Progress progress(app::InspectionSteps(c, pixels.values.dim(0)), "images", options.images.quiet);
  app::InspectTokens(
      checkpoint, model, pixels.values, pixels.images, [&] { progress.Advance(1); }, inspection);
  return inspection;
}

// The few columns that fit a terminal.
void PrintTable(const Inspection& inspection) {
  report::Table table{
      .columns = {{"block"}, {"head"}, {"effective rank"}, {"for 99 %"}, {"symmetry"}, {"QK sign"}, {"OV sign"}}};
  if (inspection.free_gauge) table.columns.push_back({"W_Q/W_K"});
  if (inspection.tokens) {
    for (const char* name : {"position", "content", "same", "entropy", "distance", "near"})
      table.columns.push_back({name});
    if (inspection.config.class_token) table.columns.push_back({"class"});
  }
  for (size_t i = 0; i < inspection.heads(); ++i) {
    const inspect::HeadWeights& head = inspection.weights[i];
    std::vector<std::string> row = {
        fmt::format("{}", inspection.block(i)),        fmt::format("{}", inspection.head(i)),
        fmt::format("{:.1f}", head.qk.effective_rank), fmt::format("{}", head.qk.energy_rank[1]),
        fmt::format("{:.2f}", head.qk.symmetry),       fmt::format("{:.2f}", head.qk.eigenvalue_sign),
        fmt::format("{:.2f}", head.ov.eigenvalue_sign)};
    if (inspection.free_gauge) row.push_back(report::Number(head.query_norm / head.key_norm));
    if (inspection.tokens) {
      const inspect::TokenStatistics& t = *inspection.tokens;
      const auto share = [&](auto of) {
        return t.logits.empty() ? std::string("–") : fmt::format("{:.0f} %", 100 * of(t.logits[i]));
      };
      const auto part = [&](inspect::LogitPart which) {
        return share([which](const inspect::LogitShares& logits) { return logits.share[which]; });
      };
      const auto number = [](double value, const char* unit, double times, int digits) {
        return std::isfinite(value) ? fmt::format("{:.{}f}{}", times * value, digits, unit) : std::string("–");
      };
      const inspect::HeadAttention& a = t.attention[i];
      row.insert(row.end(), {part(inspect::kPositionPosition), part(inspect::kContentContent),
                             share([](const inspect::LogitShares& logits) { return logits.same; }),
                             number(a.entropy, "", 1, 2), number(a.distance, "", 1, 2), number(a.near, " %", 100, 0)});
      if (inspection.config.class_token) row.push_back(number(a.class_token, " %", 100, 0));
    }
    table.rows.push_back(std::move(row));
  }
  PrintRaw(report::ToText(table));
}

int Inspect(const Options& options) {
  app::InputFiles inputs = InputsOf(options.model);
  if (!options.images.paths.empty()) inputs.Add(CollectImages(options.images.paths).files);
  for (const std::string& file : {options.output, options.report}) inputs.RequireOutput(file);
  int failed = 0;
  const Inspection inspection = Measure(options, &failed);
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
  const auto options = std::make_shared<Options>();
  const Command command =
      app.AddCommand("inspect", "Show what each head is: rank, symmetry, position and content, reach");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddTo(command, /*required=*/false);
  command
      .AddOption("--images", &options->count,
                 "Images to take of those given, or of random noise to make where none are; 0: weights alone")
      .Range(0, 4096)
      .TypeName("N")
      .ShowDefault();
  command.AddFlag("--json", &options->json, "One JSON object on stdout, spectra included");
  command.AddOption("--report", &options->report, "HTML page to write, with pictures").TypeName("FILE");
  command.AddOption("-o,--output", &options->output, "CSV file to write, a line a head").TypeName("FILE");
  command.Footer(
      "Columns of the table, a line a head:\n"
      "  effective rank   exp of the entropy of M's singular values, M = W_Q'W_K after LayerNorm\n"
      "  for 99 %         features that hold 99 % of M's energy\n"
      "  symmetry         1: M is symmetric, as with W_Q = W_K; -1: antisymmetric; 0: as much of one as of the other\n"
      "  QK sign          of M's eigenvalues: 1: tokens attend to similar ones; -1: to dissimilar ones\n"
      "  OV sign          of W_O W_V's: 1: what is read is copied, -1: taken away\n"
      "  W_Q/W_K          ratio of the norms\n"
      "  position,content shares of the logits' variance; the rest is of both together. With N images about 1/N of\n"
      "                   the content counts as position\n"
      "  same             share of the logits' variance that is the same for all queries of an image: at 100 % it "
      "does\n"
      "                   not matter which token asks\n"
      "  entropy          of the attention, in nats; distance: in patches; near: to the token itself and the 8 around "
      "it;\n"
      "                   class: to the class token\n\n"
      "Examples:\n"
      "  qkv qk inspect -m vit photos/                        the table\n"
      "  qkv qk inspect -m vit --report heads.html photos/    a page with pictures\n"
      "  qkv qk inspect -m vit --images 0 -o heads.csv        the weights alone");
  command.Callback([options, exit_code] { *exit_code = Inspect(*options); });
}

}  // namespace qkv::cli
