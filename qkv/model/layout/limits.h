// Limits memory and time of a model relative to the size of its file, estimated before anything is allocated.
#pragma once

#include <cstdint>
#include <string_view>

#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// Elements that a forward pass of B images of N tokens holds at a time: the tokens, and the widest intermediate of
/// `together` images that go through a block at once. Without the pixels, and without requested Outputs. An upper
/// bound, except for some scratch memory per thread.
double ActivationElements(const VitConfig& config, int64_t images, int64_t tokens, int64_t together);
double ActivationElements(const SequenceConfig& config, int64_t sequences, int64_t tokens);

/// Elements of positional tables that a pass computes for N tokens, for positional attention kinds and computed
/// positions.
double PlaceElements(const VitConfig& config, int64_t tokens);
double PlaceElements(const SequenceConfig& config, int64_t tokens);
/// Only those of the blocks.
double PlaceElements(const nn::BlockConfig& config, int64_t depth, int64_t tokens);

/// Elements of the tables of biases by relative position on a grid.
double RelativeBiasElements(const VitConfig& config, int64_t grid_height, int64_t grid_width);

/// Cost of one image of this size, in operations weighted by their time: a multiply-add counts as 2, an exponential of
/// the softmax as 32.
double Cost(const VitConfig& config, int64_t height, int64_t width);
/// Cost of one sequence of full length.
double Cost(const SequenceConfig& config);

/// Throws Error if `cost` is out of proportion to the file's size in bytes: a few KB may take about a second, and each
/// further MB a few seconds, far more than any published model at its own size. The message begins with `what` and ends
/// with `remedy`.
void RequireProportion(double cost, double bytes, std::string_view what, std::string_view remedy);

}  // namespace qkv::model
