// The loop of every vector tile kernel: C[R][panel] += A B, with all of C in registers. A file of one instruction set
// includes it inside its own target attributes, after a definition of the instruction:
//
//   struct Dot {
//     using Sum, Operand, Element;    // vectors of C and of A or B, an element of C
//     static constexpr int kRows;     // of a tile at most
//     static constexpr int kChunk;    // elements of A in kChunkBytes
//     static constexpr int kVectors;  // in a row of the panel
//     static constexpr int kFold;     // groups multiplied by one step: divides kGroupsOfStride
//     static Operand Broadcast(int32_t group);
//     static Sum Add(Sum sum, const Operand (&a)[kFold], const Operand (&b)[kFold]);  // sum + the dot products
//   };
//
// There are no include guards, and all names are local to the including file: templates of one name with code for
// different processors must not be merged at link time.
namespace qkv::simd::internal {
namespace {

constexpr int64_t kChunkBytes = 64;     // of A per row
constexpr int64_t kGroupBytes = 4;      // two bfloat16, or four int8
constexpr int64_t kGroupsOfStride = 4;  // groups between two prefetches
constexpr int64_t kStridesOfChunk = kChunkBytes / (kGroupBytes * kGroupsOfStride);

// Unaligned vectors in memory.
typedef Dot::Operand OperandInMemory __attribute__((aligned(1), may_alias));
typedef Dot::Sum SumInMemory __attribute__((aligned(1), may_alias));

Dot::Operand BroadcastGroup(const uint8_t* a) {
  int32_t group;
  std::memcpy(&group, a, sizeof(group));
  return Dot::Broadcast(group);
}

// Every element of C is one chain in the order of the groups for any R, so a row's result does not depend on its tile.
// The unroll pragmas keep `sum` in registers (GCC 12).
template <int R>
void MultiplyRows(const uint8_t* a, const uint8_t* b, int64_t chunks, bool first, Dot::Element* c,
                  TilePrefetch prefetch) {
  constexpr int V = Dot::kVectors, F = Dot::kFold;
  constexpr int64_t kLanes = sizeof(Dot::Sum) / sizeof(Dot::Element);
  constexpr int64_t kPanel = V * kLanes, kStep = kPanel * kGroupBytes;
  Dot::Sum sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sum[r][v] = Dot::Sum{};
      if (!first) sum[r][v] = *reinterpret_cast<const SumInMemory*>(c + r * kPanel + v * kLanes);
    }
  }
  for (const uint8_t* const end = a + chunks * R * kChunkBytes; a != end; a += (R - 1) * kChunkBytes) {
    for (int64_t stride = 0; stride < kStridesOfChunk; ++stride) {
      prefetch.PrefetchShare();
#pragma GCC unroll 4
      for (int64_t group = 0; group < kGroupsOfStride; group += F, a += F * kGroupBytes, b += F * kStep) {
        Dot::Operand operand_b[V][F];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
#pragma GCC unroll 4
          for (int f = 0; f < F; ++f) {
            operand_b[v][f] = *reinterpret_cast<const OperandInMemory*>(b + f * kStep + v * kLanes * kGroupBytes);
          }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          Dot::Operand operand_a[F];
#pragma GCC unroll 4
          for (int f = 0; f < F; ++f) operand_a[f] = BroadcastGroup(a + r * kChunkBytes + f * kGroupBytes);
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) sum[r][v] = Dot::Add(sum[r][v], operand_a, operand_b[v]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) *reinterpret_cast<SumInMemory*>(c + r * kPanel + v * kLanes) = sum[r][v];
  }
}

template <int... R>
void MultiplyAny(std::integer_sequence<int, R...>, int rows, const uint8_t* a, const uint8_t* b, int64_t chunks,
                 bool first, Dot::Element* c, const TilePrefetch& prefetch) {
  using Multiply = void (*)(const uint8_t*, const uint8_t*, int64_t, bool, Dot::Element*, TilePrefetch);
  static constexpr Multiply kOf[] = {MultiplyRows<R + 1>...};
  kOf[rows - 1](a, b, chunks, first, c, prefetch);
}

// One row by N panels, `distance` bytes apart.
template <int N>
void MultiplyPanels(const uint8_t* a, const uint8_t* b, int64_t distance, int64_t chunks, bool first, Dot::Element* c) {
  constexpr int V = Dot::kVectors, F = Dot::kFold;
  constexpr int64_t kLanes = sizeof(Dot::Sum) / sizeof(Dot::Element);
  constexpr int64_t kStep = V * kLanes * kGroupBytes;
  Dot::Sum sum[N][V];
#pragma GCC unroll 16
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sum[n][v] = Dot::Sum{};
      if (!first) sum[n][v] = *reinterpret_cast<const SumInMemory*>(c + (n * V + v) * kLanes);
    }
  }
  const uint8_t* const end = a + chunks * kChunkBytes;
  for (; a != end; a += F * kGroupBytes, b += F * kStep) {
    Dot::Operand operand_a[F];
#pragma GCC unroll 4
    for (int f = 0; f < F; ++f) operand_a[f] = BroadcastGroup(a + f * kGroupBytes);
#pragma GCC unroll 16
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        Dot::Operand operand_b[F];
#pragma GCC unroll 4
        for (int f = 0; f < F; ++f) {
          operand_b[f] =
              *reinterpret_cast<const OperandInMemory*>(b + n * distance + f * kStep + v * kLanes * kGroupBytes);
        }
        sum[n][v] = Dot::Add(sum[n][v], operand_a, operand_b);
      }
    }
  }
#pragma GCC unroll 16
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) *reinterpret_cast<SumInMemory*>(c + (n * V + v) * kLanes) = sum[n][v];
  }
}

// A RowMultiply.
void MultiplyRow(int panels, const void* a, const void* b, int64_t distance, int64_t depth, bool first, void* c) {
  using Multiply = void (*)(const uint8_t*, const uint8_t*, int64_t, int64_t, bool, Dot::Element*);
  static_assert(kRowPanels == 4);
  static constexpr Multiply kOf[] = {MultiplyPanels<1>, MultiplyPanels<2>, MultiplyPanels<3>, MultiplyPanels<4>};
  kOf[panels - 1](static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), distance, depth / Dot::kChunk, first,
                  static_cast<Dot::Element*>(c));
}

// A TileMultiply.
void MultiplyTile(int rows, const void* a, const void* b, int64_t depth, bool first, void* c, const char* next,
                  int64_t lines) {
  const int64_t chunks = depth / Dot::kChunk;
  MultiplyAny(std::make_integer_sequence<int, Dot::kRows>(), rows, static_cast<const uint8_t*>(a),
              static_cast<const uint8_t*>(b), chunks, first, static_cast<Dot::Element*>(c),
              TilePrefetch({next, lines}, chunks * kStridesOfChunk));
}

}  // namespace
}  // namespace qkv::simd::internal
