// Renders replayed claims as documents.
#pragma once

#include <span>
#include <string>

#include "qkv/io/json.h"
#include "qkv/lab/claims/claims.h"

namespace qkv::lab {

/// For a terminal, a line for each result: number, title, verdict, and how many of the checks that decide hold; below
/// them how many results agree.
std::string Summary(std::span<const Result> results);

/// For a terminal: the claim, what was run, predicted and measured values, the verdict and its reason.
std::string ToText(const Result& result);

/// {"id", "title", "claim", "run", "verdict", "reason", "agrees", "checks": [{"what", "relation", "predicted",
/// "measured", "tolerance", "unit", "holds"}], "tables": [{"title", "columns", "rows": [["cell"]]}]}; numbers that are
/// not finite are null.
io::Json ToJson(const Result& result);

/// One self-contained page with all charts. `machine` describes the test machine.
std::string ToPage(std::span<const Result> results, const std::string& model, const std::string& machine);

}  // namespace qkv::lab
