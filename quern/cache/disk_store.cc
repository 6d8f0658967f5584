#include "quern/cache/disk_store.h"

#include <algorithm>
#include <boost/crc.hpp>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "quern/base/hash.h"
#include "quern/base/log.h"

namespace quern::cache {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'Q', 'U', 'E', 'R', 'N', 'K', 'V', '1'};
constexpr const char* kSuffix = ".page";
constexpr const char* kSeedFile = "root";

// What precedes the bytes in a file. Fixed width, native (little-endian) order: the store is for
// this machine.
struct Header {
  char magic[8];
  uint64_t identity;
  uint64_t path_hash;
  uint64_t parent_hash;
  uint64_t page_bytes;
  uint32_t num_tokens;
  uint32_t has_draft_keys;
  uint32_t checksum;  // CRC-32 of header (with 0 here), tokens and bytes
  uint32_t padding;
};

uint64_t HashOf(const std::string& text) {
  Fnv1a hash;
  hash.Add(text);
  return hash.value();
}

uint32_t Checksum(Header header, const DiskPage& page) {
  boost::crc_32_type crc;
  header.checksum = 0;
  crc.process_bytes(&header, sizeof(header));
  crc.process_bytes(page.tokens.data(), page.tokens.size() * sizeof(int32_t));
  crc.process_bytes(page.bytes.data(), page.bytes.size());
  return crc.checksum();
}

bool ReadAll(std::ifstream& in, void* out, size_t bytes) {
  in.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes));
  return static_cast<size_t>(in.gcount()) == bytes;
}

}  // namespace

Result<std::unique_ptr<DiskStore>> DiskStore::Open(const DiskStoreOptions& options) {
  std::unique_ptr<DiskStore> store(new DiskStore(options));
  QUERN_TRY(store->Prepare());
  store->Scan();
  return store;
}

Status DiskStore::Prepare() {
  folder_ =
      (fs::path(options_.directory) / fmt::format("{:016x}", HashOf(options_.identity))).string();
  std::error_code ec;
  fs::create_directories(folder_, ec);
  if (ec) {
    return InvalidArgument(
        "the cache directory {} cannot be made: {}; give one that can be written", folder_,
        ec.message());
  }
  const std::string seed_path = folder_ + "/" + kSeedFile;
  std::ifstream in(seed_path, std::ios::binary);
  if (in && ReadAll(in, &root_hash_, sizeof(root_hash_))) return OkStatus();
  std::random_device device;
  root_hash_ = static_cast<uint64_t>(device()) << 32 | device();
  std::ofstream out(seed_path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&root_hash_), sizeof(root_hash_));
  out.close();
  if (!out) {
    return InvalidArgument("the cache directory {} cannot be written; give one that can", folder_);
  }
  return OkStatus();
}

void DiskStore::Scan() {
  struct Found {
    fs::file_time_type time;
    uint64_t hash;
    int64_t bytes;
  };
  std::vector<Found> found;
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ec)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != kSuffix) {
      // What a crash left half written.
      if (entry.path().extension() == ".tmp") fs::remove(entry.path(), ec);
      continue;
    }
    uint64_t hash = 0;
    std::from_chars(name.data(), name.data() + name.size(), hash, 16);
    if (entry.path() != PathOf(hash)) {
      log::warn("{} is no page of the cache: ignored", entry.path().string());
      continue;
    }
    found.push_back({entry.last_write_time(ec), hash, static_cast<int64_t>(entry.file_size(ec))});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.time < b.time; });
  for (const Found& f : found) {
    files_[f.hash].bytes = f.bytes;
    bytes_ += f.bytes;
    Touch(f.hash);
  }
}

std::string DiskStore::PathOf(uint64_t path_hash) const {
  return fmt::format("{}/{:016x}{}", folder_, path_hash, kSuffix);
}

void DiskStore::Touch(uint64_t path_hash) {
  File& file = files_[path_hash];
  by_use_.erase(file.last_used);
  file.last_used = ++clock_;
  by_use_.emplace(file.last_used, path_hash);
}

void DiskStore::Forget(uint64_t path_hash) {
  const File file = files_[path_hash];
  by_use_.erase(file.last_used);
  files_.erase(path_hash);
  bytes_ -= file.bytes;
  std::error_code ec;
  fs::remove(PathOf(path_hash), ec);
}

bool DiskStore::Load(uint64_t path_hash, uint64_t parent_hash, std::span<const int32_t> tokens,
                     DiskPage& page) {
  if (!Contains(path_hash)) return false;
  const auto reject = [&](const char* what) {
    log::warn("{}: {}; the page is computed anew", PathOf(path_hash), what);
    Forget(path_hash);
    return false;
  };
  std::ifstream in(PathOf(path_hash), std::ios::binary);
  Header header;
  if (!in || !ReadAll(in, &header, sizeof(header))) return reject("the file is cut short");
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return reject("not a page of this version");
  }
  if (header.identity != HashOf(options_.identity) ||
      header.page_bytes != static_cast<uint64_t>(options_.page_bytes)) {
    return reject("a page of another model or key format");
  }
  if (header.path_hash != path_hash || header.num_tokens != tokens.size()) {
    return reject("the file is not what its name says");
  }
  page.tokens.resize(tokens.size());
  page.bytes.resize(static_cast<size_t>(options_.page_bytes));
  if (!ReadAll(in, page.tokens.data(), page.tokens.size() * sizeof(int32_t)) ||
      !ReadAll(in, page.bytes.data(), page.bytes.size())) {
    return reject("the file is cut short");
  }
  if (Checksum(header, page) != header.checksum) return reject("the checksum is wrong");
  // The same hash for other tokens is no damage: the page stays for those who have them.
  if (header.parent_hash != parent_hash ||
      !std::equal(tokens.begin(), tokens.end(), page.tokens.begin())) {
    return false;
  }
  page.parent_hash = parent_hash;
  page.has_draft_keys = header.has_draft_keys != 0;
  Touch(path_hash);
  return true;
}

void DiskStore::Save(uint64_t path_hash, const DiskPage& page) {
  if (failed_ || Contains(path_hash)) return;
  const int64_t size = static_cast<int64_t>(sizeof(Header) + page.tokens.size() * sizeof(int32_t) +
                                            page.bytes.size());
  if (size > options_.max_bytes) return;
  while (bytes_ + size > options_.max_bytes) Forget(by_use_.begin()->second);
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.identity = HashOf(options_.identity);
  header.path_hash = path_hash;
  header.parent_hash = page.parent_hash;
  header.page_bytes = page.bytes.size();
  header.num_tokens = static_cast<uint32_t>(page.tokens.size());
  header.has_draft_keys = page.has_draft_keys ? 1 : 0;
  header.checksum = Checksum(header, page);
  // Written aside and renamed: a crash leaves no half page under a page's name.
  const std::string path = PathOf(path_hash), part = path + ".tmp";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&header), sizeof(header));
  out.write(reinterpret_cast<const char*>(page.tokens.data()),
            static_cast<std::streamsize>(page.tokens.size() * sizeof(int32_t)));
  out.write(reinterpret_cast<const char*>(page.bytes.data()),
            static_cast<std::streamsize>(page.bytes.size()));
  out.close();
  std::error_code ec;
  if (out) fs::rename(part, path, ec);
  if (!out || ec) {
    log::warn("{} cannot be written ({}): no more pages are kept on disk", path,
              ec ? ec.message() : "is the disk full?");
    fs::remove(part, ec);
    failed_ = true;
    return;
  }
  files_[path_hash].bytes = size;
  bytes_ += size;
  Touch(path_hash);
}

}  // namespace quern::cache
