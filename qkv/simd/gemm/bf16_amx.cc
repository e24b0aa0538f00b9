// bfloat16 products with AMX: a tile instruction multiplies 16 rows by 32 k by 16 columns. It sums the even and the odd
// k of its 32 separately, then adds both to C, in float, rounded to nearest even, with denormals treated as zero. Few
// rows use AMX too, although AVX-512 BF16 would be as fast for one or two: it adds in another order, and a row's result
// must not depend on the number of rows beside it.
#ifdef __x86_64__
#include "qkv/simd/gemm/amx_tiles.h"
#include "qkv/simd/gemm/tile_kernel.h"

namespace qkv::simd::internal {
namespace {

QKV_AMX_PRODUCT(Bf16Product, _tile_dpbf16ps);

void Multiply(int rows, const void* a, const void* b, int64_t depth, bool first, void* c, const char* next,
              int64_t lines) {
  MultiplyAmx<Bf16Product>(rows, a, b, depth / (kAmxTileBytes / 2), first, c, next, lines);
}

}  // namespace

constinit const TileKernel kBf16Amx = {.name = "amx_bf16",
                                       .panel = 32,
                                       .rows = kAmxRows,
                                       .group = 2,
                                       .chunk = 32,
                                       .multiply = Multiply,
                                       .finish = ReleaseAmx};

}  // namespace qkv::simd::internal
#endif  // __x86_64__
