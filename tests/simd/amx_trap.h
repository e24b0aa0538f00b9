// AMX where the processor has none: its instructions raise SIGILL, and the handler here decodes them and does what
// Intel's manual (SDM volume 2) says on eight tiles in memory. So the code that is tested is the code that is shipped.
// What the processor would refuse (a tile that is not configured, shapes that do not fit) stays a SIGILL.
#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <ucontext.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "qkv/simd/gemm/amx_tiles.h"

namespace qkv::simd {

/// The state of AMX, and what its instructions do. Each returns false where the processor would raise an exception.
class SoftwareTiles {
 public:
  bool Configure(const void* from) {  // LDTILECFG
    std::memcpy(&configuration_, from, sizeof(configuration_));
    std::memset(tiles_, 0, sizeof(tiles_));
    bool valid = configuration_.palette == 1 && configuration_.start_row == 0;
    for (const uint8_t byte : configuration_.reserved) valid &= byte == 0;
    for (int t = 0; t < 16; ++t) {
      valid &= configuration_.rows[t] <= (t < kTiles ? 16 : 0) && configuration_.bytes[t] <= (t < kTiles ? 64 : 0) &&
               (configuration_.rows[t] == 0) == (configuration_.bytes[t] == 0);
    }
    return valid;
  }
  bool Release() {  // TILERELEASE
    configuration_ = {};
    return true;
  }
  bool Zero(int t) {  // TILEZERO
    std::memset(tiles_[t], 0, sizeof(tiles_[t]));
    return Rows(t) > 0;
  }
  bool Load(int t, const char* from, int64_t stride) {  // TILELOADD
    std::memset(tiles_[t], 0, sizeof(tiles_[t]));
    for (int r = 0; r < Rows(t); ++r) std::memcpy(tiles_[t][r], from + r * stride, configuration_.bytes[t]);
    return Rows(t) > 0;
  }
  bool Store(int t, char* to, int64_t stride) const {  // TILESTORED
    for (int r = 0; r < Rows(t); ++r) std::memcpy(to + r * stride, tiles_[t][r], configuration_.bytes[t]);
    return Rows(t) > 0;
  }

  bool MultiplyBytes(int c, int a, int b) {  // TDPBUSD
    for (int m = 0; m < Rows(c); ++m) {
      for (int k = 0; k < Columns(a); ++k) {
        for (int n = 0; n < Columns(c); ++n) {
          auto sum = Get<int32_t>(c, m, n);
          for (int i = 0; i < 4; ++i) sum += Get<uint8_t>(a, m, 4 * k + i) * Get<int8_t>(b, k, 4 * n + i);
          std::memcpy(&tiles_[c][m][4 * n], &sum, sizeof(sum));
        }
      }
    }
    return ShapesFit(c, a, b);
  }
  bool MultiplyBf16(int c, int a, int b) {  // TDPBF16PS: denormals are zero on the way in and out
    for (int m = 0; m < Rows(c); ++m) {
      for (int n = 0; n < Columns(c); ++n) {
        float even = 0, odd = 0;
        for (int k = 0; k < Columns(a); ++k) {
          even = Flush(std::fma(GetBf16(a, m, 2 * k), GetBf16(b, k, 2 * n), even));
          odd = Flush(std::fma(GetBf16(a, m, 2 * k + 1), GetBf16(b, k, 2 * n + 1), odd));
        }
        const float sum = Flush(Flush(Get<float>(c, m, n)) + Flush(even + odd));
        std::memcpy(&tiles_[c][m][4 * n], &sum, sizeof(sum));
      }
    }
    return ShapesFit(c, a, b);
  }

 private:
  static constexpr int kTiles = 8;

  int Rows(int t) const { return configuration_.rows[t]; }
  int Columns(int t) const { return configuration_.bytes[t] / 4; }
  bool ShapesFit(int c, int a, int b) const {
    return Rows(c) > 0 && Rows(a) == Rows(c) && Columns(b) == Columns(c) && Columns(a) == Rows(b) && c != a && c != b &&
           a != b;
  }
  template <typename T>
  T Get(int t, int row, int index) const {
    T value;
    std::memcpy(&value, &tiles_[t][row][static_cast<size_t>(index) * sizeof(T)], sizeof(T));
    return value;
  }
  float GetBf16(int t, int row, int index) const {
    return Flush(std::bit_cast<float>(static_cast<uint32_t>(Get<uint16_t>(t, row, index)) << 16));
  }
  static float Flush(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.0f, x) : x; }

  internal::AmxConfiguration configuration_{.palette = 0};
  uint8_t tiles_[kTiles][16][64] = {};
};

/// While one lives, this process has AMX.
class AmxTrap {
 public:
  AmxTrap() {
    struct sigaction action = {};
    action.sa_sigaction = Handle;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
  }
  ~AmxTrap() { sigaction(SIGILL, &before_, nullptr); }
  AmxTrap(const AmxTrap&) = delete;
  AmxTrap& operator=(const AmxTrap&) = delete;

 private:
  static void Handle(int, siginfo_t*, void* context) {
    auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    // Back to the instruction as the system sees it, which ends the process.
    if (!Execute(registers)) signal(SIGILL, SIG_DFL);
  }

  // The number of a register in an instruction, as an index of gregs.
  static greg_t Register(const greg_t* registers, int number) {
    constexpr int kIndex[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return registers[kIndex[number]];
  }

  // One instruction: C4, two bytes of VEX, opcode, ModRM, and for memory SIB and displacement (SDM volume 2, 2.3).
  static bool Execute(greg_t* registers) {
    const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
    constexpr uint8_t kVex = 0xC4, kMap0F38 = 2, kWAndL = 0x84;
    if (code[0] != kVex || (code[1] & 0x1F) != kMap0F38 || (code[2] & kWAndL) != 0) return false;
    const int extend_index = code[1] & 0x40 ? 0 : 8, extend_base = code[1] & 0x20 ? 0 : 8;
    const int third = ~code[2] >> 3 & 15, opcode = code[3] << 4 | (code[2] & 3);  // the last digit: none, 66, F3, F2
    const int mod = code[4] >> 6, reg = code[4] >> 3 & 7, rm = code[4] & 7;
    code += 5;
    char* address = nullptr;
    int64_t stride = 0;
    if (mod != 3) {
      if (mod == 0 && (rm == 5 || (rm == 4 && (*code & 7) == 5))) return false;  // not what compilers make here
      int base = rm;
      if (rm == 4) {
        const int index = (*code >> 3 & 7) + extend_index;
        if (index != 4) stride = Register(registers, index) << (*code >> 6);
        base = *code++ & 7;
      }
      address = reinterpret_cast<char*>(Register(registers, base + extend_base));
      int32_t displacement = 0;
      if (mod == 1) displacement = static_cast<int8_t>(*code);
      if (mod == 2) std::memcpy(&displacement, code, sizeof(displacement));
      code += mod == 1 ? 1 : mod == 2 ? 4 : 0;
      address += displacement;
    }
    bool valid = false;
    switch (opcode) {
      case 0x490:
        valid = mod == 3 ? tiles_.Release() : tiles_.Configure(address + stride);
        break;
      case 0x493:
        valid = tiles_.Zero(reg);
        break;
      case 0x4B3:
        valid = tiles_.Load(reg, address, stride);
        break;
      case 0x4B2:
        valid = tiles_.Store(reg, address, stride);
        break;
      case 0x5E1:
        valid = tiles_.MultiplyBytes(reg, rm, third);
        break;
      case 0x5C2:
        valid = tiles_.MultiplyBf16(reg, rm, third);
        break;
      default:
        break;
    }
    if (valid) registers[REG_RIP] = reinterpret_cast<greg_t>(code);
    return valid;
  }

  static inline thread_local SoftwareTiles tiles_;
  struct sigaction before_ = {};
};

}  // namespace qkv::simd

#endif
