// Pickles as data: every instruction of protocols 0 to 5, and pickles that lie.
#include "qkv/io/pickle.h"

#include <gtest/gtest.h>

#include "qkv/core/memory.h"
#include "qkv/io/torch_pickle.h"
#include "tests/io/support.h"

namespace qkv::io {
namespace {

using namespace std::string_literals;  // NOLINT: for the zero bytes in ""s

// What a pickle holds, as Python would print it, with calls as name(arguments).
std::string Show(const Pickle& pickle, PickleValue value) {
  const auto list = [&](std::span<const PickleValue> items) {
    std::string text;
    for (const PickleValue item : items) text += (text.empty() ? "" : ", ") + Show(pickle, item);
    return text;
  };
  switch (value.kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return value.integer != 0 ? "True" : "False";
    case PickleKind::kInt:
      return std::to_string(value.integer);
    case PickleKind::kLong:
      return fmt::format("long of {}", value.text().size());
    case PickleKind::kFloat:
      return fmt::format("{}", value.number);
    case PickleKind::kString:
      return fmt::format("'{}'", value.text());
    case PickleKind::kBytes:
      return fmt::format("b'{}'", value.text());
    case PickleKind::kGlobal:
      return std::string(pickle.name(value));
    case PickleKind::kTuple:
      return fmt::format("({})", list(pickle.items(value)));
    case PickleKind::kList:
      return fmt::format("[{}]", list(pickle.items(value)));
    case PickleKind::kSet:
      return fmt::format("set({})", list(pickle.items(value)));
    case PickleKind::kDict:
      return fmt::format("{{{}}}", list(pickle.items(value)));
    case PickleKind::kPersistent:
      return fmt::format("id {}", list(pickle.items(value)));
    case PickleKind::kObject:
      break;
  }
  const PickleObject& object = pickle.object(value);
  std::string text = Show(pickle, object.callable) + Show(pickle, object.args);
  if (!object.items.empty()) text += fmt::format(" with {}", list(object.items));
  if (!object.state.is(PickleKind::kNone)) text += fmt::format(" state {}", Show(pickle, object.state));
  return text;
}

std::string Show(const std::string& bytes) {
  size_t used = 0;
  const Pickle pickle = Pickle::Read(AsBytes(bytes), "p", &used);
  EXPECT_EQ(used, bytes.size());
  return Show(pickle, pickle.root());
}

std::string Refusal(const std::string& bytes) {
  size_t used = 0;
  return ErrorMessage([&] { Pickle::Read(AsBytes(bytes), "p", &used); });
}

TEST(Pickle, ProtocolZeroIsLines) {
  EXPECT_EQ(Show("I5\n."), "5");
  EXPECT_EQ(Show("I01\n."), "True");
  EXPECT_EQ(Show("L-7L\n."), "-7");
  EXPECT_EQ(Show("L123456789012345678901234567890L\n."), "long of 30");
  EXPECT_EQ(Show("F-1.5e3\n."), "-1500");
  EXPECT_EQ(Show("S'a\\x41\\n\\'b'\n."), "'aA\n'b'");
  EXPECT_EQ(Show("Vf\\u00e9\\U0001F600\xe9\n."), "'fé😀é'");
  EXPECT_EQ(Show("(lp0\nI1\naI2\nag0\n0."), "[1, 2]");
  EXPECT_EQ(Show("(dS'k'\nNs."), "{'k', None}");
  EXPECT_EQ(Show("(I1\nI2\nt."), "(1, 2)");
  EXPECT_EQ(Show("Pname\n."), "id 'name'");
  EXPECT_EQ(Show("cm\nf\n(I1\ntR."), "m.f(1)");
  EXPECT_EQ(Show("(I1\nim\nC\n(dS's'\nI2\nsb."), "m.C(1) state {'s', 2}");
}

TEST(Pickle, LaterProtocolsAreBinary) {
  EXPECT_EQ(Show("\x80\x02J\xfe\xff\xff\xffK\x07M\x01\x02\x87."), "(-2, 7, 513)");
  EXPECT_EQ(Show("\x88\x89\x86."), "(True, False)");
  EXPECT_EQ(Show("G\x3f\xf8\0\0\0\0\0\0."s), "1.5");
  EXPECT_EQ(Show("\x8a\0."s), "0");
  EXPECT_EQ(Show("\x8a\x02\xff\xff."s), "-1");
  EXPECT_EQ(Show("\x8a\x08\0\0\0\0\0\0\0\x80."s), "-9223372036854775808");
  EXPECT_EQ(Show("\x8b\x09\0\0\0\0\0\0\0\0\0\0\0\x01."s), "long of 9");
  EXPECT_EQ(Show("U\x02xyX\x01\0\0\0z\x86."s), "('xy', 'z')");
  EXPECT_EQ(Show("C\x01q\x96\x01\0\0\0\0\0\0\0r\x86."s), "(b'q', b'r')");
  EXPECT_EQ(Show("\x80\x04\x95\x0b\0\0\0\0\0\0\0\x8c\x01m\x94\x8c\x01"
                 "C\x94\x93)\x81."s),
            "m.C()");
  EXPECT_EQ(Show("\x8f(K\x01K\x02\x90."), "set(1, 2)");
  EXPECT_EQ(Show("(K\x01\x91."), "set(1)");
  EXPECT_EQ(Show("](K\x01K\x02"
                 "eq\x05h\x05\x86."),
            "([1, 2], [1, 2])");
  EXPECT_EQ(Show("}(K\x01K\x02uK\x03K\x04s."), "{1, 2, 3, 4}");
  EXPECT_EQ(Show("(cm\nC\nK\x01o."), "m.C(1)");
  EXPECT_EQ(Show("cm\nD\n)R(K\x01K\x02u."), "m.D() with 1, 2");
  EXPECT_EQ(Show("cm\nD\n)}\x92."), "m.D()");
  EXPECT_EQ(Show("K\x01"
                 "2\x86."),
            "(1, 1)");
  EXPECT_EQ(Show("K\x01(K\x02K\x03"
                 "1."),
            "1");
}

TEST(Pickle, DamageIsRefused) {
  for (const std::string& bytes : {""s,
                                   "N"s,
                                   "."s,
                                   "0."s,
                                   "e."s,
                                   "K"s,
                                   "X\xff\xff\xff\xff."s,
                                   "\x8e\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                   "I\n."s,
                                   "Ix\n."s,
                                   "I5"s,
                                   "Sx\n."s,
                                   "S'\n."s,
                                   "h\1."s,
                                   "gx\n."s,
                                   "q\1."s,
                                   "Nb."s,
                                   "(K\1d."s,
                                   "(K\1u."s,
                                   "NNa."s,
                                   "\x80\x06N."s,
                                   "\x82\1."s,
                                   "\x97."s,
                                   "\xff."s,
                                   "(o."s,
                                   "NN\x93."s,
                                   "\x95\xff\0\0\0\0\0\0\0N."s,
                                   "(NR."s,
                                   "F\n."s,
                                   "cm\nC\n)R(K\1eK\1K\1s."s}) {
    EXPECT_NE(Refusal(bytes), "") << testing::PrintToString(bytes);
  }
  EXPECT_EQ(Refusal("\xff."),
            "p: the pickle is damaged, or none: instruction 0xff, which this reader does not know "
            "before byte 1");
}

TEST(Pickle, DepthNeedsNoStackOfTheProgram) {
  constexpr size_t kDepth = 100'000;
  std::string tuples = "N", lists, dicts;
  for (size_t i = 0; i < kDepth; ++i) tuples += '\x85', lists += ']', dicts += "}K\x01";
  size_t used = 0;
  EXPECT_EQ(Pickle::Read(AsBytes(tuples + "."), "p", &used).root().kind, PickleKind::kTuple);
  lists += std::string(kDepth - 1, 'a') + ".";
  EXPECT_EQ(Pickle::Read(AsBytes(lists), "p", &used).root().kind, PickleKind::kList);
  dicts += "N" + std::string(kDepth, 's') + ".";
  const Pickle deep = Pickle::Read(AsBytes(dicts), "p", &used);
  EXPECT_EQ(deep.root().kind, PickleKind::kDict);
  EXPECT_TRUE(ReadTorchContents(deep, "p").dictionaries.empty());
  const std::string marks(5'000'000, '(');
  EXPECT_NE(Refusal(marks).find("stack of more than"), std::string::npos);
  EXPECT_NE(Refusal(std::string(5'000'000, 'N')).find("stack of more than"), std::string::npos);
}

TEST(Pickle, MemoryIsLimited) {
  const int64_t before = MemoryLimit();
  SetMemoryLimit(1 << 20);
  std::string memo = "N";
  for (uint32_t i = 0; i < 50'000; ++i) {
    memo += 'r';
    for (int byte = 0; byte < 4; ++byte) memo += static_cast<char>(i * 80'000 >> (8 * byte));
  }
  EXPECT_NE(Refusal(memo + ".").find("would need more than"), std::string::npos);
  std::string lists;
  for (int i = 0; i < 100'000; ++i) lists += "]0";
  EXPECT_NE(Refusal(lists + "N.").find("would need more than"), std::string::npos);
  SetMemoryLimit(before);
}

// Six bytes that name a text of 200,000: without a limit, this file of 320 kB took half a minute.
TEST(Pickle, NamesOfGlobalsAreShort) {
  const auto file = [](size_t length, size_t times) {
    std::string bytes = "\x80\x04X"s;
    for (int byte = 0; byte < 4; ++byte) bytes += static_cast<char>(length >> (8 * byte));
    bytes += std::string(length, 'a') +
             "\x94"
             "0";
    for (size_t i = 0; i < times; ++i) bytes += "h\0h\0\x93"s + "0";
    return bytes + "N.";
  };
  EXPECT_NE(Refusal(file(200'000, 20'000)).find("at most 256"), std::string::npos);
  size_t used = 0;
  EXPECT_EQ(Pickle::Read(AsBytes(file(128, 20'000)), "p", &used).globals().size(), 1u);
}

// --- What PyTorch's names mean.

TorchContents Contents(const std::string& bytes) {
  size_t used = 0;
  const Pickle pickle = Pickle::Read(AsBytes(bytes), "p", &used);
  return ReadTorchContents(pickle, "p");
}

// An instruction for a tensor of storage `key`.
std::string TensorPickle(const std::string& size, const std::string& stride, const std::string& offset = "K\x01",
                         const std::string& type = "FloatStorage", const std::string& elements = "K\x08") {
  return "ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\n" + type +
         "\nU\x01"
         "0U\x03"
         "cpu" +
         elements + "tQ" + offset + size + stride + "\x89" + "ccollections\nOrderedDict\n)RtR";
}
std::string Dictionary(const std::string& tensor) { return "}U\x01w" + tensor + "s."; }

TEST(TorchPickle, ReadsAView) {
  const TorchContents read = Contents(Dictionary(TensorPickle("K\2K\3\x86", "K\3K\1\x86")));
  ASSERT_EQ(read.dictionaries.size(), 1u);
  const TorchTensor& tensor = read.dictionaries[0].tensors.at(0);
  EXPECT_EQ(tensor.name, "w");
  EXPECT_EQ(tensor.shape, Shape({2, 3}));
  EXPECT_EQ(tensor.offset, 1u);
  EXPECT_EQ(tensor.strides[0], 3);
  EXPECT_EQ(read.storages.at(0).elements, 8u);
}

TEST(TorchPickle, RefusesOtherArguments) {
  const std::string good = "K\2\x85", negative = "J\xff\xff\xff\xff\x85";
  EXPECT_MESSAGE(Contents(Dictionary(TensorPickle(negative, good))), "not what PyTorch writes");
  EXPECT_MESSAGE(Contents(Dictionary(TensorPickle(good, negative))), "not what PyTorch writes");
  EXPECT_MESSAGE(Contents(Dictionary(TensorPickle(good, ")"))), "not what PyTorch writes");
  EXPECT_MESSAGE(Contents(Dictionary(TensorPickle(good, good, "N"))), "not what PyTorch writes");
  EXPECT_MESSAGE(Contents(Dictionary(TensorPickle(good, good, "K\1", "SecretStorage"))), "not what PyTorch writes");
  EXPECT_MESSAGE(Contents(Dictionary("ctorch._utils\n_rebuild_tensor_v2\n)R")), "with 0 arguments");
  const std::string large = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", twice = large + large + "\x86";
  EXPECT_MESSAGE(Contents(Dictionary(TensorPickle(twice, twice))), "more elements");
  EXPECT_MESSAGE(Contents("}(U\x01"
                          "a" +
                          TensorPickle(good, good) +
                          "U\x01"
                          "b" +
                          TensorPickle(good, good, "K\1", "HalfStorage") + "u."),
                 "elsewhere");
}

TEST(TorchPickle, SharedAndCyclicObjectsTakeLittleTime) {
  // 64 dictionaries, each of which holds the next one twice: 2^64 paths.
  std::string dag = "}q\0"s;
  for (int i = 1; i < 64; ++i) {
    dag += fmt::format(
        "}}(U\x01"
        "ah{0}U\x01"
        "bh{0}uq{1}",
        static_cast<char>(i - 1), static_cast<char>(i));
  }
  EXPECT_TRUE(Contents(dag + ".").dictionaries.empty());
  EXPECT_TRUE(Contents("}q\1U\1ah\1s.").dictionaries.empty());
  // Modules likewise.
  std::string modules =
      "cm\nM\n)\x81}(U\x08_modules}U\x0b_parameters}U\x01w" + TensorPickle("K\2\x85", "K\1\x85") + "sub";
  for (int i = 0; i < 60; ++i) {
    modules += fmt::format(
        "q{0}0cm\nM\n)\x81}}(U\x08_modules}}(U\x01"
        "ah{0}U\x01"
        "bh{0}uU\x0b_parameters}}ub",
        static_cast<char>(i));
  }
  EXPECT_MESSAGE(Contents(modules + "."), "more than");
  // Buffers that are left out, all of the same long name.
  std::string buffers = "Xcccc", name(1 << 20, 'a');
  for (int byte = 0; byte < 4; ++byte)
    buffers[1 + static_cast<size_t>(byte)] = static_cast<char>(name.size() >> (8 * byte));
  buffers += name + "q\1" +
             "0cm\nM\n)\x81}(U\x08_modules}U\x0b_parameters}U\x1b_non_persistent_buffers_set](h\1eU\x08_buffers}(";
  for (int i = 0; i < 100; ++i) buffers += "h\1K\1";
  EXPECT_MESSAGE(Contents(buffers + "uub."), "of names");
}

}  // namespace
}  // namespace qkv::io
