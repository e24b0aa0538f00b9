// qkv ablate: the same training for each kind of attention and seed, and a report of what differs.
#include <memory>
#include <string>

#include "cli/ablate_runs.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/train_keys.h"
#include "cli/train_progress.h"
#include "qkv/lab/ablation_report.h"
#include "qkv/lab/comparison.h"

namespace qkv::cli {
namespace {

struct AblateOptions {
  lab::ComparisonRequest request;
  std::string output, file;
  int64_t processes = 1;
  bool quiet = false;
  train::Settings settings;  // of the command line
};

int Ablate(const AblateOptions& options) {
  lab::ComparisonRequest request = options.request;
  request.folder = options.output;
  request.settings = CollectSettings(options.file, options.settings);
  request.command = CommandLine();
  request.forks = options.processes > 1;
  lab::Comparison comparison(request, [](const std::string& note) { PrintMessage("qkv: {}\n", note); });
  StopOnSignals();
  const RunQueue queue{.runs = comparison.runs(),
                       .quiet = options.quiet,
                       .ended = [&] { comparison.Report(); },
                       .processes = options.processes};
  if (options.processes > 1) {
    TrainInProcesses(queue);
  } else {
    TrainRuns(queue);
  }
  if (StopSignal() != 0) {
    PrintMessage("qkv: stopped; the same command goes on from there\n");
    return 128 + StopSignal();
  }
  ExitOnSignals();  // nothing is left to save
  comparison.ReportSpeeds();
  PrintRaw(lab::ToText(comparison.results()));
  FlushOutput();
  PrintMessage("qkv: {}\n", (comparison.folder() / "report.html").string());
  const size_t missing = comparison.runs().size() - comparison.results().runs.size();
  if (missing == 0) return 0;
  PrintMessage("qkv: {} of {} runs are missing; the same command trains them\n", missing, comparison.runs().size());
  return 1;
}

}  // namespace

void RegisterAblate(Command app, int* exit_code) {
  const auto options = std::make_shared<AblateOptions>();
  const Command command =
      app.AddCommand("ablate", "Train each kind of attention in the same way and compare the results");
  command
      .AddOption("DATA", &options->request.data,
                 "Images: folders with train/CLASS/… (and val/ or test/), or CLASS/…; CIFAR-10 or -100; MNIST; CSV "
                 "files. Or sequences: task:copy|reverse|sort|swap|next-token|recall; text files. Or pairs of texts: "
                 ".tsv files with a source and a target a line")
      .Required();
  command.AddOption("-o,--output", &options->output, "Folder of the comparison: its runs and its report")
      .Required()
      .TypeName("FOLDER");
  command
      .AddOption("--arms", &options->request.arms,
                 "Kinds of attention, each perhaps with keys: low_rank:rank=8, separate:qkv-bias=false. Differences "
                 "are to the first")
      .TypeName("ARM,…")
      .Separated(',')  // the next argument may be data
      .ShowDefault();
  command.AddOption("--seeds", &options->request.seeds, "Runs of each arm, with seeds 0, 1, …")
      .Range(1, 1000)
      .TypeName("N")
      .ShowDefault();
  command
      .AddOption("--equal", &options->request.equal,
                 "What all arms have alike: steps; parameters too, by the MLP's width; or multiply-adds, by steps")
      .OneOf(lab::Budgets())
      .TypeName("steps|parameters|flops")
      .ShowDefault();
  command
      .AddOption(
          "--vary", &options->request.varied,
          "For pairs: which attention the arms change: the layers' own attention, the decoder's attention to the "
          "encoder (default), or both")
      .OneOf(lab::Varieds())
      .TypeName("attention|cross-attention|both");
  command.AddOption("--processes", &options->processes, "That share the runs, and the cores")
      .Range(1, 1024)
      .TypeName("N")
      .ShowDefault();
  command.AddOption("--config", &options->file, "YAML or JSON file of the keys that follow, which win over it")
      .TypeName("FILE");
  command.AddFlag("-q,--quiet", &options->quiet, "No progress line");
  AddTrainKeys(command, &options->settings, lab::NotShared());
  command.Footer(
      "Runs that have ended are not trained again: the same command goes on where it was stopped, and with more\n"
      "--seeds, --arms or DATA it adds to the comparison. FOLDER gets report.html, report.md, accuracy-DATA.svg,\n"
      "arms.csv, runs.csv and results.json (for `qkv qk claims --ablation`).\n\n"
      "Examples:\n"
      "  qkv ablate cifar-10-binary.tar.gz -o kinds --patch-size 8 --epochs 10\n"
      "  qkv ablate photos -o init --arms separate,separate:init=mimetic --seeds 5\n"
      "  qkv ablate photos -o rank --arms separate,low_rank:rank=4,low_rank:rank=16 --equal parameters\n"
      "  qkv ablate task:copy task:reverse task:recall -o tasks --seeds 5 --threads 1 --processes 2\n"
      "  qkv ablate pairs.tsv -o cross                which kinds cross-attention can bear");
  command.Callback([options, exit_code] { *exit_code = Ablate(*options); });
}

}  // namespace qkv::cli
