// Files that lie. Each is refused with an error that names the file and what is wrong: never a crash, never a read
// outside the file, and little memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>

#include "qkv/io/safetensors.h"
#include "tests/io/support.h"
#include "tests/support/files.h"

namespace qkv::io {
namespace {

struct Case {
  const char* name;
  std::string header;
  std::string message;
  std::string data = std::string(8, '\0');

  friend void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }
};

std::string Entry(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}})", name, dtype, shape, offsets);
}
std::string One(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "{" + Entry("w", dtype, shape, offsets) + "}";
}
std::string Two(const std::string& a, const std::string& b) { return "{" + a + "," + b + "}"; }

class LyingHeader : public testing::TestWithParam<Case> {};

TEST_P(LyingHeader, IsRefused) {
  const std::string file = MakeFile(GetParam().header, GetParam().data);
  const std::string message = ErrorMessage([&] { SafeTensors::FromBytes(AsBytes(file), "some.file"); });
  EXPECT_TRUE(message.starts_with("some.file: ")) << message;
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_LT(message.size(), 500u);
}

INSTANTIATE_TEST_SUITE_P(
    Offsets, LyingHeader,
    testing::Values(
        Case{"Overlap", Two(Entry("a", "F32", "1", "0,4"), Entry("b", "F32", "1", "2,6")), "overlaps"},
        Case{"SameBytesTwice", Two(Entry("a", "F32", "2", "0,8"), Entry("b", "F32", "2", "0,8")), "overlaps"},
        Case{"Hole", Two(Entry("a", "U8", "3", "0,3"), Entry("b", "F32", "1", "4,8")), "hole"},
        Case{"HoleAtTheStart", One("F32", "1", "4,8"), "hole"},
        Case{"BytesLeftOver", One("F32", "1", "0,4"), "4 bytes behind the last tensor"},
        Case{"BytesWithoutTensors", "{}", "8 bytes behind the last tensor"},
        Case{"BehindTheEnd", One("F32", "3", "0,12"), "ends at byte 12 of 8"},
        Case{"FarBehindTheEnd", One("U8", "18446744073709551615", "0,18446744073709551615"), "too large"},
        Case{"Descending", One("F32", "2", "8,0"), "ascending"}, Case{"TooFew", One("F32", "2", "8"), "two numbers"},
        Case{"TooMany", One("F32", "2", "0,8,8"), "more than 2"}, Case{"None", One("F32", "2", ""), "two numbers"},
        Case{"Negative", One("F32", "2", "-8,0"), "negative"}, Case{"Fraction", One("F32", "2", "0,8.0"), "fraction"},
        Case{"Exponent", One("F32", "2", "0,8e0"), "fraction"},
        Case{"BeyondSixtyFourBits", One("F32", "2", "0,18446744073709551624"), "fraction, or a number beyond"},
        Case{"BeyondDoubles", One("F32", "2", "0,1e999"), "not valid JSON"},
        Case{"Strings", One("F32", "2", "\"0\",\"8\""), "a string"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Shapes, LyingHeader,
    testing::Values(
        Case{"TooSmall", One("F32", "1", "0,8"), "has 8 bytes, but [1] of F32 needs 4"},
        Case{"TooLarge", One("F32", "3", "0,8"), "needs 12"},
        Case{"ScalarWithoutBytes", Two(Entry("a", "F64", "", "0,0"), Entry("b", "F32", "2", "0,8")), "needs 8"},
        Case{"ProductOverflows", One("F32", "4294967296,4294967296", "0,0"), "more elements"},
        Case{"ProductWrapsToTheTruth", One("F32", "4294967298,2147483648,2,1", "0,8"), "more elements"},
        Case{"BytesOverflow", One("F64", "4611686018427387904", "0,8"), "more than 64 bits count"},
        Case{"OverflowHiddenByZero", One("F32", "0,9223372036854775807,9223372036854775807", "0,0"), "more elements"},
        Case{"ExtentBeyondSigned", One("F32", "9223372036854775808", "0,8"), "too large"},
        Case{"Negative", One("F32", "-2", "0,8"), "negative"}, Case{"MinusZero", One("F32", "-0", "0,8"), "negative"},
        Case{"Fraction", One("F32", "2.0", "0,8"), "fraction"},
        Case{"TooManyAxes", One("F32", "1,1,1,1,1,1,2", "0,8"), "more than 6"},
        Case{"NestedAxes", One("F32", "[2]", "0,8"), "nested"}, Case{"Boolean", One("F32", "true", "0,8"), "a boolean"},
        Case{"Null", One("F32", "null", "0,8"), "null"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Names, LyingHeader,
    testing::Values(
        Case{"Twice", Two(Entry("w", "F32", "1", "0,4"), Entry("w", "F32", "1", "4,8")), "\"w\" appears twice"},
        Case{"TwiceByEscape", Two(Entry("w", "F32", "1", "0,4"), Entry("\\u0077", "F32", "1", "4,8")),
             "\"w\" appears twice"},
        Case{"TwiceEmpty", Two(Entry("w", "F32", "2", "0,8"), Entry("w", "F32", "0", "0,0")), "\"w\" appears twice"},
        Case{"FieldTwice", R"({"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
             "\"dtype\" appears twice"},
        Case{"OffsetsTwice", R"({"w":{"dtype":"F32","data_offsets":[0,0],"shape":[2],"data_offsets":[0,8]}})",
             "\"data_offsets\" appears twice"},
        Case{"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", "__metadata__ appears twice", ""},
        Case{"MetadataLineTwice", R"({"__metadata__":{"a":"1","a":"2"}})", "\"a\" appears twice", ""},
        Case{"UnknownField", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1}})", "\"extra\""},
        Case{"UnknownType", One("F33", "2", "0,8"), "unknown dtype \"F33\""},
        Case{"LowerCaseType", One("f32", "2", "0,8"), "unknown dtype \"f32\""},
        Case{"NoType", R"({"w":{"shape":[2],"data_offsets":[0,8]}})", "no dtype"},
        Case{"NoShape", R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", "no shape"},
        Case{"NoOffsets", R"({"w":{"dtype":"F32","shape":[2]}})", "no data_offsets"},
        Case{"TypeIsANumber", R"({"w":{"dtype":32,"shape":[2],"data_offsets":[0,8]}})", "a number"},
        Case{"TypeIsAnArray", R"({"w":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})", "an array"},
        Case{"ShapeIsANumber", R"({"w":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "a number"},
        Case{"ShapeIsATable", R"({"w":{"dtype":"F32","shape":{"a":1},"data_offsets":[0,8]}})", "an object"},
        Case{"ControlCharacters", R"({"\u001b[31mred":{"dtype":"\u001b","shape":[],"data_offsets":[0,8]}})",
             "\"\\u001b[31mred\""}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Junk, LyingHeader,
    testing::Values(
        Case{"Empty", "", "does not begin with {"}, Case{"Array", "[]", "does not begin with {"},
        Case{"SpaceFirst", " {}", "does not begin with {"},
        Case{"ByteOrderMark", "\xEF\xBB\xBF{}", "does not begin with {"},
        Case{"EntryIsANumber", R"({"w":1})", "a number", ""}, Case{"EntryIsAString", R"({"w":"x"})", "a string", ""},
        Case{"EntryIsAnArray", R"({"w":[]})", "an array", ""}, Case{"EntryIsNull", R"({"w":null})", "null", ""},
        Case{"EntryIsEmpty", R"({"w":{}})", "no dtype", ""},
        Case{"EntryInEntry", R"({"w":{"dtype":{"dtype":"F32"}}})", "an object", ""},
        Case{"NestedDeeply", R"({"w":)" + std::string(100000, '[') + "}", "nested", ""},
        Case{"MetadataIsAString", R"({"__metadata__":"x"})", "a string", ""},
        Case{"MetadataOfNumbers", R"({"__metadata__":{"a":1}})", "a number", ""},
        Case{"MetadataOfNull", R"({"__metadata__":{"a":null}})", "null", ""},
        Case{"MetadataOfTables", R"({"__metadata__":{"a":{}}})", "an object", ""},
        Case{"MetadataOfArrays", R"({"__metadata__":{"a":["b"]}})", "an array", ""},
        Case{"Unclosed", R"({"w":{"dtype":"F32")", "not valid JSON", ""},
        Case{"TrailingComma", R"({"__metadata__":{},})", "not valid JSON", ""},
        Case{"Comment", "{/* hello */}", "not valid JSON", ""}, Case{"TwoDocuments", "{}{}", "not valid JSON", ""},
        Case{"JunkBehind", "{} x", "not valid JSON", ""},
        Case{"JunkBehindAZero", std::string("{}\0junk", 7), "zero byte", ""},
        Case{"PaddedByZeros", std::string("{}\0\0\0\0\0\0", 8), "zero byte", ""},
        Case{"InvalidUtf8", "{\"\xC0\xAF\":1}", "not valid JSON", ""},
        Case{"LoneSurrogate", R"({"\ud800":1})", "not valid JSON", ""},
        Case{"HexNumber", One("F32", "0x2", "0,8"), "not valid JSON"},
        Case{"LeadingZero", One("F32", "02", "0,8"), "not valid JSON"},
        Case{"NaN", One("F32", "NaN", "0,8"), "not valid JSON"}),
    [](const auto& test) { return test.param.name; });

const std::string kHonest =
    MakeFile(Two(R"("__metadata__":{"format":"pt"})", Entry("w", "F32", "2", "0,8")) + "  ", std::string(8, 'x'));

TEST(TruncatedFile, IsRefusedAtEveryLength) {
  ASSERT_NO_THROW(SafeTensors::FromBytes(AsBytes(kHonest), "here"));
  for (size_t length = 0; length < kHonest.size(); ++length) {
    // A copy of its own, so that address sanitizer sees a read behind its end.
    const std::vector<char> copy(kHonest.begin(), kHonest.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_THROW(SafeTensors::FromBytes(AsBytes({copy.data(), copy.size()}), "here"), Error) << length;
  }
}

TEST(DamagedFile, IsReadOrRefused) {
  for (size_t at = 0; at < kHonest.size(); ++at) {
    for (const int flip : {0x01, 0x02, 0x20, 0x80, 0xFF}) {
      std::string file = kHonest;
      file[at] = static_cast<char>(file[at] ^ flip);
      try {
        SafeTensors::FromBytes(AsBytes(file), "here");
      } catch (const Error&) {
      }
    }
  }
}

TEST(HeaderLength, IsRefusedWhenItLies) {
  const auto refused = [](int64_t length) {
    const std::string file = MakeFile("{}", "", length);
    return ErrorMessage([&] { SafeTensors::FromBytes(AsBytes(file), "here"); });
  };
  EXPECT_NE(refused(3).find("the file ends after 2"), std::string::npos);
  EXPECT_NE(refused(100'000'000).find("the file ends after 2"), std::string::npos);
  EXPECT_NE(refused(100'000'001).find("at most 100000000"), std::string::npos);
  EXPECT_NE(refused(INT64_MAX).find("at most 100000000"), std::string::npos);
  EXPECT_NE(refused(1).find("not valid JSON"), std::string::npos);
  EXPECT_NE(refused(0).find("does not begin with {"), std::string::npos);
  const std::string all_ones(16, '\xFF');
  EXPECT_MESSAGE(SafeTensors::FromBytes(AsBytes(all_ones), "here"), "at most 100000000");
}

TEST(EmptyFile, IsRefused) {
  const TemporaryFolder folder;
  WriteFile(folder / "empty.safetensors", "");
  EXPECT_MESSAGE(SafeTensors::Open(folder / "empty.safetensors"), "too short");
}

// 100 MB of JSON, in the shapes that cost a parser most. Memory is what the process has ever used, so each case may
// raise it by little; time is generous, for sanitizers.
class HugeHeader : public testing::Test {
 protected:
  static constexpr size_t kBytes = 99'999'000;

  static int64_t PeakMegabytes() {
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  }

  static std::string Repeated(std::string_view begin, std::string_view piece, std::string_view end) {
    std::string text(begin);
    text.reserve(kBytes + 16);
    while (text.size() + piece.size() + end.size() <= kBytes) text += piece;
    return MakeFile(text.append(end), "");
  }

  static std::string EmptyTensors(size_t bytes) {
    std::string header = "{\"0\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    header.reserve(bytes + 100);
    for (int i = 1; header.size() < bytes; ++i) {
      header += fmt::format(",\"{}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", i);
    }
    return MakeFile(header + "}");
  }

  static void ExpectRefused(const std::string& file, std::string_view part) {
    const int64_t before = PeakMegabytes();
    const std::clock_t start = std::clock();  // of the processor: nobody else's work counts
    EXPECT_MESSAGE(SafeTensors::FromBytes(AsBytes(file), "here"), part);
    EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20);
    EXPECT_LT(PeakMegabytes() - before, 400);
  }
};

TEST_F(HugeHeader, OfOneName) { ExpectRefused(Repeated("{\"", "aaaaaaaaaaaaaaaa", "\":1}"), "a string or number"); }
TEST_F(HugeHeader, OfEscapes) { ExpectRefused(Repeated("{\"", "\\\"\\\\\\u0041", "\":1}"), "a string or number"); }
TEST_F(HugeHeader, OfOneNumber) { ExpectRefused(Repeated("{\"a\":", "1234567890", "}"), "a string or number"); }
TEST_F(HugeHeader, OfOpenArrays) { ExpectRefused(Repeated("{", "[[[[[[[[", ""), "nested"); }
TEST_F(HugeHeader, OfOpenTables) { ExpectRefused(Repeated("", "{\"a\":", ""), "nested"); }
TEST_F(HugeHeader, OfNumbers) { ExpectRefused(Repeated("{\"a\":[1", ",1", "]}"), "values"); }
TEST_F(HugeHeader, OfMetadata) {
  ExpectRefused(Repeated("{\"__metadata__\":{\"x\":\"\"", ",\"\":\"\"", "}}"), "values");
}
TEST_F(HugeHeader, OfEmptyTensors) { ExpectRefused(EmptyTensors(kBytes), "values"); }
TEST_F(HugeHeader, OfFewerEmptyTensors) { ExpectRefused(EmptyTensors(20'000'000), "more than 262144 tensors"); }
TEST_F(HugeHeader, OfSpaces) {  // that is no lie
  const std::string file = Repeated("{", "                ", "}");
  EXPECT_TRUE(SafeTensors::FromBytes(AsBytes(file), "here").tensors().empty());
}

}  // namespace
}  // namespace qkv::io
