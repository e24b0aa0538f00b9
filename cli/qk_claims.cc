// qkv qk claims: replays the claims of three texts about queries, keys and values on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/open/hub.h"
#include "qkv/app/open/shipped.h"
#include "qkv/builtin/ablations.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/claims/page.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/simd/isa.h"

namespace qkv::cli {
namespace {

struct QkClaimsOptions {
  ModelOptions model;
  std::vector<std::string> paths;
  std::vector<std::string> ablations;
  std::string only, report, translator, pairs;
  int64_t lines = 0;  // 0: kLines, or fewer with `quick`
  uint64_t seed = 1;
  bool quick = false, json = false, verbose = false, quiet = false;
};

constexpr int64_t kLines = 40, kQuickLines = 12;

std::string TranslatorOf(const QkClaimsOptions& options) {
  if (!options.translator.empty()) return app::FindModel(options.translator).string();
  // A copy of the program alone has no such models.
  try {
    return app::FindShippedModel(app::kTranslator).string();
  } catch (const Error&) {
    return "";
  }
}

// "C4,C9", or empty for all of them.
std::vector<std::string> ParseClaims(const std::string& text) {
  std::vector<std::string> ids;
  const auto all = lab::ClaimIds();
  if (text.empty()) return {all.begin(), all.end()};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string id = text.substr(begin, end - begin);
    if (!id.empty() && id[0] == 'c') id[0] = 'C';
    Require(std::ranges::find(all, id) != all.end(),
            "--only: expected numbers of claims such as C4,C9 (there are C1 to C22), got \"{}\"", id);
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    begin = end + 1;
  }
  return ids;
}

// The results in the files, or those inside the binary.
std::vector<lab::AblationResults> ReadAblations(const QkClaimsOptions& options) {
  std::vector<lab::AblationResults> all;
  for (const std::string& file : options.ablations) {
    all.push_back(lab::AblationResults::FromJson(ReadFile(file), file));
  }
  if (!all.empty()) return all;
  for (const builtin::StoredAblation& stored : builtin::Ablations()) {
    all.push_back(lab::AblationResults::FromJson(stored.text, stored.name));
  }
  return all;
}

int Claims(const QkClaimsOptions& options) {
  const std::vector<std::string> ids = ParseClaims(options.only);
  const std::vector<lab::AblationResults> ablations = ReadAblations(options);
  const app::AnyModel model = OpenModel(options.model);
  model.Require("qk claims", app::kReplaceMatrices);
  const model::Checkpoint& checkpoint = model.images();
  std::vector<std::filesystem::path> files;
  app::InputFiles inputs = InputsOf(options.model);
  for (const std::string& file : options.ablations) inputs.Add(file);
  const std::string translator = TranslatorOf(options);
  Require(options.pairs.empty() || !translator.empty(), "claims: --pairs are for a translator, --translator MODEL");
  app::InputFiles of_translator(translator);
  if (!translator.empty()) {
    of_translator.Add(options.pairs.empty() ? translator + "/test.tsv" : options.pairs);
  }
  of_translator.RequireOutput(options.report);
  if (!options.paths.empty()) {
    files = CollectImages(options.paths).files;
    inputs.Add(files);
  }
  inputs.RequireOutput(options.report);
  std::vector<image::Image> images;
  int unreadable = 0;
  for (const auto& file : files) {
    try {
      images.push_back(image::DecodeFile(file));
    } catch (const Error& error) {
      PrintNote(error.what());
      ++unreadable;
    }
  }
  Require(files.empty() || !images.empty(), "claims: none of {} images could be read", files.size());
  Progress progress(static_cast<int64_t>(ids.size()), "claims", options.quiet);
  const auto show = [&](const lab::Result& result) {
    progress.Clear();
    if (options.json) {
      PrintJsonLine(lab::ToJson(result));
    } else if (options.verbose) {
      PrintRaw(lab::ToText(result));
    }
    FlushOutput();
    progress.Advance(1);
  };
  const std::vector<lab::Result> results = lab::ReplayClaims({.checkpoint = &checkpoint,
                                                              .images = images,
                                                              .seed = options.seed,
                                                              .quick = options.quick,
                                                              .ablations = ablations,
                                                              .translator = translator,
                                                              .pairs = options.pairs,
                                                              .lines = options.lines > 0 ? options.lines
                                                                       : options.quick   ? kQuickLines
                                                                                         : kLines},
                                                             ids, show);
  progress.Clear();
  if (!options.json) {
    PrintRaw(lab::Summary(results));
    if (!options.verbose) {
      Print("--verbose prints each claim with its measurements, --report FILE.html writes them as a page\n");
    }
  }
  FlushOutput();
  if (!options.report.empty()) {
    const std::string machine = fmt::format("{} threads, {} kernels", NumThreads(), simd::Name(simd::ActiveIsa()));
    WriteFile(options.report, lab::ToPage(results, checkpoint.source, machine));
  }
  int wrong = 0;
  for (const lab::Result& result : results) {
    for (const lab::Check& check : result.checks) {
      if (check.holds()) continue;
      ++wrong;
      PrintMessage("qkv: {}: {}: expected {}, got {}\n", result.id, check.what, lab::Predicted(check),
                   lab::Measured(check));
    }
  }
  return wrong + unreadable > 0 ? 1 : 0;
}

}  // namespace

void RegisterQkClaims(Command app, int* exit_code) {
  const auto options = std::make_shared<QkClaimsOptions>();
  const Command command =
      app.AddCommand("claims", "Replay what is said of separate queries and keys, and say what of it is true");
  options->model.AddModel(command);
  command.AddOption("--only", &options->only, "Claims to replay (default: all)").TypeName("C4,C9");
  command.AddOption("--seed", &options->seed, "Of the random inputs").ShowDefault();
  command.AddFlag("--quick", &options->quick, "Smaller sizes where a claim is about time");
  command
      .AddOption("--ablation", &options->ablations,
                 "results.json of `qkv ablate`, for C6, C11 and C19; may be given again (default: those stored in the "
                 "program)")
      .TypeName("FILE")
      .Repeatable();
  command
      .AddOption("--translator", &options->translator,
                 "Encoder-decoder for C20 to C22 (default: english-italian, which comes with qkv)")
      .TypeName("MODEL");
  command.AddOption("--pairs", &options->pairs, "Its pairs of texts (default: test.tsv in its folder)")
      .TypeName("FILE");
  command.AddOption("--lines", &options->lines, "Of these, the first N that are short enough (default: 40)")
      .Range(2, 1000000)
      .TypeName("N");
  const Option json = command.AddFlag("--json", &options->json, "One JSON object for each claim on stdout");
  command.AddFlag("--verbose", &options->verbose, "Each claim with all its measurements, before the summary")
      .Excludes(json);
  command.AddOption("--report", &options->report, "Write one HTML page with pictures").TypeName("FILE");
  command.AddOption("--threads", &options->model.threads, "Threads (default: all cores)").Range(1, 1024).TypeName("N");
  AddQuiet(command, &options->quiet);
  command.AddOption("PATH", &options->paths, "Images for the trained model (default: drawn digits)").TypeName("PATH");
  command.Footer(
      "Examples:\n"
      "  qkv qk claims                                  all, on random weights and on the digits' model\n"
      "  qkv qk claims --only C4,C9 --report claims.html   two of them, with pictures\n"
      "  qkv qk claims --only C6,C11 --ablation kinds/results.json   by trainings of your own\n"
      "  qkv qk claims -m vit photos/                   on the heads of another model and its own images");
  command.Callback([options, exit_code] { *exit_code = Claims(*options); });
}

}  // namespace qkv::cli
