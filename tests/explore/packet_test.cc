// Packets as bytes, and bytes that are none.
#include "qkv/explore/packet.h"

#include <gtest/gtest.h>

#include <limits>

#include "qkv/core/rng.h"
#include "tests/support/errors.h"

namespace qkv::explore {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

// A packet of this JSON and these bytes behind it.
std::string Raw(const std::string& json, const std::string& data = "") {
  std::string bytes(4, '\0');
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i) & 0xFF);
  bytes += json;
  bytes.resize((bytes.size() + 7) / 8 * 8);
  return bytes + data;
}

std::string Refusal(const std::string& bytes) {
  return ErrorMessage([&] { Decode(BytesOf(bytes)); });
}

Packet Small() {
  Packet packet;
  packet.json = {{"model", "digits"}, {"number", 2.5}, {"text", "città"}};
  Tensor<float> floats({2, 3});
  for (int64_t i = 0; i < 6; ++i) floats[i] = static_cast<float>(i) / 3;
  Tensor<uint8_t> bytes({5});
  for (int64_t i = 0; i < 5; ++i) bytes[i] = static_cast<uint8_t>(50 * i);
  Tensor<int32_t> whole({1, 1, 2});
  whole[0] = -7, whole[1] = std::numeric_limits<int32_t>::max();
  packet.arrays["floats"] = MakeArray(floats), packet.arrays["bytes"] = MakeArray(bytes);
  packet.arrays["whole"] = MakeArray(whole), packet.arrays["none"] = MakeArray(std::string_view());
  return packet;
}

TEST(Packet, ComesBackFromBytes) {
  const Packet packet = Small();
  const std::string bytes = Encode(packet);
  EXPECT_EQ(bytes.size() % 8, 0u);
  const Packet back = Decode(BytesOf(bytes));
  EXPECT_EQ(back.json, packet.json);
  ASSERT_EQ(back.arrays.size(), packet.arrays.size());
  for (const auto& [name, array] : packet.arrays) {
    const Array* const found = back.Find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->type, array.type) << name;
    EXPECT_EQ(found->shape, array.shape) << name;
    EXPECT_EQ(found->bytes, array.bytes) << name;
  }
  EXPECT_EQ(back.Find("floats")->As<float>()[4], 4.0f / 3);
  EXPECT_EQ(back.Find("whole")->As<int32_t>()[0], -7);
  EXPECT_EQ(back.Find("absent"), nullptr);
  EXPECT_NE(ErrorMessage([&] { back.Find("floats")->As<uint8_t>(); }), "");
  EXPECT_EQ(Encode(back), bytes);
}

// A length of 123 bytes begins with '{' too.
TEST(Packet, JsonOfAnyLengthIsNoText) {
  for (size_t length = 2; length < 600; ++length) {
    Packet packet;
    packet.json = {{"a", std::string(length, 'x')}};
    EXPECT_EQ(Decode(BytesOf(Encode(packet))).json, packet.json) << length;
  }
}

TEST(Packet, PlainJsonIsAPacket) {
  EXPECT_EQ(Decode(BytesOf(R"({"model": "digits"})")).json["model"], "digits");
  EXPECT_TRUE(Decode(BytesOf("{}")).json.empty());
  EXPECT_NE(Refusal(R"({"arrays": {}})"), "");
  EXPECT_NE(Refusal("{"), "");
}

TEST(Packet, TextsThatAreNoUtf8AreReplaced) {
  Packet packet;
  packet.json["name"] = "a\xff";
  EXPECT_NO_THROW(Decode(BytesOf(Encode(packet))));
}

TEST(Packet, BytesThatAreNoneAreRefused) {
  EXPECT_NE(Refusal(""), "");
  EXPECT_NE(Refusal("abc"), "");
  EXPECT_NE(Refusal(std::string(4, '\xff')), "");
  EXPECT_NE(Refusal(Raw("[1]")), "");
  EXPECT_NE(Refusal(Raw("{\"a\": ")), "");
  EXPECT_NE(Refusal(Raw(std::string(100, '['))), "");
  EXPECT_NE(Refusal(Raw("{\"arrays\": 1}")), "");
  const auto array = [](const std::string& facts) { return Raw("{\"arrays\": {\"a\": " + facts + "}}", "12345678"); };
  EXPECT_EQ(Refusal(array(R"({"dtype": "u8", "shape": [8], "offset": 0, "bytes": 8})")), "");
  EXPECT_EQ(Refusal(array(R"({"dtype": "f32", "shape": [2, 1], "offset": 0, "bytes": 8})")), "");
  EXPECT_EQ(Refusal(array(R"({"dtype": "u8", "shape": [0, 9], "offset": 8, "bytes": 0})")), "");
  for (const char* facts :
       {R"(1)", R"({})", R"({"dtype": "u8", "shape": [8], "offset": 0})",
        R"({"dtype": "f64", "shape": [1], "offset": 0, "bytes": 8})",
        R"({"dtype": 1, "shape": [8], "offset": 0, "bytes": 8})",
        R"({"dtype": "u8", "shape": [8], "offset": 1, "bytes": 8})",
        R"({"dtype": "u8", "shape": [8], "offset": -8, "bytes": 8})",
        R"({"dtype": "u8", "shape": [8], "offset": 18446744073709551608, "bytes": 8})",
        R"({"dtype": "u8", "shape": [8], "offset": 0, "bytes": 9223372036854775807})",
        R"({"dtype": "u8", "shape": [9], "offset": 0, "bytes": 8})",
        R"({"dtype": "u8", "shape": [-8], "offset": 0, "bytes": 8})",
        R"({"dtype": "u8", "shape": [8.0], "offset": 0, "bytes": 8})",
        R"({"dtype": "u8", "shape": 8, "offset": 0, "bytes": 8})",
        R"({"dtype": "u8", "shape": [1,1,1,1,1,1,8], "offset": 0, "bytes": 8})",
        R"({"dtype": "f32", "shape": [8], "offset": 0, "bytes": 8})",
        R"({"dtype": "u8", "shape": [2147483647, 2147483647, 2147483647], "offset": 0, "bytes": 8})"}) {
    EXPECT_NE(Refusal(array(facts)), "") << facts;
  }
}

// Arrays may share bytes, but must not be more than was sent.
TEST(Packet, BytesAreNotMultiplied) {
  std::string arrays;
  for (int i = 0; i < 60; ++i) {
    arrays +=
        (i ? ", \"" : "\"") + std::to_string(i) + R"(": {"dtype": "u8", "shape": [4096], "offset": 0, "bytes": 4096})";
  }
  EXPECT_NE(Refusal(Raw("{\"arrays\": {" + arrays + "}}", std::string(4096, 'x'))), "");
}

TEST(Packet, DamagedBytesAreAPacketOrAnError) {
  const std::string bytes = Encode(Small());
  Rng rng(3);
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = bytes.substr(0, rng.Next() % 4 == 0 ? rng.Next() % bytes.size() : bytes.size());
    for (uint64_t n = rng.Next() % 4; n > 0 && !damaged.empty(); --n) {
      damaged[rng.Next() % damaged.size()] = static_cast<char>(rng.Next());
    }
    try {
      const Packet packet = Decode(BytesOf(damaged));
      for (const auto& [name, array] : packet.arrays) EXPECT_LE(array.bytes.size(), damaged.size()) << name;
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace qkv::explore
