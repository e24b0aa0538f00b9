// How fast the models of an ablation train and answer.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "qkv/lab/ablation_runs.h"

namespace qkv::lab {

/// Images, sequences or pairs per second of each arm, in training and inference, measured in turns on this machine with
/// the first data set.
std::map<std::string, Speed, std::less<>> MeasureSpeeds(const std::vector<PlannedRun>& runs);

}  // namespace qkv::lab
