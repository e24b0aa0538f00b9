#include "tests/hostile/mutate.h"

#include <algorithm>
#include <cstring>

#include "qkv/core/error.h"
#include "qkv/core/rng.h"
#include "qkv/io/json.h"

namespace qkv::hostile {
namespace {

constexpr std::array<uint64_t, 12> kExtremeIntegers = {0,
                                                       1,
                                                       0x7F,
                                                       0xFF,
                                                       0x7FFF,
                                                       0xFFFF,
                                                       0x7FFFFFFF,
                                                       0x80000000,
                                                       0xFFFFFFFF,
                                                       0x7FFFFFFFFFFFFFFF,
                                                       0x8000000000000000,
                                                       0xFFFFFFFFFFFFFFFF};

constexpr std::array<std::string_view, 20> kNumberTexts = {"0",
                                                           "-1",
                                                           "-0",
                                                           "2147483647",
                                                           "2147483648",
                                                           "4294967295",
                                                           "9223372036854775807",
                                                           "18446744073709551615",
                                                           "1e18",
                                                           "1e308",
                                                           "1e400",
                                                           "-1e400",
                                                           "1e-400",
                                                           "NaN",
                                                           "Infinity",
                                                           "0x7fffffff",
                                                           "007",
                                                           "1.5",
                                                           "99999999999999999999999999999999",
                                                           ""};

// Values of each type, put where another stood. Raw JSON: some are none.
std::vector<std::string> HostileValues() {
  return {"null",
          "true",
          "0",
          "-1",
          "1.5",
          "2147483647",
          "4294967295",
          "-9223372036854775808",
          "9223372036854775807",
          "18446744073709551615",
          "1e308",
          "1e400",
          "NaN",
          "\"\"",
          "\"\\u001b[31m\\r\\nqkv: forged\"",
          "\"../../../etc/passwd\"",
          "\"" + std::string(3000, 'x') + "\"",
          "\"\xff\xfe\"",
          "[]",
          "[[], {}, null]",
          "{}",
          "{\"a\": {\"b\": 1}}",
          std::string(40, '[') + std::string(40, ']')};
}

std::vector<std::string> HostileTexts() {
  return {std::string(1, '\0'),
          "\x1b[2J\x1b]0;title\x07",
          "\r\nqkv: forged line\n",
          "\xff\xfe\xc0\x80",
          "\xed\xa0\x80",      // a surrogate
          "\xe2\x80\xae",      // right to left
          "\xf4\x90\x80\x80",  // beyond Unicode
          std::string(70'000, 'x'),
          std::string(20'000, '['),
          std::string(20'000, '{') + "\"a\":",
          "\"\"\"\"",
          "\\u0000\\ud800",
          "%s%n%s{}{0}",
          "../../../../etc/passwd",
          "/dev/zero",
          ",,,,,,\t\t\t\t",
          "&a [*a, *a]",
          std::string(3000, '\n')};
}

// A position in a file: every other time among the first 64 bytes, where formats say what they are.
size_t Place(Rng& rng, size_t size) {
  if (size == 0) return 0;
  return rng.Next() % (rng.Next() % 2 == 0 ? std::min<size_t>(size, 64) : size);
}

std::string Truncated(const std::string& bytes, size_t index, size_t rounds) {
  // The first lengths one by one, the last ones too, the rest evenly.
  const size_t size = bytes.size();
  if (index % 3 == 0) return bytes.substr(0, std::min(size, index / 3));
  if (index % 3 == 1) return bytes.substr(0, size - std::min(size, 1 + index / 3));
  return bytes.substr(0, size * index / std::max<size_t>(1, 3 * rounds));
}

void Flip(std::string& bytes, Rng& rng) {
  if (bytes.empty()) return;
  for (uint64_t flips = 1 + rng.Next() % 3; flips > 0; --flips) {
    bytes[Place(rng, bytes.size())] ^= static_cast<char>(1 << rng.Next() % 8);
  }
}

void PutExtreme(std::string& bytes, Rng& rng) {
  const size_t width = size_t{1} << rng.Next() % 4;
  if (bytes.size() < width) return;
  size_t at = std::min(Place(rng, bytes.size()), bytes.size() - width);
  if (rng.Next() % 4 != 0) at -= at % width;  // fields are aligned more often than not
  const uint64_t value = kExtremeIntegers[rng.Next() % kExtremeIntegers.size()];
  const bool big_endian = rng.Next() % 2 == 0;
  for (size_t i = 0; i < width; ++i) {
    bytes[at + (big_endian ? width - 1 - i : i)] = static_cast<char>(value >> (8 * i));
  }
}

void Shuffle(std::string& bytes, Rng& rng) {
  const size_t from = Place(rng, bytes.size());
  const size_t length = std::min(bytes.size() - from, 1 + rng.Next() % std::max<size_t>(1, bytes.size() / 3));
  const std::string piece = bytes.substr(from, length);
  switch (rng.Next() % 4) {
    case 0:
      bytes.erase(from, length);
      break;
    case 1:
      bytes.insert(from, piece);
      break;
    case 2:
      bytes.erase(from, length);
      bytes.insert(Place(rng, bytes.size()), piece);
      break;
    default:
      bytes.replace(from, length, length, '\0');
  }
}

void ReplaceNumber(std::string& bytes, Rng& rng) {
  constexpr std::string_view kDigits = "0123456789";
  size_t begin = bytes.find_first_of(kDigits, Place(rng, bytes.size()));
  if (begin == bytes.npos) begin = bytes.find_first_of(kDigits);
  if (begin == bytes.npos) return;
  const size_t end = std::min(bytes.find_first_not_of("0123456789.eE+-", begin), bytes.size());
  bytes.replace(begin, end - begin, kNumberTexts[rng.Next() % kNumberTexts.size()]);
}

// Every place in the JSON, the whole document among them.
std::vector<io::Json::json_pointer> Places(const io::Json& json) {
  std::vector<io::Json::json_pointer> found(1);
  for (size_t i = 0; i < found.size(); ++i) {
    const io::Json& value = json.at(found[i]);
    const io::Json::json_pointer here = found[i];
    if (value.is_object()) {
      for (const auto& [key, unused] : value.items()) found.push_back(here / key);
    } else if (value.is_array()) {
      for (size_t k = 0; k < std::min<size_t>(value.size(), 4); ++k) found.push_back(here / k);
    }
  }
  return found;
}

// The JSON with one value replaced, or, for the value behind the last, removed.
std::string WithField(const std::string& text, size_t number) {
  const std::vector<std::string> values = HostileValues();
  io::Json json = io::Json::parse(text);
  const std::vector<io::Json::json_pointer> places = Places(json);
  const io::Json::json_pointer& place = places[number / (values.size() + 1) % places.size()];
  const size_t value = number % (values.size() + 1);
  if (value == values.size()) {
    if (place.empty()) return "";
    io::Json& parent = json.at(place.parent_pointer());
    if (parent.is_array()) {
      parent.erase(std::stoul(place.back()));
    } else {
      parent.erase(place.back());
    }
    return json.dump();
  }
  constexpr std::string_view kMark = "\"@here@\"";
  json[place] = "@here@";
  std::string changed = json.dump();
  changed.replace(changed.find(kMark), kMark.size(), values[value]);
  return changed;
}

size_t CountFields(const Seed& seed) {
  return seed.json.empty() ? 0 : Places(io::Json::parse(seed.json)).size() * (HostileValues().size() + 1);
}

Mutant MutateField(const std::vector<Seed>& seeds, size_t index, size_t count) {
  size_t all = 0;
  for (const Seed& seed : seeds) all += CountFields(seed);
  // Evenly over all where there are more than are wanted; the stride keeps no value from its turn.
  size_t number =
      static_cast<size_t>(static_cast<double>(index) * static_cast<double>(all) / static_cast<double>(count));
  for (const Seed& seed : seeds) {
    const size_t fields = CountFields(seed);
    if (number < fields) return {&seed, seed.rebuild(WithField(seed.json, number))};
    number -= fields;
  }
  Fail("hostile: there is no field {}", index);
}

}  // namespace

std::string_view Name(Mutation mutation) {
  static constexpr std::array<std::string_view, kMutations.size()> kNames = {
      "Truncated", "Flipped", "Extreme", "Shuffled", "Spliced", "Numbers", "Text", "Fields"};
  return kNames[static_cast<size_t>(mutation)];
}

Seed JsonSeed(std::string name, std::string json) {
  return {
      .name = std::move(name), .bytes = json, .json = json, .rebuild = [](const std::string& text) { return text; }};
}

Seed SafeTensorsSeed(std::string name, std::string bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const std::string header = bytes.substr(8, length), data = bytes.substr(8 + length);
  return {
      .name = std::move(name), .bytes = std::move(bytes), .json = header, .rebuild = [data](const std::string& json) {
        const uint64_t size = json.size();
        std::string file(sizeof(size), '\0');
        std::memcpy(file.data(), &size, sizeof(size));
        return file + json + data;
      }};
}

size_t CountMutants(const std::vector<Seed>& seeds, Mutation mutation, size_t wanted) {
  if (mutation != Mutation::kFields) return wanted;
  size_t fields = 0;
  for (const Seed& seed : seeds) fields += CountFields(seed);
  return std::min(fields, 4 * wanted);
}

Mutant Mutate(const std::vector<Seed>& seeds, Mutation mutation, size_t index, size_t count) {
  if (mutation == Mutation::kFields) return MutateField(seeds, index, count);
  const Seed& seed = seeds[index % seeds.size()];
  const size_t round = index / seeds.size(), rounds = 1 + count / seeds.size();
  Rng rng(MixSeed(static_cast<uint64_t>(mutation), index));
  std::string bytes = seed.bytes;
  switch (mutation) {
    case Mutation::kTruncated:
      bytes = Truncated(bytes, round, rounds);
      break;
    case Mutation::kFlipped:
      Flip(bytes, rng);
      break;
    case Mutation::kExtreme:
      PutExtreme(bytes, rng);
      break;
    case Mutation::kShuffled:
      Shuffle(bytes, rng);
      break;
    case Mutation::kSpliced: {
      const std::string& other = seeds[rng.Next() % seeds.size()].bytes;
      bytes = bytes.substr(0, Place(rng, bytes.size())) + other.substr(Place(rng, other.size()));
      break;
    }
    case Mutation::kNumbers:
      ReplaceNumber(bytes, rng);
      break;
    default: {
      const std::vector<std::string> texts = HostileTexts();
      bytes.insert(Place(rng, bytes.size()), texts[rng.Next() % texts.size()]);
    }
  }
  // Every fourth stays as a damaged file would be: with checksums that are wrong.
  if (seed.repair && mutation != Mutation::kTruncated && rng.Next() % 4 != 0) seed.repair(bytes);
  return {&seed, std::move(bytes)};
}

}  // namespace qkv::hostile
