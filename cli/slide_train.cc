// qkv slide train: models over the tiles of slides, by cross-validation.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/train_progress.h"
#include "qkv/app/slides/slide_cohort.h"
#include "qkv/app/training/curves.h"
#include "qkv/core/file.h"
#include "qkv/mil/training.h"
#include "qkv/train/run/log.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct SlideTrainOptions {
  std::string features, labels, output;
  std::string kind = "abmil", attention = "separate", positions = "rotary", pool = "attention";
  int64_t width = 0, heads = 4, mlp_width = 0, depth = 2, rank = 0;
  mil::MilOptions mil;
  bool no_class_weights = false, resume = false, quiet = false;
};

// Defaults of each architecture: CLAM's small one, and a Transformer that trains on a few hundred slides.
mil::MilOptions Resolve(const SlideTrainOptions& o) {
  mil::MilOptions options = o.mil;
  options.class_weights = !o.no_class_weights;
  mil::MilConfig& model = options.model;
  model.block.width = o.width > 0 ? o.width : o.kind == "abmil" ? 512 : 256;
  if (o.kind == "abmil") return options;
  model.architecture = mil::Architecture::kTransformer;
  Require(model.width() % o.heads == 0, "slide train: --width {} is no multiple of --heads {}", model.width(), o.heads);
  nn::AttentionConfig& attention = model.block.attention;
  attention.kind = model::FindAttentionKind(o.attention).value();
  attention.heads = o.heads, attention.head_width = model.width() / o.heads;
  const bool ranked = attention.kind == nn::AttentionKind::kLowRank || attention.kind == nn::AttentionKind::kSymmetric;
  Require(ranked || o.rank == 0, "slide train: --attention {} has no --rank", o.attention);
  if (ranked) attention.qk_width = o.rank > 0 ? o.rank : attention.head_width / 2;
  model.block.mlp.width = o.mlp_width > 0 ? o.mlp_width : 2 * model.width();
  model.depth = o.depth;
  // Merged attention has no query and key that could turn.
  const bool turns = nn::AllowsRotary(attention.kind);
  model.positions = o.positions == "none"              ? mil::TilePositions::kNone
                    : o.positions == "sines" || !turns ? mil::TilePositions::kSines
                                                       : mil::TilePositions::kRotary;
  model.pool = o.pool == "token" ? mil::BagPool::kToken : mil::BagPool::kGated;
  return options;
}

mil::MilObserver Observe(const SlideTrainOptions& options) {
  mil::MilObserver observer;
  observer.stop = [] { return StopSignal() != 0; };
  if (options.quiet) return observer;
  observer.note = [](const std::string& note) { PrintNote(note); };
  observer.evaluation = [](int64_t fold, int64_t folds, const train::EvaluationReport& report) {
    std::string more;
    for (const auto& [name, value] : report.more) more += fmt::format(", {} {:.3f}", name, value);
    PrintMessage("fold {}/{}, epoch {}: loss {:.4f}, validation {:.4f}{}{}\n", fold + 1, folds, report.epoch,
                 report.train_loss, report.loss, more, report.best ? " *" : "");
  };
  return observer;
}

std::string Show(const mil::Interval& interval) {
  if (std::isnan(interval.value)) return "not defined";
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", interval.value, interval.low, interval.high);
}

int SlideTrain(const SlideTrainOptions& options) {
  StopOnSignals(!options.quiet);
  const mil::Cohort cohort = app::OpenCohort(options.features, options.labels);
  const mil::MilResult result = mil::Train(cohort, Resolve(options), options.output, options.resume, Observe(options));
  const fs::path folder = options.output;
  if (result.stopped) {
    PrintMessage("stopped and saved; to continue: qkv slide train {} {} -o {} --resume, with the same options\n",
                 Quoted(options.features), Quoted(options.labels), Quoted(options.output));
    return 128 + StopSignal();
  }
  for (size_t fold = 0; fold < result.folds.size(); ++fold) {
    const fs::path of = folder / fmt::format("fold-{}", fold);
    WriteFile(of / "curves.svg", app::DrawCurves(train::ReadLog(of / "log.jsonl"), fmt::format("fold {}", fold)));
  }
  const mil::Metrics& m = result.metrics;
  Print("{} slides of {} patients, each tested by a model that has not seen its patient\n", m.slides, m.patients);
  Print("AUC                {}\naccuracy           {}\nbalanced accuracy  {}\n", Show(m.auc), Show(m.accuracy),
        Show(m.balanced_accuracy));
  PrintMessage("{}: results.json, predictions.csv; qkv slide run SLIDE -m ENCODER --head {} -o maps\n", options.output,
               Quoted(options.output));
  return 0;
}

void AddModelOptions(const Command& command, const std::shared_ptr<SlideTrainOptions>& o) {
  constexpr std::string_view kGroup = "Model";
  command.AddOption("--kind", &o->kind, "abmil: gated attention alone, as CLAM's; transformer: tiles attend to tiles")
      .OneOf({"abmil", "transformer"})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--width", &o->width, "Features of a tile within the model (default: 512, transformer 256)")
      .Range(int64_t{4}, int64_t{8192})
      .Group(kGroup);
  command.AddOption("--gate-width", &o->mil.model.gate_width, "Features of the gated attention")
      .Range(int64_t{1}, int64_t{8192})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--attention", &o->attention, "Kind of attention between tiles (docs/kinds.md)")
      .OneOf({"separate", "shared", "unified", "shared_kv", "merged", "low_rank", "symmetric", "differential"})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--rank", &o->rank, "Width of a head's queries and keys, of low_rank and symmetric (default: half)")
      .Range(int64_t{1}, int64_t{4096})
      .Group(kGroup);
  command.AddOption("--depth", &o->depth, "Blocks of attention")
      .Range(int64_t{1}, int64_t{64})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--heads", &o->heads, "Heads of a block")
      .Range(int64_t{1}, int64_t{256})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--mlp-width", &o->mlp_width, "Hidden features of a block's MLP (default: twice --width)")
      .Range(int64_t{1}, int64_t{65536})
      .Group(kGroup);
  command.AddOption("--positions", &o->positions, "Of tiles by row and column; merged has sines in place of rotary")
      .OneOf({"rotary", "sines", "none"})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--pool", &o->pool, "From tiles to a slide: gated attention, or a class token")
      .OneOf({"attention", "token"})
      .ShowDefault()
      .Group(kGroup);
}

void AddTrainingOptions(const Command& command, const std::shared_ptr<SlideTrainOptions>& o) {
  constexpr std::string_view kGroup = "Training";
  mil::MilOptions& m = o->mil;
  command.AddOption("--folds", &m.folds, "Parts of cross-validation, unless the table has a split")
      .Range(int64_t{3}, int64_t{100})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--epochs", &m.epochs, "Passes over the training slides")
      .Range(int64_t{1}, int64_t{100000})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--patience", &m.patience, "Epochs without a smaller validation loss that end a fold; 0: none do")
      .Range(int64_t{0}, int64_t{100000})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--lr", &m.learning_rate, "Greatest learning rate").Range(1e-8, 1.0).ShowDefault().Group(kGroup);
  command.AddOption("--weight-decay", &m.weight_decay, "Decay of weights (AdamW)")
      .Range(0.0, 1.0)
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--dropout", &m.dropout, "Rate of dropout").Range(0.0, 0.9).ShowDefault().Group(kGroup);
  command.AddOption("--accumulate", &m.accumulate, "Slides a step")
      .Range(int64_t{1}, int64_t{1024})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--max-tiles", &m.max_tiles, "Tiles of a slide in training, drawn anew each epoch (default: all)")
      .Range(int64_t{1}, int64_t{10000000})
      .Group(kGroup);
  command.AddFlag("--no-class-weights", &o->no_class_weights, "All slides count alike, however rare their class")
      .Group(kGroup);
  command.AddOption("--seed", &m.seed, "Seed of folds, weights, order and dropout")
      .Range(int64_t{0}, int64_t{1000000000})
      .ShowDefault()
      .Group(kGroup);
  command.AddOption("--threads", &m.threads, "Threads (default: all cores)")
      .Range(int64_t{1}, int64_t{1024})
      .Group(kGroup);
}

}  // namespace

void RegisterSlideTrain(Command app, int* exit_code) {
  const auto options = std::make_shared<SlideTrainOptions>();
  const Command command = app.AddCommand("train", "Train a model over the tiles of slides by cross-validation");
  command.AddOption("FEATURES", &options->features, "Folder with NAME.h5 of each slide, as qkv slide embed writes it")
      .Required();
  command
      .AddOption("LABELS", &options->labels,
                 "CSV with the columns slide and label, and if known patient and split (train, val, test)")
      .Required();
  command.AddOption("-o,--output", &options->output, "Folder of the run").TypeName("FOLDER").Required();
  command.AddFlag("--resume", &options->resume, "Go on with the run in that folder");
  AddQuiet(command, &options->quiet);
  AddMaxMemory(command);
  AddModelOptions(command, options);
  AddTrainingOptions(command, options);
  command.Footer(
      "Examples:\n"
      "  qkv slide train results/20x_256px_0px_overlap/features_UNI2-h labels.csv -o run\n"
      "  qkv slide train features/ labels.csv -o run --kind transformer --attention shared --max-tiles 4096");
  command.Callback([options, exit_code] { *exit_code = SlideTrain(*options); });
}

}  // namespace qkv::cli
