// What heads say of a slide.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "qkv/app/slides/slide_job.h"
#include "qkv/mil/head.h"

namespace qkv::app {

/// A class's name, or its number, to its probability; empty if the head does not classify.
std::map<std::string, double> Probabilities(const mil::Head& head, const mil::Answer& answer);

/// Opens heads by their paths, or by their names in the hub's cache (FindModel); each is named by the last part. Throws
/// Error as OpenHead and FindModel, and if two have one name.
std::vector<NamedHead> OpenHeads(const std::vector<std::string>& paths);

}  // namespace qkv::app
