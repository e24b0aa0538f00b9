#include "qkv/core/arena.h"

#include <gtest/gtest.h>

namespace qkv {
namespace {

TEST(Arena, GivesAlignedMemoryThatDoesNotOverlap) {
  Arena arena;
  const View<float> a = arena.New<float>({3}), b = arena.New<float>({1 << 20}), c = arena.New<float>({5});
  for (const auto& view : {a, b, c}) EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data()) % kAlignment, 0u);
  std::fill_n(a.data(), 3, 1.f), std::fill_n(b.data(), b.size(), 2.f), std::fill_n(c.data(), 5, 3.f);
  EXPECT_EQ(a.data()[2], 1.f);
  EXPECT_EQ(b.data()[b.size() - 1], 2.f);
  EXPECT_EQ(c.data()[0], 3.f);
}

TEST(Arena, SecondPassReusesTheMemoryOfTheFirst) {
  Arena arena;
  const auto pass = [&] {
    arena.Reset();
    float* first = arena.New<float>({1000}).data();
    {
      const Arena::Scope scope(arena);
      arena.New<float>({3 << 20});
    }
    arena.New<float>({2 << 20});
    return first;
  };
  pass();
  const float* second = pass();
  EXPECT_EQ(pass(), second);
}

TEST(Arena, ScopeGivesMemoryBack) {
  Arena arena;
  float *inner, *after;
  {
    const Arena::Scope scope(arena);
    inner = arena.New<float>({100}).data();
  }
  after = arena.New<float>({100}).data();
  EXPECT_EQ(inner, after);
}

}  // namespace
}  // namespace qkv
