#include "quern/base/file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

namespace quern {
namespace {

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(File, ReadsWholeFiles) {
  const std::string path = Write("file_test_a", std::string("a\0b", 3));
  EXPECT_EQ(*ReadFile(path), std::string("a\0b", 3));
  EXPECT_EQ(ReadFile(path, 2).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(path + ".none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(testing::TempDir()).status().code(), StatusCode::kInvalidArgument);
}

TEST(File, MappingSurvivesMoveAndRelease) {
  std::string bytes(100000, 'x');
  bytes[70000] = 'y';
  MappedFile a = *MappedFile::Open(Write("file_test_b", bytes));
  MappedFile b = std::move(a);
  EXPECT_EQ(b.size(), bytes.size());
  b.Release(10, 99990);
  EXPECT_EQ(std::memcmp(b.bytes().data(), bytes.data(), bytes.size()), 0);
}

TEST(File, EmptyFileMapsToNothing) {
  EXPECT_EQ(MappedFile::Open(Write("file_test_c", ""))->size(), 0u);
}

}  // namespace
}  // namespace quern
