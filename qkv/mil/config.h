// What a trained model over a bag of tiles is: gated attention alone, or blocks of attention between the tiles before
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/model/config/block_config.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::mil {

enum class Architecture {
  kGated,        // h = relu(W x); gated attention over tiles; classifier. Tensors are those of CLAM_SB
  kTransformer,  // h = W x; blocks; norm; pooling; classifier
};
/// "abmil", "transformer"
std::string_view Name(Architecture architecture);

/// Where a tile is: column and row in the grid of tiles.
enum class TilePositions {
  kNone,
  kRotary,  // turns queries and keys by row and column (nn/rotary.h); for kinds with a query and a key per token
  kSines,   // adds sines and cosines of row and column to h; for every kind
};
/// "none", "rotary", "sines"
std::string_view Name(TilePositions positions);

enum class BagPool {
  kGated,  // gated attention over the tiles
  kToken,  // a class token; kTransformer
};
/// "attention", "token"
std::string_view Name(BagPool pool);

struct MilConfig {
  Architecture architecture = Architecture::kGated;
  int64_t inputs = 0;        // width of the tiles' vectors
  int64_t gate_width = 256;  // Z, of the gated attention
  std::vector<std::string> classes;
  nn::BlockConfig block = {.width = 512};  // width: of h, for both; the rest is for kTransformer
  int64_t depth = 0;                       // blocks; kGated: 0
  TilePositions positions = TilePositions::kNone;
  double rotary_base = 100;  // wavelengths of rotary positions and sines, from 2π tiles to about 2π · base
  BagPool pool = BagPool::kGated;

  int64_t width() const { return block.width; }
  int64_t outputs() const { return static_cast<int64_t>(classes.size()); }
  int64_t prefix() const { return pool == BagPool::kToken ? 1 : 0; }
};

/// Throws Error if a number is out of range or two of them contradict each other, and for kinds of attention that need
/// a full grid of tokens (gaussian, positional): a slide's tiles are scattered.
void Validate(const MilConfig& config);

/// The tensors before the blocks and in pooling; of kGated all.
std::vector<model::TensorSpec> MilTable(const MilConfig& config);

io::Json ToJson(const MilConfig& config);
/// Throws Error, prefixed with where, for keys that are missing, unknown or of another type, and as Validate.
MilConfig MilConfigFromJson(const io::Json& json, const std::string& where);

}  // namespace qkv::mil
