#include "quern/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "quern/base/file.h"
#include "quern/base/json.h"

namespace quern::text {
namespace {

using testing::HasSubstr;

const std::string kDir = std::string(QUERN_SOURCE_DIR) + "/tests/data/tokenizer/";

std::unique_ptr<Tokenizer> Tiny() { return Tokenizer::FromFile(kDir + "tokenizer.json").value(); }

TEST(Tokenizer, EncodesAsTheReference) {
  const auto tokenizer = Tiny();
  const Json goldens = ReadJsonFile(kDir + "goldens.json").value();
  EXPECT_EQ(tokenizer->vocab_size(), goldens["vocab_size"].get<int>());
  for (const Json& golden : goldens["encodings"]) {
    const auto text = golden["text"].get<std::string>();
    EXPECT_EQ(tokenizer->Encode(text).value(), golden["ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer->Encode(text, true).value(), golden["ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text).value(), false).value(), text);
  }
}

TEST(Tokenizer, DecodesAsTheReference) {
  const auto tokenizer = Tiny();
  const Json goldens = ReadJsonFile(kDir + "goldens.json").value();
  for (const Json& golden : goldens["decodings"]) {
    const auto ids = golden["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->Decode(ids, golden["skip"].get<bool>()).value(),
              golden["text"].get<std::string>());
  }
}

TEST(Tokenizer, KnowsTheAddedTokens) {
  const auto tokenizer = Tiny();
  EXPECT_EQ(tokenizer->TokenId("<|endoftext|>"), 512);
  EXPECT_EQ(tokenizer->TokenId("<|video|>"), 547);
  EXPECT_EQ(tokenizer->TokenId("no such token"), std::nullopt);
  for (const char* special : {"<|user|>", "<|observation|>", "[gMASK]", "<sop>"}) {
    const int32_t id = tokenizer->TokenId(special).value();
    EXPECT_TRUE(tokenizer->IsSpecial(id)) << special;
    EXPECT_EQ(tokenizer->TokenBytes(id), special);
  }
  for (const char* plain : {"<think>", "</think>", "<tool_call>", "</arg_value>"}) {
    EXPECT_FALSE(tokenizer->IsSpecial(tokenizer->TokenId(plain).value())) << plain;
  }
}

// The bundled model has GLM's added tokens, in their order, behind its own base vocabulary.
TEST(Tokenizer, TheBundledModelHasTheAddedTokensOfGlm) {
  const auto tiny = Tiny();
  const std::string path = std::string(QUERN_SOURCE_DIR) + "/models/quern-nano/tokenizer.json";
  const auto nano = Tokenizer::FromFile(path).value();
  const int32_t first = nano->TokenId("<|endoftext|>").value();
  EXPECT_EQ(nano->vocab_size() - first, tiny->vocab_size() - 512);
  for (int32_t i = 0; i < tiny->vocab_size() - 512; ++i) {
    const std::string token(tiny->TokenBytes(512 + i));
    EXPECT_EQ(nano->TokenBytes(first + i), token);
    EXPECT_EQ(nano->IsSpecial(first + i), tiny->IsSpecial(512 + i)) << token;
    EXPECT_EQ(nano->Encode(token).value(), std::vector<int32_t>{first + i});
  }
  const std::string text =
      "[gMASK]<sop><|user|>What is MXFP4? 12 + 7 = 19, Zürich 你好\n<|assistant|>";
  EXPECT_EQ(nano->Decode(nano->Encode(text).value(), false).value(), text);
}

TEST(Tokenizer, TokenBytesJoinToTheText) {
  const auto tokenizer = Tiny();
  const std::string text = "héllo 🙂\n<think>x</think> 你好\t";
  std::string bytes;
  const std::vector<int32_t> ids = tokenizer->Encode(text).value();
  for (const int32_t id : ids) bytes += tokenizer->TokenBytes(id);
  EXPECT_EQ(bytes, text);
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer->TokenBytes(tokenizer->vocab_size()), "");
  EXPECT_FALSE(tokenizer->IsSpecial(1 << 30));
}

TEST(Tokenizer, RefusesBadInput) {
  const auto tokenizer = Tiny();
  const auto text = tokenizer->Encode("ab\xff");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(text.status().message(), HasSubstr("byte 2"));
  for (const int32_t id : {-1, 548, 1 << 30}) {
    const std::vector<int32_t> ids = {1, id};
    const auto decoded = tokenizer->Decode(ids, false);
    ASSERT_FALSE(decoded.ok());
    EXPECT_THAT(decoded.status().message(), HasSubstr("token id " + std::to_string(id)));
  }
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const auto tokenizer = Tiny();
  const auto expected = tokenizer->Encode("The stone turns, and the river runs.").value();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        if (tokenizer->Encode("The stone turns, and the river runs.").value() != expected) {
          ++wrong[t];
        }
        (void)tokenizer->Encode("text " + std::to_string(i * 31 + static_cast<int>(t))).value();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

// A changed copy of the tiny tokenizer, as a file.
class BrokenFile : public testing::Test {
 protected:
  Status Load(const std::string& content) {
    std::ofstream(path_) << content;
    return Tokenizer::FromFile(path_).status();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "/quern_tokenizer_test.json";
  const std::string good_ = ReadFile(kDir + "tokenizer.json").value();
};

TEST_F(BrokenFile, ErrorsNameFileAndLine) {
  EXPECT_EQ(Tokenizer::FromFile("/nonexistent/tokenizer.json").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(Load("").code(), StatusCode::kDataLoss);
  EXPECT_THAT(Load("version https://git-lfs.github.com/spec/v1\noid sha256:0\n").message(),
              HasSubstr("git lfs pull"));
  const Status cut = Load(good_.substr(0, good_.size() / 2));
  EXPECT_EQ(cut.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(cut.message(), HasSubstr(path_));
  EXPECT_THAT(cut.message(), HasSubstr("line "));
  EXPECT_THAT(Load("{\n\n,}").message(), HasSubstr("line 3"));
  for (const char* other : {"[]", "3", "null", "\"x\""}) EXPECT_FALSE(Load(other).ok()) << other;
  EXPECT_FALSE(Load("{}").ok());
  EXPECT_FALSE(Load("\xff\xff").ok());
}

TEST_F(BrokenFile, OtherDecodersAreRefusedByName) {
  Json json = ParseJson(good_).value();
  json["decoder"] = {{"type", "Metaspace"}};
  const Status status = Load(json.dump());
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("Metaspace"));
  json["decoder"] = nullptr;
  EXPECT_EQ(Load(json.dump()).code(), StatusCode::kUnimplemented);
}

TEST_F(BrokenFile, WrongPartsNeverCrash) {
  const Json json = ParseJson(good_).value();
  const Json wrong_values[] = {nullptr, 3, "x", Json::array({1, 2}), {{"type", "BPE"}}};
  for (const auto& [key, value] : json.items()) {
    for (const Json& wrong : wrong_values) {
      Json changed = json;
      changed[key] = wrong;
      const Status status = Load(changed.dump());
      EXPECT_TRUE(status.ok() || status.message().find(path_) == 0) << key << status.message();
    }
    Json without = json;
    without.erase(key);
    (void)Load(without.dump()).ok();
  }
  Json far = json;
  far["model"]["vocab"]["far away"] = 4000000000u;
  EXPECT_FALSE(Load(far.dump()).ok());
}

TEST_F(BrokenFile, TruncationAndPaddingAreOff) {
  Json json = ParseJson(good_).value();
  json["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 9}}},    {"direction", "Left"}, {"pad_id", 0},
                     {"pad_to_multiple_of", nullptr}, {"pad_type_id", 0},    {"pad_token", "!"}};
  ASSERT_TRUE(Load(json.dump()).ok());
  EXPECT_EQ(Tokenizer::FromFile(path_).value()->Encode("12 34 56 78").value(),
            Tiny()->Encode("12 34 56 78").value());
}

}  // namespace
}  // namespace quern::text
