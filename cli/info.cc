// qkv info: what a checkpoint is, and what was assumed about it.
#include "qkv/app/models/info.h"

#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/app/models/model_settings.h"
#include "qkv/app/models/text_info.h"
#include "qkv/app/open/kinds.h"
#include "qkv/app/texts/language.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/config/sequence_config.h"

namespace qkv::cli {
namespace {

struct InfoOptions {
  ModelOptions model;
  bool json = false, settings = false;
};

// Prints facts as JSON or as lines, or the settings of the model's files.
int Show(const InfoOptions& options, io::Json json, const std::vector<std::pair<std::string, std::string>>& lines) {
  std::vector<io::Setting> settings;
  if (options.settings) settings = app::ReadSettings(options.model.path, options.model.Hints());
  if (options.json) {
    if (options.settings) json["settings"] = app::SettingsJson(settings);
    PrintJsonLine(json);
  } else if (options.settings) {
    for (const std::string& line : app::SettingsLines(settings)) Print("{}\n", line);
  } else {
    for (const auto& [key, value] : lines) Print("{:<14} {}\n", key, value);
  }
  return 0;
}

int InfoOfText(const InfoOptions& options) {
  RequireNoImageOptions(options.model, "info");
  const auto checkpoint = model::TextCheckpoint::Open(options.model.path);
  return Show(options, app::TextInfoJson(checkpoint), app::TextInfoLines(checkpoint));
}

int Info(const InfoOptions& options) {
  if (app::IsTextModel(options.model.path)) return InfoOfText(options);
  RequireImageModel(options.model, "info");
  // Assumptions are part of the output.
  const model::Checkpoint checkpoint = OpenCheckpoint(options.model, /*tell=*/false);
  return Show(options, app::InfoJson(checkpoint), app::InfoLines(checkpoint));
}

}  // namespace

void RegisterInfo(Command app, int* exit_code) {
  const auto options = std::make_shared<InfoOptions>();
  const Command command = app.AddCommand("info", "Show what a checkpoint is, and what was assumed of it");
  options->model.AddModel(command);
  command.AddFlag("--json", &options->json, "One JSON object on stdout");
  command.AddFlag("--settings", &options->settings,
                  "What each setting of the model's files did: used, neutral, of no effect, unknown");
  command.Footer(
      "Examples:\n"
      "  qkv info -m google/vit-base-patch16-224     what it is, and what was assumed\n"
      "  qkv info -m vit-base --settings             what each setting of its files did");
  command.Callback([options, exit_code] { *exit_code = Info(*options); });
}

}  // namespace qkv::cli
