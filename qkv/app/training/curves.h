// Draws the log of a training run: loss, accuracy and learning rate over the steps.
#pragma once

#include <span>
#include <string>

#include "qkv/io/json.h"

namespace qkv::app {

/// SVG of the lines of log.jsonl (qkv/train/run/log.h).
std::string DrawCurves(std::span<const io::Json> log, const std::string& title);

}  // namespace qkv::app
