// qkv qk inspect: what the heads of a model are, as a table, as data, and as a page.
#include "cli/qk_inspect.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/input_files.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/io/json.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"

namespace qkv::cli {
namespace {

constexpr uint64_t kNoiseSeed = 1;

struct Options {
  ModelOptions model;
  ImageOptions images;
  int64_t count = 16;
  bool json = false;
  std::string report, output;
};

Tensor<float> ReadImages(const Options& options, const model::Model& model, Inspection& inspection, int* failed) {
  const ImageList all = CollectImages(options.images.paths);
  const ImageList images = app::Spread(all, options.count);
  Tensor<float> pixels;
  int64_t count = 0;
  *failed = ForEachBatch(options.images, images, model, Wanted::kPixels, [&](const Batch& batch) {
    const View<const float> some = batch.values;
    const Shape shape({std::ssize(images.files), some.dim(1), some.dim(2), some.dim(3)});
    if (pixels.empty()) pixels = Tensor<float>(shape);
    Require(pixels.shape() == shape, "inspect: images become tensors of different sizes, {} and {}; give --size",
            pixels.shape(), shape);
    std::copy_n(some.data(), some.size(), pixels.view().at(count));
    count += some.dim(0);
  });
  Require(count > 0, "inspect: no image could be read");
  inspection.images = fmt::format("{} images", count);
  if (images.files.size() < all.files.size()) inspection.images += fmt::format(" of {}", all.files.size());
  auto read = Tensor<float>::Uninitialised({count, pixels.dim(1), pixels.dim(2), pixels.dim(3)});
  std::copy_n(pixels.data(), read.size(), read.data());
  return read;
}

Tensor<float> MakeImages(const Options& options, const model::Model& model, Inspection& inspection) {
  const model::VitConfig c = app::AtSize(model.config(), options.model.Parse().size);
  inspection.images = fmt::format("{} images of random noise", options.count);
  PrintMessage("qkv: no images given: tokens come from {}; content is that of noise\n", inspection.images);
  return inspect::NoiseImages({options.count, c.channels, c.image_height, c.image_width}, kNoiseSeed);
}

Inspection Measure(const Options& options, int* failed) {
  if (options.model.threads > 0) SetNumThreads(options.model.threads);
  const model::Checkpoint checkpoint = OpenCheckpoint(options.model);
  Inspection inspection{.source = checkpoint.source, .config = checkpoint.description.config};
  const model::VitConfig& c = inspection.config;
  inspection.free_gauge = (c.block.attention.kind == nn::AttentionKind::kSeparate ||
                           c.block.attention.kind == nn::AttentionKind::kLowRank) &&
                          !c.block.attention.qk_norm;
  {
    Progress progress(c.depth, "blocks", options.images.quiet);
    for (int64_t block = 0; block < c.depth; ++block) {
      const auto weights = inspect::ReadAttention<double>(checkpoint, block);
      if (block == 0) {
        const int64_t width = weights.query.weight.dim(0) / weights.heads;
        inspection.parameters = inspect::CountHead(c.block.width, width, !weights.query.bias.empty());
      }
      for (inspect::HeadWeights& head : inspect::MeasureWeights(weights)) inspection.weights.push_back(std::move(head));
      progress.Advance(1);
    }
  }
  if (!inspection.free_gauge) {
    inspection.caveats.emplace_back(
        "W_Q and W_K are no two free factors here: what other factors would save is not shown.");
  }
  if (c.block.attention.qk_norm) {
    inspection.caveats.emplace_back(
        "Queries and keys are normalised: the QK circuit is that of the scores' numerator, without the norms' gains; "
        "the logits do not split into position and content.");
  }
  if (c.block.attention.output_norm) {
    inspection.caveats.emplace_back(
        "The joined heads are normalised before the projection: the OV circuit leaves it out.");
  }
  if (options.count == 0) return inspection;
  const model::Model model = LoadModel(checkpoint, options.model, {.precision = ParsePrecision(options.model.dtype)});
  const Tensor<float> pixels = options.images.paths.empty() ? MakeImages(options, model, inspection)
                                                            : ReadImages(options, model, inspection, failed);
  const bool twice = pixels.dim(0) > 1 && !c.block.attention.qk_norm;
  Progress progress(pixels.dim(0) * (1 + twice), "images", options.images.quiet);
  inspection.tokens = inspect::MeasureTokens(checkpoint, model, pixels, [&] { progress.Advance(1); });
  if (pixels.dim(0) == 1) {
    inspection.caveats.emplace_back(
        "Position and content are told apart by how images differ: one image is not enough.");
  }
  return inspection;
}

// --- Output ---------------------------------------------------------------------------------------------------------

template <double inspect::HeadAttention::*kMember>
double Attention(const Inspection& inspection, size_t head) {
  return inspection.tokens->attention[head].*kMember;
}

template <size_t kPart>
double Share(const Inspection& inspection, size_t head) {
  return inspection.tokens->logits[head].share[kPart];
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit, double inspect::Circuit::*kMember>
double Of(const Inspection& inspection, size_t head) {
  return inspection.weights[head].*kCircuit.*kMember;
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit, size_t kShare>
double EnergyRank(const Inspection& inspection, size_t head) {
  return static_cast<double>((inspection.weights[head].*kCircuit).energy_rank[kShare]);
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit>
double Rank(const Inspection& inspection, size_t head) {
  return static_cast<double>((inspection.weights[head].*kCircuit).rank);
}

template <double inspect::HeadWeights::*kMember>
double OfHead(const Inspection& inspection, size_t head) {
  return inspection.weights[head].*kMember;
}

io::Json Complex(const std::vector<std::complex<double>>& values) {
  io::Json list = io::Json::array();
  for (const std::complex<double>& z : values) list.push_back({z.real(), z.imag()});
  return list;
}

void PrintJson(const Inspection& inspection) {
  const inspect::HeadParameters& p = inspection.parameters;
  io::Json json = {{"source", inspection.source},
                   {"blocks", inspection.config.depth},
                   {"heads_a_block", inspection.config.block.attention.heads},
                   {"width", inspection.config.block.width},
                   {"head_width", inspection.config.block.attention.head_width},
                   {"parameters_a_head", nullptr},
                   {"caveats", inspection.caveats},
                   {"tokens", nullptr}};
  if (inspection.free_gauge) {
    json["parameters_a_head"] = {{"separate", p.count.separate},
                                 {"merged", p.count.merged},
                                 {"identity_block", p.count.identity_block},
                                 {"freedom", p.count.freedom},
                                 {"seen", p.seen}};
  }
  if (inspection.tokens) {
    const inspect::TokenStatistics& t = *inspection.tokens;
    json["tokens"] = {
        {"images", t.images},
        {"from", inspection.images},
        {"tokens", t.tokens},
        {"grid", {t.grid_height, t.grid_width}},
        {"uniform", {{"entropy", t.uniform.entropy}, {"distance", t.uniform.distance}, {"near", t.uniform.near}}}};
  }
  const std::vector<InspectField> fields = FieldsOf(inspection);
  io::Json heads = io::Json::array();
  for (size_t i = 0; i < inspection.heads(); ++i) {
    io::Json head = {{"block", inspection.block(i)}, {"head", inspection.head(i)}};
    for (const InspectField& field : fields) head[field.name] = field.of(inspection, i);
    const inspect::HeadWeights& weights = inspection.weights[i];
    head["qk_singular_values"] = weights.qk.singular_values, head["ov_singular_values"] = weights.ov.singular_values;
    head["qk_eigenvalues"] = Complex(weights.qk.eigenvalues), head["ov_eigenvalues"] = Complex(weights.ov.eigenvalues);
    heads.push_back(std::move(head));
  }
  json["heads"] = std::move(heads);
  PrintJsonLine(json);
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

void WriteCsv(const Inspection& inspection, const std::string& path) {
  const std::vector<InspectField> fields = FieldsOf(inspection);
  report::Table table{.columns = {{"block"}, {"head"}}};
  for (const InspectField& field : fields) table.columns.push_back({field.name});
  for (size_t i = 0; i < inspection.heads(); ++i) {
    std::vector<std::string> row = {fmt::format("{}", inspection.block(i)), fmt::format("{}", inspection.head(i))};
    for (const InspectField& field : fields) {
      const double value = field.of(inspection, i);
      row.push_back(std::isfinite(value) ? fmt::format("{}", value) : "");
    }
    table.rows.push_back(std::move(row));
  }
  WriteFile(path, report::ToCsv(table));
}

int Inspect(const Options& options) {
  app::InputFiles inputs(options.model.path);
  if (!options.images.paths.empty()) inputs.Add(CollectImages(options.images.paths).files);
  for (const std::string& file : {options.output, options.report}) inputs.RequireOutput(file);
  int failed = 0;
  const Inspection inspection = Measure(options, &failed);
  if (!options.output.empty()) WriteCsv(inspection, options.output);
  if (!options.report.empty()) WriteFile(options.report, InspectPage(inspection));
  if (options.json) {
    PrintJson(inspection);
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

std::vector<InspectField> FieldsOf(const Inspection& inspection) {
  using inspect::Circuit;
  using inspect::HeadAttention;
  using inspect::HeadWeights;
  std::vector<InspectField> fields = {{"qk_effective_rank", Of<&HeadWeights::qk, &Circuit::effective_rank>},
                                      {"qk_stable_rank", Of<&HeadWeights::qk, &Circuit::stable_rank>},
                                      {"qk_rank", Rank<&HeadWeights::qk>},
                                      {"qk_rank_90", EnergyRank<&HeadWeights::qk, 0>},
                                      {"qk_rank_99", EnergyRank<&HeadWeights::qk, 1>},
                                      {"qk_rank_99_9", EnergyRank<&HeadWeights::qk, 2>},
                                      {"qk_condition", Of<&HeadWeights::qk, &Circuit::condition>},
                                      {"qk_symmetry", Of<&HeadWeights::qk, &Circuit::symmetry>},
                                      {"qk_eigenvalue_sign", Of<&HeadWeights::qk, &Circuit::eigenvalue_sign>},
                                      {"ov_effective_rank", Of<&HeadWeights::ov, &Circuit::effective_rank>},
                                      {"ov_stable_rank", Of<&HeadWeights::ov, &Circuit::stable_rank>},
                                      {"ov_rank", Rank<&HeadWeights::ov>},
                                      {"ov_rank_90", EnergyRank<&HeadWeights::ov, 0>},
                                      {"ov_rank_99", EnergyRank<&HeadWeights::ov, 1>},
                                      {"ov_rank_99_9", EnergyRank<&HeadWeights::ov, 2>},
                                      {"ov_condition", Of<&HeadWeights::ov, &Circuit::condition>},
                                      {"ov_symmetry", Of<&HeadWeights::ov, &Circuit::symmetry>},
                                      {"ov_eigenvalue_sign", Of<&HeadWeights::ov, &Circuit::eigenvalue_sign>}};
  if (inspection.free_gauge) {
    fields.insert(fields.end(), {{"query_norm", OfHead<&HeadWeights::query_norm>},
                                 {"key_norm", OfHead<&HeadWeights::key_norm>},
                                 {"gauge_excess", OfHead<&HeadWeights::gauge_excess>},
                                 {"key_bias_norm", OfHead<&HeadWeights::key_bias_norm>}});
  }
  if (!inspection.tokens) return fields;
  fields.insert(fields.end(), {{"entropy", Attention<&HeadAttention::entropy>},
                               {"distance", Attention<&HeadAttention::distance>},
                               {"near", Attention<&HeadAttention::near>},
                               {"self", Attention<&HeadAttention::self>},
                               {"class_token", Attention<&HeadAttention::class_token>},
                               {"registers", Attention<&HeadAttention::registers>}});
  if (inspection.tokens->logits.empty()) return fields;
  fields.insert(fields.end(),
                {{"position_position", Share<inspect::kPositionPosition>},
                 {"position_content", Share<inspect::kPositionContent>},
                 {"content_position", Share<inspect::kContentPosition>},
                 {"content_content", Share<inspect::kContentContent>},
                 {"same_for_all_queries", [](const Inspection& i, size_t head) { return i.tokens->logits[head].same; }},
                 {"overlap", [](const Inspection& i, size_t head) { return i.tokens->logits[head].overlap; }},
                 {"key_bias_share", [](const Inspection& i, size_t head) { return i.tokens->logits[head].key_bias; }}});
  return fields;
}

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
      "  symmetry         1: two tokens think alike of each other; -1: the opposite; about 0: neither\n"
      "  QK sign          of M's eigenvalues: 1: tokens look for their like, -1: they avoid it\n"
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
