// Names of a pickle's instructions, and its texts of protocol 0, which are lines. Internal to qkv/io/pickle.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::io {

/// Instructions, named as in Python's pickletools.
enum class PickleOp : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloatLine = 'F',
  kIntLine = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLongLine = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kPersId = 'P',
  kBinPersId = 'Q',
  kReduce = 'R',
  kStringLine = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicodeLine = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kObj = 'o',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8A,
  kLong4 = 0x8B,
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinBytes8 = 0x8E,
  kEmptySet = 0x8F,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

/// Decodes Python's raw-unicode-escape to UTF-8: \uXXXX and \UXXXXXXXX; all else is Latin-1.
std::string DecodeUnicodeLine(std::string_view line);
/// Decodes the escapes of a string literal of Python 2, without its quotes.
std::string DecodeStringLine(std::string_view line);

}  // namespace qkv::io
