// What `qkv attend` does with texts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/writing.h"

namespace qkv::cli {

/// Options for texts alone.
struct AttendTextOptions {
  bool cross = false;
  std::string part;  // "encoder", "decoder", "cross", or empty
  std::optional<std::string> target, prefix;
  DecodingOptions decoding;  // only --beams and --tokens

  void AddTo(Command command);
  /// The first of these options that was given, such as "--cross"; empty if none was.
  std::string Given() const;
};

/// Options that images and texts share.
struct AttendOptions {
  ModelOptions model;
  std::vector<std::string> inputs;  // for texts: as CollectTexts
  std::string output, layers, head;
  bool quiet = false;
};

/// Writes the attention of each text, or prints it as JSON Lines. Returns the exit status.
int AttendTexts(const AttendOptions& options, const AttendTextOptions& texts, const app::AnyModel& opened);

}  // namespace qkv::cli
