#include "quern/cache/disk_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace quern::cache {
namespace {

namespace fs = std::filesystem;

class DiskStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "disk_store_test";
    fs::remove_all(directory_);
  }
  std::unique_ptr<DiskStore> Open(const std::string& identity = "model A", int64_t max = 1 << 20) {
    return DiskStore::Open({directory_, max, identity, 256}).value();
  }
  static DiskPage Page(int32_t first) {
    DiskPage page;
    page.parent_hash = 7;
    for (int32_t i = 0; i < 64; ++i) page.tokens.push_back(first + i);
    page.has_draft_keys = first % 2 == 0;
    page.bytes.assign(256, static_cast<std::byte>(first));
    return page;
  }
  std::string FileOf(uint64_t hash) {
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      if (entry.path().stem() == fmt::format("{:016x}", hash)) return entry.path().string();
    }
    return "";
  }
  std::string directory_;
};

TEST_F(DiskStoreTest, PagesSurviveARestart) {
  const DiskPage page = Page(4);
  uint64_t root;
  {
    const auto store = Open();
    root = store->root_hash();
    store->Save(99, page);
  }
  const auto store = Open();
  EXPECT_EQ(store->root_hash(), root);
  DiskPage got;
  ASSERT_TRUE(store->Load(99, 7, page.tokens, got));
  EXPECT_EQ(got.bytes, page.bytes);
  EXPECT_TRUE(got.has_draft_keys);
  EXPECT_FALSE(store->Load(98, 7, page.tokens, got));
}

TEST_F(DiskStoreTest, OtherTokensUnderTheSameHashAreNotServed) {
  const auto store = Open();
  store->Save(99, Page(4));
  DiskPage got;
  EXPECT_FALSE(store->Load(99, 7, Page(5).tokens, got));
  EXPECT_FALSE(store->Load(99, 8, Page(4).tokens, got));
  EXPECT_TRUE(store->Load(99, 7, Page(4).tokens, got));
}

TEST_F(DiskStoreTest, AnotherModelsPagesAreNeverRead) {
  Open("model A")->Save(99, Page(4));
  const auto store = Open("model B");
  EXPECT_EQ(store->num_pages(), 0);
  // Not even when somebody moves the file.
  const std::string file = FileOf(99);
  Open("model B")->Save(98, Page(6));
  fs::copy_file(file, fs::path(FileOf(98)).parent_path() / fs::path(file).filename());
  DiskPage got;
  EXPECT_FALSE(Open("model B")->Load(99, 7, Page(4).tokens, got));
}

TEST_F(DiskStoreTest, DamagedFilesAreIgnoredAndRemoved) {
  const DiskPage page = Page(4);
  std::string whole;
  {
    Open()->Save(99, page);
    std::ifstream in(FileOf(99), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::string path = FileOf(99);
  const auto write = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (size_t at = 0; at < whole.size(); at += 13) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(damaged);
    DiskPage got;
    EXPECT_FALSE(Open()->Load(99, 7, page.tokens, got)) << at;
  }
  for (size_t size = 0; size < whole.size(); size += 17) {
    write(whole.substr(0, size));
    DiskPage got;
    EXPECT_FALSE(Open()->Load(99, 7, page.tokens, got)) << size;
    EXPECT_FALSE(fs::exists(path)) << size;
  }
}

TEST_F(DiskStoreTest, FilesWithOtherNamesAreLeftAlone) {
  Open()->Save(0xAB, Page(4));
  const fs::path folder = fs::path(FileOf(0xAB)).parent_path();
  for (const char* name : {"a.page", ".page", "zz.page", "00000000000000AB.page", "notes.txt"}) {
    std::ofstream(folder / name) << "something else";
  }
  const auto store = Open();
  EXPECT_EQ(store->num_pages(), 1);
  EXPECT_TRUE(store->Contains(0xAB));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
}

TEST_F(DiskStoreTest, StaysWithinItsBytesDroppingTheLeastRecentlyUsed) {
  const auto store = Open("model A", 3 * 600);
  for (uint64_t i = 0; i < 3; ++i) store->Save(i, Page(static_cast<int32_t>(i)));
  DiskPage got;
  ASSERT_TRUE(store->Load(0, 7, Page(0).tokens, got));
  store->Save(3, Page(3));
  EXPECT_TRUE(store->Contains(0));
  EXPECT_FALSE(store->Contains(1));
  EXPECT_LE(store->bytes(), 3 * 600);
}

TEST_F(DiskStoreTest, ADirectoryThatCannotBeMadeIsAnError) {
  std::ofstream(directory_) << "a file";
  const auto store = DiskStore::Open({directory_, 1000, "m", 256});
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.status().message().find(directory_), std::string::npos);
}

}  // namespace
}  // namespace quern::cache
