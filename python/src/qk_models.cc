// The algebra of queries and keys on models, as they lie on disk.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "python/src/call.h"
#include "python/src/entry.h"
#include "python/src/images.h"
#include "python/src/objects.h"
#include "python/src/qk.h"
#include "qkv/app/inspection/inspection.h"
#include "qkv/app/models/abilities.h"
#include "qkv/app/models/any_model.h"
#include "qkv/core/file.h"
#include "qkv/lab/certify_model.h"
#include "qkv/lab/merge.h"
#include "qkv/lab/plan_model.h"
#include "qkv/lab/plan_shapes.h"
#include "qkv/lab/regauge.h"
#include "qkv/lab/split.h"
#include "qkv/lab/truncate.h"
#include "qkv/report/heatmap.h"

namespace qkv::python {
namespace {

// use(model) with the files open, without the interpreter's lock.
template <typename F>
auto WithFiles(Call& call, const app::ModelEntry& entry, F use) {
  const app::Note note = call.note();
  return call.Run([&] { return use(app::AnyModel(entry, note)); });
}

std::vector<inspect::AttentionPart> PartsOf(const app::AnyModel& files) {
  return files.facts().is_text() ? inspect::FindParts(files.texts()) : inspect::FindParts(files.sequences());
}

std::string_view Name(inspect::TokenNorm norm) {
  return norm == inspect::TokenNorm::kLayerNorm ? "layer_norm" : norm == inspect::TokenNorm::kRmsNorm ? "rms_norm" : "";
}

struct BlockWeights {
  inspect::AttentionWeights weights;
  std::optional<inspect::FoldedProjections> folded;
  lab::AttentionTraits traits;
  bool relative_bias = false;  // biases by relative position are added to the scores
};

BlockWeights ReadWeights(const app::AnyModel& files, const std::string& name, int64_t block, bool fold) {
  BlockWeights read;
  if (files.facts().is_image()) {
    Require(name.empty(), "weights: part: an image model has one, got \"{}\"", name);
    read.weights = inspect::ReadAttention(files.images(), block);
    const model::VitConfig& config = files.images().description.config;
    read.traits = lab::MakeAttentionTraits(config), read.relative_bias = config.has_relative_biases();
  } else {
    const std::vector<inspect::AttentionPart> parts = inspect::MeasuredParts(PartsOf(files));
    std::string names;
    for (const inspect::AttentionPart& part : parts) {
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", inspect::Name(part.kind));
    }
    const auto found = std::ranges::find_if(parts, [&](const inspect::AttentionPart& part) {
      return name.empty() ? parts.size() == 1 : inspect::Name(part.kind) == name;
    });
    Require(found != parts.end(), "weights: part: {} has {}, got {}", files.entry().path, names,
            name.empty() ? "none" : "\"" + name + "\"");
    read.weights = inspect::ReadAttention(*found, block);
    read.traits = lab::MakeAttentionTraits(*found), read.relative_bias = found->relative_bias();
  }
  if (fold) read.folded = inspect::FoldNorms(read.weights);
  return read;
}

nb::object ToArrayOrNone(Tensor<double> tensor) { return tensor.empty() ? nb::none() : ToArray(std::move(tensor)); }

nb::list NamesOf(const std::vector<lab::Obstruction>& obstructions) {
  nb::list names;
  for (const lab::Obstruction one : obstructions) names.append(std::string(lab::Name(one)));
  return names;
}

nb::dict Weights(const app::ModelEntry& entry, const std::string& part, int64_t block, bool fold) {
  Call call;
  BlockWeights read =
      WithFiles(call, entry, [&](const app::AnyModel& files) { return ReadWeights(files, part, block, fold); });
  inspect::AttentionWeights& w = read.weights;
  nb::dict all;
  const auto add = [&](const char* weight, const char* bias, algebra::Projection& projection) {
    all[weight] = ToArrayOrNone(std::move(projection.weight)), all[bias] = ToArrayOrNone(std::move(projection.bias));
  };
  add("w_q", "b_q", read.folded ? read.folded->query : w.query);
  add("w_k", "b_k", read.folded ? read.folded->key : w.key);
  add("w_v", "b_v", read.folded ? read.folded->value : w.value);
  add("w_o", "b_o", w.output);
  all["heads"] = w.heads;
  all["shared_keys"] = w.key_heads == 0 ? w.heads : w.key_heads;
  all["scale"] = w.scale;
  all["norm"] = std::string(Name(w.norm));
  all["gamma"] = ToArrayOrNone(std::move(w.gamma)), all["beta"] = ToArrayOrNone(std::move(w.beta));
  all["layer_scale"] = ToArrayOrNone(std::move(w.layer_scale));
  all["eps"] = w.eps;
  all["cross"] = w.source.has_value();
  all["source_norm"] = std::string(w.source ? Name(w.source->norm) : "");
  all["source_gamma"] = w.source ? ToArrayOrNone(std::move(w.source->gamma)) : nb::none();
  all["source_beta"] = w.source ? ToArrayOrNone(std::move(w.source->beta)) : nb::none();
  all["relative_bias"] = read.relative_bias;
  all["obstacles"] = NamesOf(lab::ScoreObstructions(read.traits));
  all["softmax_obstacles"] = NamesOf(lab::SoftmaxObstructions(read.traits));
  return all;
}

// The number of blocks that Inspect measures, of all parts.
int64_t CountBlocks(const app::ModelEntry& entry) {
  Call call;
  return WithFiles(call, entry, [](const app::AnyModel& files) {
    if (files.facts().is_image()) return files.images().description.config.depth;
    int64_t blocks = 0;
    for (const inspect::AttentionPart& part : PartsOf(files)) blocks += part.has_queries() ? part.config->depth : 0;
    return blocks;
  });
}

std::function<void()> OneMore(Call& call, const nb::object& progress) {
  std::function<void(int64_t)> report = call.Progress(progress);
  if (!report) return [] {};
  return [report = std::move(report)] { report(1); };
}

app::Inspection Inspect(const app::ModelEntry& entry, const nb::object& progress) {
  Call call;
  const std::function<void()> advance = OneMore(call, progress);
  return WithFiles(call, entry, [&](const app::AnyModel& files) {
    return files.facts().is_image() ? app::InspectWeights(files.images(), advance)
                                    : app::InspectWeights(entry.path, PartsOf(files), advance);
  });
}

void Save(const app::Inspection& inspection, const nb::str& file) {
  const std::filesystem::path path = PathOf(file);
  Call call;
  call.Run([&] {
    const std::string ending = path.extension().string();
    Require(ending == ".csv" || ending == ".json" || ending == ".html", "save: {}: expected .csv, .json or .html",
            path.string());
    WriteFile(path, ending == ".csv"    ? ToCsv(inspection)
                    : ending == ".json" ? ToJson(inspection).dump()
                                        : app::InspectionPage(inspection));
  });
}

// How a rewritten model is written, and who hears of it.
struct Writing {
  std::string folder, dtype;  // dtype: fp32, fp16, bf16, or empty: that of the weights that are replaced
  bool force;
  nb::object progress;

  lab::WriteOptions Options(Call& call) const {
    lab::WriteOptions options{.force = force, .advance = OneMore(call, progress)};
    if (!dtype.empty()) options.dtype = cli::StoredTypes().at(dtype);
    return options;
  }
};

// Opens the model, writes what `rewrite` makes of it, and hands its notes on.
template <typename F>
nb::object Rewrite(const char* work, const app::ModelEntry& entry, const Writing& writing, F rewrite) {
  Call call;
  const lab::WriteOptions options = writing.Options(call);
  const app::Note note = call.note();
  const io::Json written = WithFiles(call, entry, [&](const app::AnyModel& files) {
    files.Require(work, app::kReplaceMatrices);
    const lab::Written result = rewrite(files, options);
    for (const std::string& one : result.notes) app::Notify(note, one);
    return ToJson(result);
  });
  return ToPython(written);
}

nb::object MergeModel(const app::ModelEntry& entry, const Writing& writing) {
  return Rewrite("merge_model", entry, writing, [&](const app::AnyModel& files, const lab::WriteOptions& options) {
    return lab::Merge(files.images(), writing.folder, options);
  });
}

nb::object SplitModel(const app::ModelEntry& entry, int64_t width, const Writing& writing) {
  return Rewrite("split_model", entry, writing, [&](const app::AnyModel& files, const lab::WriteOptions& options) {
    return lab::Split(files.images(), width, writing.folder, options);
  });
}

nb::object RegaugeModel(const app::ModelEntry& entry, const std::string& gauge, const Writing& writing) {
  return Rewrite("regauge_model", entry, writing, [&](const app::AnyModel& files, const lab::WriteOptions& options) {
    return lab::Regauge(files.images(), algebra::ParseGauge(gauge, "regauge_model"), writing.folder, options);
  });
}

// The inputs of attention for these images.
lab::BlockTokens TokensOf(const app::AnyModel& files, const Images& images, int64_t sample) {
  constexpr int64_t kTogether = 8;
  const model::Model model = files.BuildImages();
  const app::PipelineOptions options{.note = [](const std::string& why) { throw Error(why); }};
  const Tensor<float> pixels =
      app::CollectPixels(options, app::SampleEvenly(images.list(), sample), model, "truncate_model").values;
  lab::BlockTokens tokens(files.images());
  for (int64_t first = 0; first < pixels.dim(0); first += kTogether) {
    tokens.Add(model, pixels.view().slice(0, first, std::min(pixels.dim(0), first + kTogether)));
  }
  return tokens;
}

// images: to fit the logits of; none: the weights, whatever comes in.
nb::object TruncateModel(const app::ModelEntry& entry, int64_t rank, const std::optional<nb::list>& items,
                         int64_t sample, const Writing& writing) {
  std::optional<Images> images;
  if (items) images.emplace(*items);
  return Rewrite("truncate_model", entry, writing, [&](const app::AnyModel& files, const lab::WriteOptions& options) {
    std::optional<lab::BlockTokens> tokens;
    if (images) tokens.emplace(TokensOf(files, *images, sample));
    return lab::Truncate(files.images(), writing.folder,
                         {.rank = rank, .calibration = tokens ? &*tokens : nullptr, .write = options});
  });
}

// (the parts' certificates, of each its table as text and HTML, notes)
nb::tuple Certify(const app::ModelEntry& entry, int64_t rank, const std::string& with) {
  Call call;
  const lab::ModelCertificates certified = WithFiles(call, entry, [&](const app::AnyModel& files) {
    const lab::CertifyRequest request{.rank = rank, .with = with};
    return files.facts().is_image() ? lab::CertifyModel(files.images(), request)
                                    : lab::CertifyModel(PartsOf(files), request);
  });
  nb::list certificates, tables;
  for (const lab::PartCertificates& part : certified.parts) {
    for (const lab::Certificate& one : part.certificates) certificates.append(ToPython(lab::ToJson(one, part.rank)));
    report::Table table = lab::CertificateTable(part);
    table.title = part.part;
    tables.append(nb::make_tuple(report::ToText(table), report::ToHtml(table)));
  }
  return nb::make_tuple(std::move(certificates), std::move(tables), nb::cast(certified.notes));
}

nb::tuple ToTuple(nb::object rows, const report::Table& table) {
  return nb::make_tuple(std::move(rows), report::ToText(table), report::ToHtml(table));
}

// ({the shape, its orders, the verdicts}, their table as text and as HTML). predict: in seconds on this machine.
nb::tuple PlanShape(const attention::Workload& workload, bool wide, bool predict) {
  Call call;
  const lab::ShapePlans plans = call.Run([&] {
    const attention::Workload complete = lab::Complete(workload);
    const std::optional<lab::Costs> costs =
        !predict ? std::nullopt : std::optional(wide ? lab::MeasureCosts<double>() : lab::MeasureCosts<float>());
    return wide ? lab::ListPlans<double>(complete, costs ? &*costs : nullptr)
                : lab::ListPlans<float>(complete, costs ? &*costs : nullptr);
  });
  return ToTuple(ToPython(ToJson(plans)), ToTable(plans));
}

// ({blocks, savings, verdicts}, their table likewise)
nb::tuple PlanModel(const app::ModelEntry& entry, int64_t batch) {
  Call call;
  const lab::ModelPlan plan = WithFiles(call, entry, [&](const app::AnyModel& files) {
    files.Require("plan_model", app::kReplaceMatrices);
    return lab::PlanModel(files.images(), files.facts().config.tokens(), batch);
  });
  io::Json json = {{"multiply_adds", plan.chosen},
                   {"projected_all_rows", plan.of_all_rows},
                   {"saved", plan.saved()},
                   {"merging", MergingVerdicts(plan)}};
  for (const lab::BlockPlan& blocks : plan.blocks) json["blocks"].push_back(ToJson(blocks));
  return ToTuple(ToPython(json), ToTable(plan));
}

attention::Workload WorkloadOf(int64_t width, int64_t heads, int64_t tokens, int64_t queries, int64_t head_width,
                               int64_t value_width, int64_t latent, int64_t batch, const std::string& cached,
                               const std::string& read) {
  using attention::Cached;
  return {.queries = queries,
          .keys = tokens,
          .width = width,
          .heads = heads,
          .head_width = head_width,
          .value_width = value_width,
          .batch = batch,
          .cached = cached == "latent" ? Cached::kLatent
                    : cached == "keys" ? Cached::kKeysAndValues
                                       : Cached::kTokens,
          .latent = latent,
          .read = read == "scores" ? attention::Read::kScores : attention::Read::kOutputs};
}

std::vector<std::string> Numbers(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}", i));
  return names;
}

std::string DrawHeatmap(const std::string& title, const std::string& row_name, const std::string& column_name,
                        const std::string& value_name, int64_t rows, int64_t columns,
                        const std::vector<double>& values) {
  return report::Draw(report::Heatmap{.heading = {.title = title, .description = {}},
                                      .row_name = row_name,
                                      .column_name = column_name,
                                      .rows = Numbers(rows),
                                      .columns = Numbers(columns),
                                      .row_count = rows,
                                      .column_count = columns,
                                      .values = values,
                                      .value_name = value_name,
                                      .numbers = rows * columns <= 400});
}

// Lines over 1, 2, …, on a logarithmic axis.
std::string DrawLines(const std::string& title, const std::string& x, const std::string& y,
                      const std::vector<std::string>& names, const std::vector<std::vector<double>>& lines) {
  report::LineChart chart{.heading = {.title = title, .description = {}},
                          .x = {.name = x, .ticks = {}},
                          .y = {.name = y, .log = true, .ticks = {}}};
  for (size_t i = 0; i < lines.size(); ++i) {
    report::Series series{.name = names.at(i), .samples = {}, .marks = false};
    for (size_t k = 0; k < lines[i].size(); ++k) series.samples.push_back({static_cast<double>(k + 1), lines[i][k]});
    chart.series.push_back(std::move(series));
  }
  return report::Draw(chart);
}

}  // namespace

void BindQkModels(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<app::ModelEntry>(module, "Entry").def_prop_ro("path", [](const app::ModelEntry& entry) {
    return ToPathName(entry.path);
  });
  module.def(
      "entry", [](const nb::str& path, const nb::dict& hints) { return EntryOf(PathOf(path), hints); }, "path"_a,
      "hints"_a);
  nb::class_<Writing>(module, "Writing")
      .def(
          "__init__",
          [](Writing* writing, const nb::str& folder, const std::string& dtype, bool force, nb::object progress) {
            new (writing) Writing{PathOf(folder), dtype, force, std::move(progress)};
          },
          "folder"_a, "dtype"_a, "force"_a, "progress"_a.none());
  nb::class_<app::Inspection>(module, "Inspection")
      .def_prop_ro("facts", [](const app::Inspection& inspection) { return ToPython(ToJson(inspection)); })
      .def("save", &Save, "file"_a);
  module.def("qk_weights", &Weights, "entry"_a, "part"_a, "block"_a, "fold"_a);
  module.def("qk_count_blocks", &CountBlocks, "entry"_a);
  module.def("qk_inspect", &Inspect, "entry"_a, "progress"_a.none());
  module.def("qk_merge_model", &MergeModel, "entry"_a, "writing"_a);
  module.def("qk_split_model", &SplitModel, "entry"_a, "width"_a, "writing"_a);
  module.def("qk_regauge_model", &RegaugeModel, "entry"_a, "gauge"_a, "writing"_a);
  module.def("qk_truncate_model", &TruncateModel, "entry"_a, "rank"_a, "images"_a.none(), "sample"_a, "writing"_a);
  module.def("qk_certify", &Certify, "entry"_a, "rank"_a, "traits"_a);
  nb::class_<attention::Workload>(module, "Workload");
  module.def("workload", &WorkloadOf, "width"_a, "heads"_a, "tokens"_a, "queries"_a, "head_width"_a, "value_width"_a,
             "latent"_a, "batch"_a, "cached"_a, "read"_a);
  module.def("qk_plan_shape", &PlanShape, "workload"_a, "wide"_a, "predict"_a);
  module.def("qk_plan_model", &PlanModel, "entry"_a, "batch"_a);
  module.def("draw_heatmap", &DrawHeatmap, "title"_a, "row_name"_a, "column_name"_a, "value_name"_a, "rows"_a,
             "columns"_a, "values"_a);
  module.def("draw_lines", &DrawLines, "title"_a, "x"_a, "y"_a, "names"_a, "lines"_a);
}

}  // namespace qkv::python
