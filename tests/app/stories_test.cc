// A trained Llama of QKV_REFERENCE, in llama2.c's own file, brought to Hugging Face's layout: it tells the story that
// it is published with, to the letter.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/app/texts/language.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// The numbers of a file, one after the other.
class Numbers {
 public:
  explicit Numbers(const fs::path& file) : bytes_(ReadFile(file)) {}

  template <typename T>
  T Next() {
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  Tensor<float> Next(const Shape& shape) {
    Tensor<float> tensor(shape);
    std::memcpy(tensor.data(), Take(sizeof(float) * static_cast<size_t>(tensor.size())).data(),
                sizeof(float) * static_cast<size_t>(tensor.size()));
    return tensor;
  }
  std::string_view Take(size_t bytes) {
    EXPECT_LE(at_ + bytes, bytes_.size());
    at_ += bytes;
    return std::string_view(bytes_).substr(at_ - bytes, bytes);
  }

 private:
  const std::string bytes_;
  size_t at_ = 0;
};

struct Sizes {
  int64_t width, hidden, depth, heads, key_heads, vocabulary, length;
};

// Rows of heads that turn neighbouring features, as those that turn halves.
Tensor<float> ToHalves(const Tensor<float>& from, int64_t heads) {
  Tensor<float> to(from.shape());
  const int64_t columns = from.dim(1), head = from.dim(0) / heads;
  for (int64_t row = 0; row < from.dim(0); ++row) {
    const int64_t within = row % head, half = within % 2 * (head / 2) + within / 2;
    std::copy_n(from.data() + row * columns, columns, to.data() + (row - within + half) * columns);
  }
  return to;
}

void WriteWeights(const fs::path& file, const fs::path& folder) {
  Numbers numbers(file);
  int64_t header[7];
  for (int64_t& value : header) value = numbers.Next<int32_t>();
  const auto [D, F, L, H, G, V, N] = std::bit_cast<Sizes>(header);
  const int64_t E = D / H, depth = L;
  std::vector<std::pair<std::string, Tensor<float>>> tensors;
  tensors.emplace_back("model.embed_tokens.weight", numbers.Next({V, D}));
  const auto add = [&](const std::string& name, const Shape& shape, int64_t turned = 0) {
    for (int64_t block = 0; block < depth; ++block) {
      Tensor<float> tensor = numbers.Next(shape);
      tensors.emplace_back(fmt::format("model.layers.{}.{}.weight", block, name),
                           turned > 0 ? ToHalves(tensor, turned) : std::move(tensor));
    }
  };
  add("input_layernorm", {D});
  add("self_attn.q_proj", {D, D}, H);
  add("self_attn.k_proj", {G * E, D}, G);
  add("self_attn.v_proj", {G * E, D});
  add("self_attn.o_proj", {D, D});
  add("post_attention_layernorm", {D});
  add("mlp.gate_proj", {F, D});
  add("mlp.down_proj", {D, F});
  add("mlp.up_proj", {F, D});
  tensors.emplace_back("model.norm.weight", numbers.Next({D}));
  std::vector<io::StoredTensor> stored;
  for (const auto& [name, tensor] : tensors) stored.push_back(io::Stored<float>(name, tensor.view()));
  io::WriteSafeTensors(folder / "model.safetensors", stored, {});
  const io::Json config = {{"model_type", "llama"},
                           {"architectures", {"LlamaForCausalLM"}},
                           {"hidden_size", D},
                           {"intermediate_size", F},
                           {"num_hidden_layers", L},
                           {"num_attention_heads", H},
                           {"num_key_value_heads", G},
                           {"vocab_size", V},
                           {"max_position_embeddings", N},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 10000},
                           {"hidden_act", "silu"},
                           {"tie_word_embeddings", true},
                           {"bos_token_id", 1},
                           {"eos_token_id", 2}};
  WriteFile(folder / "config.json", config.dump());
}

// The pieces have spaces as they are, and bytes as "<0x0A>".
void WriteTokenizer(const fs::path& file, const fs::path& folder) {
  Numbers numbers(file);
  numbers.Next<int32_t>();  // length of the longest
  io::Json vocabulary = io::Json::object();
  for (int32_t id = 0; id < 512; ++id) {
    numbers.Next<float>();  // score
    const auto length = static_cast<size_t>(numbers.Next<int32_t>());
    const std::string piece(numbers.Take(length));
    vocabulary[id == 1 ? "<s>" : id == 2 ? "</s>" : piece] = id;
  }
  ASSERT_EQ(vocabulary.size(), 512);
  io::Json added = io::Json::array();
  for (const auto& [id, name] : {std::pair{0, "<unk>"}, {1, "<s>"}, {2, "</s>"}}) {
    added.push_back({{"id", id},
                     {"content", name},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  }
  const io::Json json = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"byte_fallback", true},
        {"unk_token", "<unk>"},
        {"vocab", vocabulary},
        {"merges", io::Json::array()}}}};
  WriteFile(folder / "tokenizer.json", json.dump());
  WriteFile(folder / "tokenizer_config.json", io::Json({{"bos_token", "<s>"}, {"eos_token", "</s>"}}).dump());
}

TEST(Stories, AreThoseThatWerePublished) {
  const char* reference = ::getenv("QKV_REFERENCE");
  if (!reference) GTEST_SKIP() << "QKV_REFERENCE is not set";
  const fs::path source = fs::path(reference) / "stories260K";
  if (!fs::exists(source)) GTEST_SKIP() << "no " << source;
  const TemporaryFolder folder;
  WriteWeights(source / "stories260K.bin", folder.path());
  WriteTokenizer(source / "tok512.bin", folder.path());

  std::string expected = " " + ReadFile(source / "expected.txt");
  while (expected.ends_with('\n')) expected.pop_back();
  for (size_t at; (at = expected.find("<0x0A>")) != expected.npos;) expected.replace(at, 6, "\n");
  const auto model = LanguageModel::Open({.path = folder.path().string()});
  model::GenerationSettings settings = model.Settings();
  settings.sampling.temperature = 0;
  settings.max_tokens = 200;
  std::string story;
  const Written written = model.Continue("", settings, [&](std::string_view text) {
    story += text;
    return true;
  });
  EXPECT_EQ(written.tokens, 200);
  EXPECT_EQ(story, expected);
}

}  // namespace
}  // namespace qkv::app
