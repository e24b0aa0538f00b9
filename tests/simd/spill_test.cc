// GCC 12 spills the accumulators of a register tile at the slightest provocation, which costs half of the speed and
// breaks no other test. So the machine code itself is read: no loop of multiply-adds may touch vectors on the stack.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "qkv/simd/attention/backward.h"
#include "qkv/simd/attention/tile.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::simd {
namespace {

struct Instruction {
  uint64_t address;
  std::string text;
};

// Functions of this program whose symbol has one of the micro-kernels in it.
std::map<std::string, std::vector<Instruction>> MicroKernels() {
  std::map<std::string, std::vector<Instruction>> functions;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen("objdump -d --no-show-raw-insn /proc/$PPID/exe", "r"), pclose);
  std::vector<Instruction>* function = nullptr;
  char line[4096];
  while (pipe && std::fgets(line, sizeof(line), pipe.get())) {
    const std::string text = line;
    if (const size_t name = text.find(" <"); text[0] != ' ' && name != std::string::npos) {
      const bool vectors = text.find("N_AVX2") != std::string::npos || text.find("N_AVX3") != std::string::npos;
      const bool kernel = text.find("MultiplyTile") != std::string::npos || text.find("Scores") != std::string::npos ||
                          text.find("AddValues") != std::string::npos || text.find("AddToKeys") != std::string::npos ||
                          text.find("QueriesByKeys") != std::string::npos ||
                          text.find("KeysByQueries") != std::string::npos;
      // In low precision; one name for several instruction sets, whose code follows each other here.
      const bool tile = text.find("MultiplyRowsILi") != std::string::npos;
      function = (vectors && kernel) || tile ? &functions[text.substr(name + 2)] : nullptr;
    } else if (size_t colon = text.find(":\t"); function && colon != std::string::npos) {
      if (const size_t encoding = text.find("{vex} "); encoding != std::string::npos) colon = encoding + 4;
      function->push_back({std::strtoull(line, nullptr, 16), text.substr(colon + 2)});
    }
  }
  return functions;
}

// Where an instruction jumps to, or 0.
uint64_t JumpTarget(const std::string& text) {
  if (text[0] != 'j') return 0;
  const size_t operand = text.find_first_of("0123456789abcdef", text.find(' '));
  return operand == std::string::npos ? 0 : std::strtoull(text.c_str() + operand, nullptr, 16);
}

bool IsMultiplyAdd(const std::string& text) {
  for (const char* const name : {"vfmadd", "vpdpbusd", "vdpbf16ps", "vpmaddubsw"}) {
    if (text.rfind(name, 0) == 0) return true;
  }
  return false;
}

// Of the loop that the jump at `end` closes, or 0: the jump goes forward, or out of the function.
int MultiplyAddsOfLoop(const std::vector<Instruction>& code, size_t end, size_t* begin) {
  const uint64_t target = JumpTarget(code[end].text);
  if (target == 0 || target > code[end].address || target < code.front().address) return 0;
  int multiply_adds = 0;
  for (*begin = end; *begin > 0 && code[*begin].address > target; --*begin) {
    multiply_adds += IsMultiplyAdd(code[*begin - 1].text);
  }
  return multiply_adds;
}

bool TouchesVectorOnStack(const std::string& text) {
  return text[0] == 'v' && (text.find("(%rsp") != std::string::npos || text.find("(%rbp") != std::string::npos);
}

TEST(Spill, LoopsOfMultiplyAddsKeepTheirVectorsInRegisters) {
#if !defined(NDEBUG) || !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "only optimised code is of interest";
#endif
#ifndef __x86_64__
  GTEST_SKIP() << "only x86-64's machine code is read";
#endif
  ASSERT_EQ(std::system("command -v objdump > /dev/null"), 0)
      << "objdump, which reads the machine code, is missing: install binutils (tools/setup.sh test)";
  PackedMatrix<float>(Tensor<float>({1, 1}).view());  // keeps the kernels linked
  EXPECT_GT(AttentionPanel<float>(), 0);
  EXPECT_GT(AttentionGradientScratch<float>(1, 1), 0);
  const auto functions = MicroKernels();
  ASSERT_FALSE(functions.empty()) << "no micro-kernel was found: has the program lost its symbols?";
  int loops = 0;
  for (const auto& [name, code] : functions) {
    for (size_t end = 0; end < code.size(); ++end) {
      size_t begin = end, inner_begin = end;
      if (MultiplyAddsOfLoop(code, end, &begin) < 2) continue;
      // Innermost loops only, but for loops of prefetches: what is around them runs once in a few hundred steps.
      bool inner = false;
      for (size_t i = begin; i < end; ++i)
        inner |= MultiplyAddsOfLoop(code, i, &inner_begin) > 0 && inner_begin >= begin;
      if (inner) continue;
      ++loops;
      for (size_t i = begin; i < end; ++i) {
        EXPECT_FALSE(TouchesVectorOnStack(code[i].text)) << name << code[i].text;
      }
    }
  }
  RecordProperty("loops", loops);
  EXPECT_GE(loops, 170) << "the loops were not found: has the code changed its shape?";
}

}  // namespace
}  // namespace qkv::simd
