#include "quern/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace quern::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kLfsPointer[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 5368709120\n";

// A folder that a test fills with files.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = ::testing::TempDir() + "checkpoint_test_" + test->name();
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    Write("config.json", R"({"model_type": "glm_moe_dsa"})");
  }
  ~CheckpointTest() override { fs::remove_all(dir_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ + "/" + name, std::ios::binary) << bytes;
  }

  // A weight file with one U8 tensor [4] per name, each filled with its name's first letter.
  static std::string Weights(const std::vector<std::string>& names) {
    std::string header = "{", data;
    for (const std::string& name : names) {
      header += fmt::format("{}\"{}\":{{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[{},{}]}}",
                            data.empty() ? "" : ",", name, data.size(), data.size() + 4);
      data.append(4, name[0]);
    }
    header += "}";
    const uint64_t length = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    return file + header + data;
  }

  // Two shards {a, b} and {c, d} and their index.
  void WriteTwoShards() {
    Write("1.safetensors", Weights({"a", "b"}));
    Write("2.safetensors", Weights({"c", "d"}));
    Write(
        kIndex,
        R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors","d":"2.safetensors"}})");
  }

  // Opens; null when opening failed, which then must list the same problems.
  std::unique_ptr<Checkpoint> Open(const std::string& path = "") {
    problems_ = Problems();
    auto opened = Checkpoint::Open(path.empty() ? dir_ : path, problems_);
    status_ = opened.status();
    return opened.ok() ? std::move(opened).value() : nullptr;
  }

  std::string dir_;
  Problems problems_;
  Status status_;
};

TEST_F(CheckpointTest, SingleFile) {
  Write("model.safetensors", Weights({"b", "a"}));
  for (const std::string& path : {dir_, dir_ + "/", dir_ + "/model.safetensors"}) {
    const auto checkpoint = Open(path);
    ASSERT_NE(checkpoint, nullptr) << status_.message();
    EXPECT_THAT(problems_.errors(), IsEmpty());
    EXPECT_THAT(problems_.warnings(), IsEmpty());
    ASSERT_EQ(checkpoint->tensors().size(), 2u);
    EXPECT_EQ(checkpoint->tensors()[0].name, "a");
    EXPECT_EQ(checkpoint->total_bytes(), 8u);
    EXPECT_EQ(checkpoint->config_json()["model_type"], "glm_moe_dsa");
    const TensorInfo* b = checkpoint->Find("b");
    ASSERT_NE(b, nullptr);
    const auto bytes = checkpoint->Bytes(*b);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "bbbb");
    checkpoint->Release(*b);
    EXPECT_EQ(checkpoint->Bytes(*b)[3], std::byte{'b'});
    EXPECT_EQ(checkpoint->Find("c"), nullptr);
    EXPECT_EQ(checkpoint->Find(""), nullptr);
  }
}

TEST_F(CheckpointTest, ShardsThroughTheIndex) {
  WriteTwoShards();
  Write("notes.safetensors", "not part of the model");
  const auto checkpoint = Open();
  ASSERT_NE(checkpoint, nullptr) << status_.message();
  EXPECT_THAT(problems_.errors(), IsEmpty());
  EXPECT_THAT(problems_.warnings(), IsEmpty());
  EXPECT_EQ(checkpoint->shards().size(), 2u);
  for (const char* name : {"a", "b", "c", "d"}) {
    const TensorInfo* tensor = checkpoint->Find(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(checkpoint->Bytes(*tensor)[0], std::byte(name[0]));
  }
}

TEST_F(CheckpointTest, ShardsInASubfolder) {
  fs::create_directories(dir_ + "/parts");
  Write("parts/1.safetensors", Weights({"a"}));
  Write(kIndex, R"({"weight_map":{"a":"parts/1.safetensors"}})");
  ASSERT_NE(Open(), nullptr) << status_.message();
  EXPECT_THAT(problems_.errors(), IsEmpty());
}

TEST_F(CheckpointTest, ShardsWithoutAnIndexAreRead) {
  Write("x.safetensors", Weights({"a"}));
  Write("y.safetensors", Weights({"b"}));
  const auto checkpoint = Open();
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_THAT(problems_.errors(), IsEmpty());
  EXPECT_THAT(problems_.warnings(),
              Contains(HasSubstr("no model.safetensors.index.json: reading all 2")));
}

TEST_F(CheckpointTest, EachBrokenShardIsReportedAndTheRestOpens) {
  WriteTwoShards();
  const struct {
    std::string bytes;
    const char* message;
  } rows[] = {
      {"", "1.safetensors: zero bytes; is the download complete?"},
      {kLfsPointer, "1.safetensors: a Git-LFS pointer"},
      {Weights({"a", "b"}).substr(0, Weights({"a", "b"}).size() - 3),
       "3 bytes missing (up to the end of tensor b)"},
      {Weights({"a", "b"}).substr(0, 20), "1.safetensors: the header needs"},
      {"<html>not found</html>", "1.safetensors: header length"},
      {"abc", "1.safetensors: 3 bytes, too short"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.message);
    Write("1.safetensors", row.bytes);
    const auto checkpoint = Open();
    ASSERT_NE(checkpoint, nullptr);
    // One problem, one line: its tensors are not reported missing on top.
    ASSERT_EQ(problems_.errors().size(), 1u) << problems_.ToStatus("x").message();
    EXPECT_THAT(problems_.errors()[0], HasSubstr(row.message));
    EXPECT_NE(checkpoint->Find("c"), nullptr);
  }
  fs::remove(dir_ + "/1.safetensors");
  ASSERT_NE(Open(), nullptr);
  EXPECT_EQ(problems_.errors(),
            std::vector<std::string>{"1.safetensors: missing; is the download complete?"});
  fs::create_directories(dir_ + "/1.safetensors");
  ASSERT_NE(Open(), nullptr);
  EXPECT_THAT(problems_.errors(), Contains(HasSubstr("not a regular file")));
}

TEST_F(CheckpointTest, EverythingWrongIsReportedTogether) {
  WriteTwoShards();
  Write("config.json", "{\"model_type\": ");
  Write("1.safetensors", kLfsPointer);
  Write("2.safetensors", Weights({"c", "d"}).substr(0, 120));
  ASSERT_NE(Open(), nullptr);
  EXPECT_THAT(problems_.errors(), Contains(HasSubstr("config.json: invalid JSON")));
  EXPECT_THAT(problems_.errors(), Contains(HasSubstr("1.safetensors: a Git-LFS pointer")));
  EXPECT_THAT(problems_.errors(), Contains(HasSubstr("2.safetensors: ")));
}

TEST_F(CheckpointTest, NothingToOpenListsWhy) {
  WriteTwoShards();
  fs::remove(dir_ + "/1.safetensors");
  fs::remove(dir_ + "/2.safetensors");
  fs::remove(dir_ + "/config.json");
  EXPECT_EQ(Open(), nullptr);
  for (const char* message : {"config.json", "1.safetensors: missing", "2.safetensors: missing"}) {
    EXPECT_THAT(status_.message(), HasSubstr(message));
  }
}

TEST_F(CheckpointTest, IndexAndFilesDisagree) {
  WriteTwoShards();
  const struct {
    const char* map;
    const char* error;    // or null
    const char* warning;  // or null
  } rows[] = {
      {R"({"a":"1.safetensors","b":"1.safetensors","c":"1.safetensors","d":"2.safetensors"})",
       "1.safetensors: tensor c placed here by model.safetensors.index.json found in another file",
       nullptr},
      {R"({"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors","d":"2.safetensors","e":"2.safetensors","f":"2.safetensors"})",
       "2.safetensors: 2 tensors (first: e) placed here by model.safetensors.index.json not found "
       "in the file",
       nullptr},
      {R"({"a":"1.safetensors","c":"2.safetensors"})", nullptr,
       "2.safetensors: holds tensor d that model.safetensors.index.json does not list"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.map);
    Write(kIndex, fmt::format("{{\"weight_map\":{}}}", row.map));
    ASSERT_NE(Open(), nullptr) << status_.message();
    if (row.error == nullptr) {
      EXPECT_THAT(problems_.errors(), IsEmpty());
    } else {
      EXPECT_EQ(problems_.errors(), std::vector<std::string>{row.error});
    }
    if (row.warning != nullptr) {
      EXPECT_THAT(problems_.warnings(), Contains(HasSubstr(row.warning)));
    }
  }
}

TEST_F(CheckpointTest, ATensorInTwoFiles) {
  WriteTwoShards();
  Write("2.safetensors", Weights({"a", "c", "d"}));
  ASSERT_NE(Open(), nullptr);
  EXPECT_THAT(problems_.errors(), Contains("tensor a is in both 1.safetensors and 2.safetensors"));
}

TEST_F(CheckpointTest, BrokenIndex) {
  WriteTwoShards();
  const std::pair<std::string, const char*> rows[] = {
      {"", "model.safetensors.index.json: zero bytes"},
      {kLfsPointer, "model.safetensors.index.json: a Git-LFS pointer"},
      {"{", "model.safetensors.index.json: not a JSON object"},
      {"{}", "has no \"weight_map\" object"},
      {R"({"weight_map":{"a":"../../etc/passwd"}})", "not a file of this folder"},
  };
  for (const auto& [bytes, message] : rows) {
    Write(kIndex, bytes);
    EXPECT_EQ(Open(), nullptr) << bytes;
    EXPECT_THAT(status_.message(), HasSubstr(message));
  }
}

TEST_F(CheckpointTest, BrokenConfig) {
  Write("model.safetensors", Weights({"a"}));
  const std::pair<std::string, const char*> rows[] = {
      {"", "config.json: zero bytes"},
      {kLfsPointer, "config.json: a Git-LFS pointer"},
      {"{", "config.json: invalid JSON"},
      {std::string(1000, '['), "config.json: JSON nests deeper than"},
  };
  for (const auto& [bytes, message] : rows) {
    Write("config.json", bytes);
    ASSERT_NE(Open(), nullptr);
    ASSERT_EQ(problems_.errors().size(), 1u);
    EXPECT_THAT(problems_.errors()[0], HasSubstr(message));
  }
  fs::remove(dir_ + "/config.json");
  ASSERT_NE(Open(), nullptr);
  EXPECT_THAT(problems_.errors(),
              Contains(HasSubstr("config.json: no such file; a checkpoint needs its config.json")));
}

TEST_F(CheckpointTest, OtherFormatsAreRefusedByName) {
  const std::pair<const char*, const char*> rows[] = {
      {"model-Q4_K_M.gguf", "GGUF"},
      {"pytorch_model.bin", "PyTorch pickle"},
      {"consolidated.00.pth", "PyTorch pickle"},
      {"model.pt", "PyTorch pickle"},
      {"model.ckpt", "PyTorch pickle"},
      {"model.onnx", "ONNX"},
      {"flax_model.msgpack", "Flax msgpack"},
      {"tf_model.h5", "Keras HDF5"},
  };
  for (const auto& [name, format] : rows) {
    Write(name, "x");
    EXPECT_EQ(Open(), nullptr);
    EXPECT_THAT(status_.message(), HasSubstr(fmt::format("only {} files ({})", format, name)));
    EXPECT_THAT(status_.message(), HasSubstr("supported are model.safetensors or"));
    EXPECT_EQ(Open(dir_ + "/" + name), nullptr);
    EXPECT_THAT(status_.message(), HasSubstr(fmt::format("{} is not supported", format)));
    fs::remove(dir_ + "/" + name);
  }
}

TEST_F(CheckpointTest, PathsThatAreNoCheckpoint) {
  EXPECT_EQ(Open(dir_ + "/none"), nullptr);
  EXPECT_EQ(status_.code(), StatusCode::kNotFound);
  EXPECT_EQ(Open(dir_ + "/config.json"), nullptr);
  EXPECT_THAT(status_.message(), HasSubstr("not a checkpoint folder"));
  EXPECT_EQ(Open(), nullptr);
  EXPECT_THAT(status_.message(), HasSubstr("no weights: neither model.safetensors nor"));
}

TEST_F(CheckpointTest, ManyMissingShardsAreCounted) {
  std::string map;
  for (int i = 0; i < 100; ++i)
    map += fmt::format("{}\"t{}\":\"{:03}.safetensors\"", i == 0 ? "" : ",", i, i);
  Write(kIndex, "{\"weight_map\":{" + map + "}}");
  Write("000.safetensors", Weights({"t0"}));
  ASSERT_NE(Open(), nullptr);
  EXPECT_EQ(problems_.errors().size(), 21u);
  EXPECT_EQ(problems_.errors().back(), "... and 79 more weight files are missing");
}

}  // namespace
}  // namespace quern::checkpoint
