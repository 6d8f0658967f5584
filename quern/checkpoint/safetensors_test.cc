#include "quern/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace quern::checkpoint {
namespace {

using ::testing::HasSubstr;

// A file: length, header, `data_bytes` of data.
std::string File(const std::string& header, uint64_t data_bytes) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'd');
}

struct Parsed {
  std::vector<TensorInfo> tensors;
  Problems problems;
};

Parsed Parse(const std::string& file) {
  Parsed out;
  SafetensorsParser parser;
  out.tensors = parser.ParseHeader(std::as_bytes(std::span(file)), file.size(), "m.safetensors", 7,
                                   out.problems);
  // Whatever the file says, what comes out lies inside it.
  for (const TensorInfo& tensor : out.tensors) {
    EXPECT_LE(tensor.offset, file.size());
    EXPECT_LE(tensor.bytes, file.size() - tensor.offset);
    uint64_t bytes = static_cast<uint64_t>(DtypeBytes(tensor.dtype));
    for (int64_t dim : tensor.shape) bytes *= static_cast<uint64_t>(dim);
    EXPECT_EQ(bytes, tensor.bytes);
  }
  return out;
}

TEST(Safetensors, ReadsTensors) {
  const std::string header = R"({"__metadata__":{"format":"pt","x":"y"},)"
                             R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                             R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                             R"("empty":{"dtype":"U8","shape":[0,9],"data_offsets":[4,4]}}  )";
  const Parsed parsed = Parse(File(header, 16));
  EXPECT_TRUE(parsed.problems.errors().empty()) << parsed.problems.errors()[0];
  EXPECT_TRUE(parsed.problems.warnings().empty());
  ASSERT_EQ(parsed.tensors.size(), 3u);
  EXPECT_EQ(parsed.tensors[0].name, "a");
  EXPECT_TRUE(parsed.tensors[0].shape.empty());
  EXPECT_EQ(parsed.tensors[1].name, "empty");
  EXPECT_EQ(parsed.tensors[1].bytes, 0u);
  const TensorInfo& b = parsed.tensors[2];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, Dtype::kBf16);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b.offset, 8 + header.size() + 4);
  EXPECT_EQ(b.bytes, 12u);
  EXPECT_EQ(b.shard, 7);
}

TEST(Safetensors, AFileWithoutTensorsIsSound) {
  EXPECT_TRUE(Parse(File("{}", 0)).problems.errors().empty());
}

TEST(Safetensors, NamesAreUnescaped) {
  const Parsed parsed =
      Parse(File(R"({"a\u00e9\"\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  ASSERT_EQ(parsed.tensors.size(), 1u);
  EXPECT_EQ(parsed.tensors[0].name, "a\xC3\xA9\"\n");
}

// One tensor named t with the given fields.
std::string Tensor(const std::string& fields) { return "{\"t\":{" + fields + "}}"; }

struct BadCase {
  const char* what;
  std::string file;
  const char* message;
};

std::vector<BadCase> BadCases() {
  const auto with = [](const char* dtype, const char* shape, const char* offsets) {
    return Tensor(fmt::format(R"("dtype":{},"shape":{},"data_offsets":{})", dtype, shape, offsets));
  };
  const std::string good = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  std::string long_length = File("{}", 0);
  std::memset(long_length.data(), 0xFF, 8);
  std::string over_limit = File("{}", 0);
  const uint64_t too_long = kMaxSafetensorsHeaderBytes + 1;
  std::memcpy(over_limit.data(), &too_long, 8);
  std::string deep = R"({"t":)";
  deep.append(5000, '[');
  return {
      {"empty file", "", "0 bytes, too short for a safetensors header"},
      {"seven bytes", std::string(7, '\0'), "7 bytes, too short"},
      {"length of all ones", long_length, "over the limit of 100000000"},
      {"length over the limit", over_limit, "header length 100000001 is over the limit"},
      {"cut inside the header", File("{\"t\":{}}", 0).substr(0, 12), "the file ends after 12"},
      {"header of length 0", File("", 4), "not the JSON object it should be"},
      {"an HTML page", "<!DOCTYPE html><html>no such file</html>", "over the limit"},
      {"a PyTorch archive", std::string("PK\x03\x04\0\0\0\0\0\0\0\0", 12),
       "the file ends after 12"},
      {"zeros", std::string(100, '\0'), "not the JSON object it should be"},
      {"syntax", File("{\"t\":", 0), "not the JSON object it should be"},
      {"trailing text", File("{}x", 0), "not the JSON object it should be"},
      {"an array", File("[]", 0), "not the JSON object it should be"},
      {"bad UTF-8", File("{\"\xFF\":{}}", 0), "not the JSON object it should be"},
      {"deep nesting", File(deep, 0), "not the JSON object it should be"},
      {"tensor is a number", File(R"({"t":3})", 0), "tensor t is not a JSON object"},
      {"no dtype", File(Tensor(R"("shape":[4],"data_offsets":[0,4])"), 4), "has no dtype"},
      {"no shape", File(Tensor(R"("dtype":"U8","data_offsets":[0,4])"), 4), "has no shape"},
      {"no offsets", File(Tensor(R"("dtype":"U8","shape":[4])"), 4), "has no data_offsets"},
      {"dtype twice", File(Tensor("\"dtype\":\"U8\"," + good), 4), "has dtype twice"},
      {"dtype is a number", File(with("8", "[4]", "[0,4]"), 4), "has a dtype of the wrong type"},
      {"shape is a string", File(with("\"U8\"", "\"4\"", "[0,4]"), 4),
       "has a shape of the wrong type"},
      {"offsets are an object", File(with("\"U8\"", "[4]", "{}"), 4),
       "has a data_offsets of the wrong type"},
      {"unknown dtype", File(with("\"INT4\"", "[4]", "[0,4]"), 4),
       "has dtype INT4, which quern does not know"},
      {"negative dimension", File(with("\"U8\"", "[-4]", "[0,4]"), 4), "non-negative integers"},
      {"fractional dimension", File(with("\"U8\"", "[4.0]", "[0,4]"), 4), "non-negative integers"},
      {"dimension over int64", File(with("\"U8\"", "[9223372036854775808]", "[0,4]"), 4),
       "non-negative integers"},
      {"dimension of a string", File(with("\"U8\"", "[\"4\"]", "[0,4]"), 4),
       "non-negative integers"},
      {"product wraps to 0", File(with("\"U8\"", "[4294967296,4294967296]", "[0,0]"), 0),
       "too large for any file"},
      {"product wraps to 4", File(with("\"F32\"", "[4611686018427387905]", "[0,4]"), 4),
       "too large for any file"},
      {"too many dimensions",
       File(with("\"U8\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4]", "[0,4]"), 4),
       "more than 16 dimensions"},
      {"one offset", File(with("\"U8\"", "[4]", "[4]"), 4), "not two non-negative integers"},
      {"three offsets", File(with("\"U8\"", "[4]", "[0,4,8]"), 4), "not two non-negative integers"},
      {"negative offset", File(with("\"U8\"", "[4]", "[-4,0]"), 4),
       "not two non-negative integers"},
      {"fractional offset", File(with("\"U8\"", "[4]", "[0,4.5]"), 4),
       "not two non-negative integers"},
      {"offsets backwards", File(with("\"U8\"", "[4]", "[4,0]"), 4), "run backwards"},
      {"offsets beyond any file",
       File(with("\"U8\"", "[4]", "[18446744073709551600,18446744073709551604]"), 4),
       "beyond any file"},
      {"size disagrees", File(with("\"F32\"", "[4]", "[0,4]"), 4),
       "holds 4 bytes, want 16 ([4] F32)"},
      {"size disagrees, zero dim", File(with("\"F32\"", "[0,4]", "[0,4]"), 4),
       "holds 4 bytes, want 0"},
      {"truncated", File(with("\"U8\"", "[4]", "[0,4]"), 1),
       "3 bytes missing (up to the end of tensor t)"},
      {"wholly beyond the end", File(with("\"U8\"", "[4]", "[1000,1004]"), 4),
       "1000 bytes missing"},
      {"empty tensor beyond the end", File(with("\"U8\"", "[0]", "[9,9]"), 4),
       "empty tensor t lies at byte"},
      {"same name twice", File("{\"t\":{" + good + "},\"t\":{" + good + "}}", 4),
       "tensor t is listed twice"},
      {"overlap",
       File("{\"t\":{" + good + R"(},"u":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})", 7),
       "tensors t and u overlap at byte"},
      {"inside another",
       File(
           R"({"t":{"dtype":"U8","shape":[9],"data_offsets":[0,9]},"u":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"v":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
           9),
       "tensors t and v overlap at byte"},
  };
}

TEST(Safetensors, BrokenHeadersAreNamed) {
  for (const BadCase& bad : BadCases()) {
    SCOPED_TRACE(bad.what);
    const Parsed parsed = Parse(bad.file);
    ASSERT_FALSE(parsed.problems.errors().empty());
    EXPECT_THAT(parsed.problems.errors(), ::testing::Contains(HasSubstr(bad.message)));
    for (const std::string& error : parsed.problems.errors()) {
      EXPECT_THAT(error, HasSubstr("m.safetensors: "));
    }
  }
}

TEST(Safetensors, SoundTensorsSurviveTheirNeighbours) {
  const Parsed parsed = Parse(File(
      R"({"bad":{"dtype":"F4","shape":[1],"data_offsets":[0,1]},"good":{"dtype":"U8","shape":[3],"data_offsets":[1,4]},)"
      R"("cut":{"dtype":"U8","shape":[9],"data_offsets":[4,13]}})",
      4));
  EXPECT_EQ(parsed.problems.errors().size(), 2u);
  ASSERT_EQ(parsed.tensors.size(), 1u);
  EXPECT_EQ(parsed.tensors[0].name, "good");
}

TEST(Safetensors, UnownedBytesAreAWarning) {
  const char header[] = R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  const Parsed parsed = Parse(File(header, 9));
  EXPECT_TRUE(parsed.problems.errors().empty());
  ASSERT_EQ(parsed.problems.warnings().size(), 1u);
  EXPECT_EQ(parsed.problems.warnings()[0], "m.safetensors: 5 bytes of data belong to no tensor");
}

TEST(Safetensors, ManyErrorsAreCounted) {
  std::string header = "{";
  for (int i = 0; i < 500; ++i) header += fmt::format("{}\"t{}\":0", i == 0 ? "" : ",", i);
  const Parsed parsed = Parse(File(header + "}", 0));
  EXPECT_EQ(parsed.problems.errors().size(), 21u);
  EXPECT_THAT(parsed.problems.errors().back(), HasSubstr("... and 480 more"));
}

TEST(Safetensors, NamesInMessagesCannotDriveATerminal) {
  EXPECT_EQ(Printable("a\x1b[31mb\nc\x7f"), "a?[31mb?c?");
  EXPECT_EQ(Printable(std::string(200, 'x')), std::string(200, 'x'));
  EXPECT_EQ(Printable(std::string(201, 'x')), std::string(200, 'x') + "...");
  // Cut between characters, not inside one.
  const std::string text = Printable(std::string(199, 'x') + "\xE2\x82\xAC and more");
  EXPECT_EQ(text, std::string(199, 'x') + "...");
}

// Any prefix, and any single byte changed, is parsed or refused but never read beyond.
TEST(Safetensors, DamagedFilesNeverCrash) {
  const std::string file =
      File(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
           R"("b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})",
           19);
  for (size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(Parse(file.substr(0, n)).problems.errors().empty()) << n;
  }
  std::mt19937 rng(1);
  for (int trial = 0; trial < 20000; ++trial) {
    std::string damaged = file;
    for (int k = 0; k < 1 + trial % 3; ++k)
      damaged[rng() % damaged.size()] = static_cast<char>(rng());
    Parse(damaged);
  }
}

TEST(Safetensors, TheParserIsReusable) {
  SafetensorsParser parser;
  const std::string bad = File("{\"t\":", 0);
  const std::string good = File(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  for (int i = 0; i < 3; ++i) {
    Problems problems;
    parser.ParseHeader(std::as_bytes(std::span(bad)), bad.size(), "bad", 0, problems);
    EXPECT_EQ(problems.errors().size(), 1u);
    EXPECT_EQ(
        parser.ParseHeader(std::as_bytes(std::span(good)), good.size(), "good", 0, problems).size(),
        1u);
    EXPECT_EQ(problems.errors().size(), 1u);
  }
}

TEST(SafetensorsIndex, ReadsFilesAndEntries) {
  SafetensorsParser parser;
  Problems problems;
  const auto index = parser.ParseIndex(
      R"({"metadata":{"total_size":1},"weight_map":{"b":"2.safetensors","a":"1.safetensors","c":"1.safetensors"}})",
      "index", problems);
  EXPECT_TRUE(problems.errors().empty());
  EXPECT_EQ(index.files, (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
  ASSERT_EQ(index.entries.size(), 3u);
  EXPECT_EQ(index.entries[0].tensor, "a");
  EXPECT_EQ(index.entries[0].file, 0);
  EXPECT_EQ(index.entries[1].tensor, "b");
  EXPECT_EQ(index.entries[1].file, 1);
}

TEST(SafetensorsIndex, BrokenIndexesAreNamed) {
  const std::pair<std::string, const char*> rows[] = {
      {"", "not a JSON object"},
      {"{", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"{}", "has no \"weight_map\" object"},
      {R"({"weight_map":[]})", "has no \"weight_map\" object"},
      {R"({"weight_map":{}})", "places no tensor in any file"},
      {R"({"weight_map":{"a":1}})", "tensor a is placed in something other than a file name"},
      {R"({"weight_map":{"a":""}})", "not a file of this folder"},
      {R"({"weight_map":{"a":"/etc/passwd"}})",
       "placed in /etc/passwd, which is not a file of this folder"},
      {R"({"weight_map":{"a":"../x.safetensors"}})", "not a file of this folder"},
      {R"({"weight_map":{"a":"x/../../y"}})", "not a file of this folder"},
      {R"({"weight_map":{"a":"x\u0000y"}})", "not a file of this folder"},
      {R"({"weight_map":{"a":"x","a":"y"}})", "tensor a is listed twice"},
  };
  for (const auto& [text, message] : rows) {
    SafetensorsParser parser;
    Problems problems;
    parser.ParseIndex(text, "index", problems);
    ASSERT_FALSE(problems.errors().empty()) << text;
    EXPECT_THAT(problems.errors()[0], HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace quern::checkpoint
