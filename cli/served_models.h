// Models of a server, as `qkv serve` and `qkv explore` take them.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "qkv/server/config.h"

namespace qkv::cli {

/// Adds -m,--model, which may be given several times.
void AddServedModels(Command command, std::vector<std::string>* models, const std::string& help);

/// "ID=PATH" or "PATH". Throws Error if there is no such model.
server::ModelEntry ParseServedModel(const std::string& text, const std::string& dtype);

}  // namespace qkv::cli
