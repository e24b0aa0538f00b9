// How much memory and time a model may take for what its file holds, estimated before anything is allocated.
#pragma once

#include <cstdint>
#include <string_view>

#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// Elements that a forward pass of B images of N tokens keeps at a time: tokens, and what the widest layer makes of
/// `together` images that go through a block at once. Without pixels, and without what Outputs asks for. An upper
/// bound up to some scratch memory of each thread.
double ActivationElements(const VitConfig& config, int64_t images, int64_t tokens, int64_t together);
double ActivationElements(const SequenceConfig& config, int64_t sequences, int64_t tokens);

/// Elements of places and positions that a pass computes for N tokens where scores, or positions, are of places alone.
double PlaceElements(const VitConfig& config, int64_t tokens);
/// Those of the blocks.
double PlaceElements(const nn::BlockConfig& config, int64_t depth, int64_t tokens);

/// Operations of one image of this size as they take time: multiply-adds count as two, an exponential of the softmax
/// as 32.
double Cost(const VitConfig& config, int64_t height, int64_t width);
/// The same of one sequence of full length.
double Cost(const SequenceConfig& config);

/// Throws Error when `cost` is out of all proportion to the bytes that ask for it: a few KB may take about a second,
/// and each MB more a few seconds, far more than any published model at its own size. `what` begins the message,
/// `remedy` ends it.
void RequireProportion(double cost, double bytes, std::string_view what, std::string_view remedy);

}  // namespace qkv::model
