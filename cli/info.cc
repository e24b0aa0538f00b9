// qkv info: what a checkpoint is, and what was assumed about it.
#include "qkv/app/info.h"

#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/app/language.h"
#include "qkv/app/text_info.h"
#include "qkv/model/config/sequence_config.h"

namespace qkv::cli {
namespace {

struct InfoOptions {
  ModelOptions model;
  bool json = false;
};

int InfoOfText(const InfoOptions& options) {
  RequireNoImageOptions(options.model, "info");
  const auto checkpoint = model::TextCheckpoint::Open(options.model.path);
  if (options.json) {
    PrintJsonLine(app::TextInfoJson(checkpoint));
  } else {
    for (const auto& [key, value] : app::TextInfoLines(checkpoint)) Print("{:<14} {}\n", key, value);
  }
  return 0;
}

int Info(const InfoOptions& options) {
  if (app::IsLanguageModel(options.model.path)) return InfoOfText(options);
  if (const std::string& path = options.model.path; !path.empty() && model::IsSequenceModel(path)) {
    Fail(
        "info: {} is a model of sequences, expected one of images; qkv evaluate -m {} DATA measures it, and qkv "
        "generate -m {} continues a text if it was trained on one",
        path, path, path);
  }
  // Assumptions are part of the output.
  const model::Checkpoint checkpoint = OpenCheckpoint(options.model, /*tell=*/false);
  if (options.json) {
    PrintJsonLine(app::InfoJson(checkpoint));
  } else {
    for (const auto& [key, value] : app::InfoLines(checkpoint)) Print("{:<14} {}\n", key, value);
  }
  return 0;
}

}  // namespace

void RegisterInfo(Command app, int* exit_code) {
  const auto options = std::make_shared<InfoOptions>();
  const Command command = app.AddCommand("info", "Show what a checkpoint is, and what was assumed of it");
  options->model.AddModel(command);
  command.AddFlag("--json", &options->json, "One JSON object on stdout");
  command.Callback([options, exit_code] { *exit_code = Info(*options); });
}

}  // namespace qkv::cli
