// int8 products with AMX: a tile instruction multiplies 16 rows by 64 k by 16 columns.
#ifdef __x86_64__
#include "qkv/simd/gemm/amx_tiles.h"
#include "qkv/simd/gemm/tile_kernel.h"

namespace qkv::simd::internal {
namespace {

QKV_AMX_PRODUCT(BytesProduct, _tile_dpbusd);

// With fewer rows AMX is latency-bound: 52 cycles between products on the same tile of C, for 32 columns by 64 k. VNNI,
// at two products per cycle, takes 16 cycles per row for the same work, so it is no slower. Not measured; from the
// manual's numbers. Integer sums are equal either way, and so is the layout.
constexpr int kFewRows = 3;

void Multiply(int rows, const void* a, const void* b, int64_t depth, bool first, void* c, const char* next,
              int64_t lines) {
  if (rows <= kFewRows) return kInt8Avx512Vnni.multiply(rows, a, b, depth, first, c, next, lines);
  MultiplyAmx<BytesProduct>(rows, a, b, depth / kAmxTileBytes, first, c, next, lines);
}

}  // namespace

constinit const TileKernel kInt8Amx = {.name = "amx_int8",
                                       .panel = 32,
                                       .rows = kAmxRows,
                                       .group = 4,
                                       .chunk = 64,
                                       .activation_max = 255,
                                       .weight_max = 127,
                                       .multiply = Multiply,
                                       .finish = ReleaseAmx};

}  // namespace qkv::simd::internal
#endif  // __x86_64__
