// Reads the protocol buffer of a SentencePiece model by hand: three messages, of which few fields matter.
#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "qkv/core/error.h"
#include "qkv/text/sentencepiece.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

// Bytes of an unknown token's text, which decoding may write for each id.
constexpr size_t kMaxSurface = 256;

// A message of protocol buffers, field by field.
class ProtoReader {
 public:
  ProtoReader(std::string_view bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  /// The next field; false at the end. Then number, and of its kind value (varint, fixed) or text.
  bool Next() {
    if (bytes_.empty()) return false;
    const uint64_t key = Varint();
    number = key >> 3;
    Require(number > 0 && number < (1u << 29), "{}: no SentencePiece model: field {}", where_, number);
    wire = static_cast<int>(key & 7);
    switch (wire) {
      case 0:
        value = Varint();
        break;
      case 1:
        value = Fixed(8);
        break;
      case 2: {
        const uint64_t size = Varint();
        Require(size <= bytes_.size(), "{}: no SentencePiece model: a field of {} bytes, {} are left", where_, size,
                bytes_.size());
        text = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        break;
      }
      case 5:
        value = Fixed(4);
        break;
      default:
        Fail("{}: no SentencePiece model: wire type {}", where_, wire);
    }
    return true;
  }

  // Values of the expected wire type.
  std::string_view Text() const {
    Check(2);
    return text;
  }
  uint64_t Number() const {
    Check(0);
    return value;
  }
  float Float() const {
    Check(5);
    return std::bit_cast<float>(static_cast<uint32_t>(value));
  }

  uint64_t number = 0;

 private:
  void Check(int expected) const {
    Require(wire == expected, "{}: no SentencePiece model: expected wire type {} of field {}, got {}", where_, expected,
            number, wire);
  }
  uint64_t Varint() {
    uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      Require(!bytes_.empty(), "{}: no SentencePiece model: it ends within a field", where_);
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      result |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return result;
    }
    Fail("{}: no SentencePiece model: a number of more than 64 bits", where_);
  }
  uint64_t Fixed(size_t size) {
    Require(size <= bytes_.size(), "{}: no SentencePiece model: it ends within a field", where_);
    uint64_t result = 0;
    for (size_t i = 0; i < size; ++i) result |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[i])) << (8 * i);
    bytes_.remove_prefix(size);
    return result;
  }

  std::string_view bytes_, where_;
  int wire = 0;
  uint64_t value = 0;
  std::string_view text;
};

SentencePiece ParsePiece(std::string_view bytes, size_t index, std::string_view where) {
  SentencePiece piece;
  for (ProtoReader field(bytes, where); field.Next();) {
    if (field.number == 1) {
      piece.text = field.Text();
    } else if (field.number == 2) {
      piece.score = field.Float();
    } else if (field.number == 3) {
      const uint64_t type = field.Number();
      Require(type >= 1 && type <= 6, "{}: expected a type from 1 to 6 of piece {}, got {}", where, index, type);
      piece.type = static_cast<SentencePiece::Type>(type);
    }
  }
  Require(!piece.text.empty(), "{}: piece {} is empty", where, index);
  Require(IsValidUtf8(piece.text), "{}: piece {} is not UTF-8", where, index);
  Require(std::isfinite(piece.score), "{}: expected a finite score of piece {} (\"{}\"), got {}", where, index,
          piece.text, piece.score);
  return piece;
}

struct SpecialPieces {
  std::string bos = "<s>", eos = "</s>", pad = "<pad>";
};

void ParseTrainer(std::string_view bytes, std::string_view where, SentencePieceModel* model, SpecialPieces* special) {
  for (ProtoReader field(bytes, where); field.Next();) {
    switch (field.number) {
      case 3: {
        const uint64_t kind = field.Number();
        Require(kind == SentencePieceModel::kUnigram || kind == SentencePieceModel::kBpe,
                "{}: expected a model of type unigram (1) or BPE (2), got {}", where,
                kind == SentencePieceModel::kWord   ? "word (3)"
                : kind == SentencePieceModel::kChar ? "char (4)"
                                                    : std::to_string(kind));
        model->model_type = static_cast<SentencePieceModel::Kind>(kind);
        break;
      }
      case 24:
        model->treat_whitespace_as_suffix = field.Number() != 0;
        break;
      case 35:
        model->byte_fallback = field.Number() != 0;
        break;
      case 44:
        model->unk_surface = field.Text();
        Require(model->unk_surface.size() <= kMaxSurface, "{}: expected an unk_surface of at most {} bytes, got {}",
                where, kMaxSurface, model->unk_surface.size());
        break;
      case 46:
        special->bos = field.Text();
        break;
      case 47:
        special->eos = field.Text();
        break;
      case 48:
        special->pad = field.Text();
        break;
      default:
        break;
    }
  }
}

void ParseNormalizer(std::string_view bytes, std::string_view where, SentencePieceModel* model) {
  for (ProtoReader field(bytes, where); field.Next();) {
    switch (field.number) {
      case 2:
        model->precompiled_charsmap = field.Text();
        break;
      case 3:
        model->add_dummy_prefix = field.Number() != 0;
        break;
      case 4:
        model->remove_extra_whitespaces = field.Number() != 0;
        break;
      case 5:
        model->escape_whitespaces = field.Number() != 0;
        break;
      default:
        break;
    }
  }
}

}  // namespace

SentencePieceModel ParseSentencePiece(std::string_view bytes, std::string_view where) {
  SentencePieceModel model;
  SpecialPieces special;
  for (ProtoReader field(bytes, where); field.Next();) {
    if (field.number == 1) {
      model.pieces.push_back(ParsePiece(field.Text(), model.pieces.size(), where));
    } else if (field.number == 2) {
      ParseTrainer(field.Text(), where, &model, &special);
    } else if (field.number == 3) {
      ParseNormalizer(field.Text(), where, &model);
    }
  }
  Require(!model.pieces.empty(), "{}: no SentencePiece model: it has no pieces", where);
  std::unordered_set<std::string_view> seen;
  int bytes_found = 0;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    const auto id = static_cast<int32_t>(i);
    Require(seen.insert(piece.text).second, "{}: piece {} (\"{}\") is there twice", where, i, piece.text);
    if (piece.type == SentencePiece::kUnknown) {
      Require(model.unknown_id < 0, "{}: expected one unknown piece, got {} and {}", where, model.unknown_id, i);
      model.unknown_id = id;
    } else if (piece.type == SentencePiece::kControl) {
      if (piece.text == special.bos) model.bos_id = id;
      if (piece.text == special.eos) model.eos_id = id;
      if (piece.text == special.pad) model.pad_id = id;
    } else if (piece.type == SentencePiece::kByte) {
      ++bytes_found;
    }
  }
  Require(model.unknown_id >= 0, "{}: expected one piece of type unknown, got none", where);
  Require(!model.byte_fallback || bytes_found == 256, "{}: expected 256 byte pieces for byte_fallback, got {}", where,
          bytes_found);
  return model;
}

}  // namespace qkv::text
