// What all subcommands share: registration, and the options that choose a model. Printing is in cli/output.h.
// Exit codes are 0, 1 (failed, even in part) and 2 (usage).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "qkv/app/models/abilities.h"
#include "qkv/app/models/any_model.h"
#include "qkv/app/open/hub.h"
#include "qkv/app/open/input_files.h"

namespace qkv::cli {

/// Adds a subcommand to the program. Its callback sets *exit_code.
using Register = void (*)(Command app, int* exit_code);
void RegisterAblate(Command app, int* exit_code);
void RegisterAttend(Command app, int* exit_code);
void RegisterBench(Command app, int* exit_code);
void RegisterCaption(Command app, int* exit_code);
void RegisterClassify(Command app, int* exit_code);
void RegisterConvert(Command app, int* exit_code);
void RegisterDetect(Command app, int* exit_code);
void RegisterEmbed(Command app, int* exit_code);
void RegisterEvaluate(Command app, int* exit_code);
void RegisterExplore(Command app, int* exit_code);
void RegisterGenerate(Command app, int* exit_code);
void RegisterInfo(Command app, int* exit_code);
void RegisterQk(Command app, int* exit_code);
void RegisterRun(Command app, int* exit_code);
void RegisterSegment(Command app, int* exit_code);
void RegisterSearch(Command app, int* exit_code);
void RegisterServe(Command app, int* exit_code);
void RegisterSlide(Command app, int* exit_code);
void RegisterTokenize(Command app, int* exit_code);
void RegisterSummarize(Command app, int* exit_code);
void RegisterTrain(Command app, int* exit_code);
void RegisterTranslate(Command app, int* exit_code);
void RegisterVerify(Command app, int* exit_code);

// The commands of `qkv qk`.
void RegisterQkCertify(Command app, int* exit_code);
void RegisterQkClaims(Command app, int* exit_code);
void RegisterQkInspect(Command app, int* exit_code);
void RegisterQkMerge(Command app, int* exit_code);
void RegisterQkPlan(Command app, int* exit_code);
void RegisterQkRegauge(Command app, int* exit_code);
void RegisterQkSplit(Command app, int* exit_code);
void RegisterQkTruncate(Command app, int* exit_code);

// The commands of `qkv slide`.
void RegisterSlideEmbed(Command app, int* exit_code);
void RegisterSlideHeatmap(Command app, int* exit_code);
void RegisterSlideInfo(Command app, int* exit_code);
void RegisterSlideRun(Command app, int* exit_code);
void RegisterSlideSummary(Command app, int* exit_code);
void RegisterSlideTile(Command app, int* exit_code);
void RegisterSlideTrain(Command app, int* exit_code);

/// The heading in --help of options that say how images are read.
inline constexpr std::string_view kImagesGroup = "Images";

/// What the user says about a model, with the options that say it.
struct ModelOptions : app::ModelEntry {
  bool has_dtype = false;  // --dtype was given
  int threads = 0;         // 0: all cores
  bool strict = false;     // settings that qkv does not know are an error

  // With --labels, --max-memory, --strict and AddHints. Not `required`: the built-in model answers without -m.
  void AddModel(Command command, bool required = false);
  void AddStrict(Command command);     // for commands with a --model of their own
  void AddHints(Command command);      // what the model's files may leave out
  void AddPrecision(Command command);  // --dtype and --threads
  void AddCompute(Command command);    // these two and --cache
  void AddSize(Command command);
};

/// The files that these options name: the model's, and --labels.
app::InputFiles InputsOf(const ModelOptions& options);

/// Adds -q, which sets `quiet` and silences notes for the whole process.
void AddQuiet(Command command, bool* quiet);

/// Adds --max-memory, which sets the limit of core/memory.h for the whole process.
void AddMaxMemory(Command command);

/// Sets the number of threads, and opens the model. stderr says if it is the built-in one and, if `tell`, what was
/// assumed about it.
app::AnyModel OpenModel(const ModelOptions& options, bool tell = true);

using app::ParseList;
using app::PrecisionName;

/// Types that weights are stored in, by their names in options.
const std::map<std::string, DType>& StoredTypes();

}  // namespace qkv::cli
