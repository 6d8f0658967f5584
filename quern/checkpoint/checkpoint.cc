#include "quern/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "quern/checkpoint/safetensors.h"
#include "quern/checkpoint/weight_files.h"

namespace quern::checkpoint {
namespace {

namespace fs = std::filesystem;

// Marks a file that could not be opened: what the index places in it is not reported a second time.
constexpr int32_t kNotOpened = -1;

// Of one kind of problem, this many are listed one by one and the rest counted.
constexpr int64_t kMaxShown = 20;

Json ReadConfig(const std::string& directory, Problems& problems) {
  constexpr uint64_t kMaxConfigBytes = uint64_t{32} << 20;
  Result<std::string> text = ReadFile(directory + "/config.json", kMaxConfigBytes);
  if (!text.ok()) {
    problems.Error("{}; a checkpoint needs its config.json", text.status().message());
    return nullptr;
  }
  if (text->empty()) {
    problems.Error("config.json: zero bytes; is the download complete?");
    return nullptr;
  }
  if (IsLfsPointer(std::as_bytes(std::span(*text)))) {
    problems.Error("config.json: a Git-LFS pointer, not the file itself; run: git lfs pull");
    return nullptr;
  }
  Result<Json> json = ParseJson(*text);
  if (!json.ok()) {
    problems.Error("config.json: {}", json.status().message());
    return nullptr;
  }
  return std::move(json).value();
}

// Maps one weight file; nothing when it is no file with content, which is reported.
std::optional<MappedFile> MapWeights(const std::string& directory, const std::string& name,
                                     int64_t& num_missing, Problems& problems) {
  Result<MappedFile> file = MappedFile::Open(directory + "/" + name);
  if (!file.ok()) {
    if (file.status().code() == StatusCode::kNotFound) {
      if (++num_missing <= kMaxShown) {
        problems.Error("{}: missing; is the download complete?", Printable(name));
      }
    } else {
      problems.Error("{}", file.status().message());
    }
    return std::nullopt;
  }
  if (file->size() == 0) {
    problems.Error("{}: zero bytes; is the download complete?", Printable(name));
    return std::nullopt;
  }
  if (IsLfsPointer(file->bytes())) {
    problems.Error("{}: a Git-LFS pointer ({} bytes), not the weights; run: git lfs pull",
                   Printable(name), file->size());
    return std::nullopt;
  }
  return std::move(file).value();
}

// Sorts by name and keeps the first of two tensors that two files both claim.
void SortByName(const std::vector<Shard>& shards, std::vector<TensorInfo>& tensors,
                Problems& problems) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto file = [&shards](const TensorInfo& t) {
    return fs::path(shards[t.shard].path).filename().string();
  };
  int64_t twice = 0;
  auto last =
      std::unique(tensors.begin(), tensors.end(), [&](const TensorInfo& a, const TensorInfo& b) {
        if (a.name != b.name) return false;
        if (++twice <= kMaxShown) {
          problems.Error("tensor {} is in both {} and {}", Printable(a.name), Printable(file(a)),
                         Printable(file(b)));
        }
        return true;
      });
  tensors.erase(last, tensors.end());
  if (twice > kMaxShown) {
    problems.Error("... and {} more tensors are in two files", twice - kMaxShown);
  }
}

// A count per file and the first tensor it was seen with, so that one wrong file is one line.
struct Tally {
  int64_t count = 0;
  std::string first;
  void Add(const std::string& name) {
    if (count++ == 0) first = name;
  }
  std::string Text() const {
    return count == 1 ? fmt::format("tensor {}", Printable(first))
                      : fmt::format("{} tensors (first: {})", count, Printable(first));
  }
};

// Compares what the index says with what the files hold. For found.files[f], shard_of_file[f] is
// its shard or kNotOpened, and is_sound[f] says that all its tensors are known.
void CheckIndex(const WeightFiles& found, const std::vector<int32_t>& shard_of_file,
                const std::vector<bool>& is_sound, const std::vector<TensorInfo>& tensors,
                Problems& problems) {
  const size_t num_files = found.files.size();
  std::vector<Tally> absent(num_files), elsewhere(num_files), unlisted(num_files);
  std::vector<int32_t> file_of_shard(num_files, 0);
  for (size_t f = 0; f < num_files; ++f) {
    if (shard_of_file[f] != kNotOpened) file_of_shard[shard_of_file[f]] = static_cast<int32_t>(f);
  }
  // Both lists are sorted by name: one walk.
  size_t t = 0;
  for (const SafetensorsParser::IndexEntry& entry : found.entries) {
    for (; t < tensors.size() && tensors[t].name < entry.tensor; ++t) {
      unlisted[file_of_shard[tensors[t].shard]].Add(tensors[t].name);
    }
    const bool is_there = t < tensors.size() && tensors[t].name == entry.tensor;
    const int32_t shard = shard_of_file[entry.file];
    if (!is_there) {
      if (is_sound[entry.file]) absent[entry.file].Add(entry.tensor);
    } else if (tensors[t++].shard != shard && shard != kNotOpened) {
      elsewhere[entry.file].Add(entry.tensor);
    }
  }
  for (; t < tensors.size(); ++t) unlisted[file_of_shard[tensors[t].shard]].Add(tensors[t].name);

  for (size_t f = 0; f < num_files; ++f) {
    const std::string file = Printable(found.files[f]);
    if (absent[f].count > 0) {
      problems.Error("{}: {} placed here by {} not found in the file", file, absent[f].Text(),
                     found.index_file);
    }
    if (elsewhere[f].count > 0) {
      problems.Error("{}: {} placed here by {} found in another file", file, elsewhere[f].Text(),
                     found.index_file);
    }
    if (unlisted[f].count > 0) {
      problems.Warning("{}: holds {} that {} does not list", file, unlisted[f].Text(),
                       found.index_file);
    }
  }
}

// The folder and, when the path names one weight file, that file's name.
struct Location {
  std::string directory;
  std::string file;
};

Result<Location> Locate(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return NotFound("{}: no such file or folder; give the folder of a checkpoint", path);
  }
  if (fs::is_directory(status)) return Location{path, ""};
  const fs::path as_path(path);
  if (as_path.extension() != ".safetensors") {
    const std::string format = ForeignFormat(as_path.filename().string());
    return Unimplemented(
        "{}: {}; quern reads a folder with config.json and safetensors weights, or one "
        ".safetensors "
        "file beside a config.json",
        path, format.empty() ? "not a checkpoint folder" : format + " is not supported");
  }
  const std::string directory = as_path.parent_path().string();
  return Location{directory.empty() ? "." : directory, as_path.filename().string()};
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path, Problems& problems) {
  QUERN_ASSIGN(Location at, Locate(path));
  auto checkpoint = std::make_unique<Checkpoint>();
  checkpoint->directory_ = at.directory;
  checkpoint->config_json_ = ReadConfig(at.directory, problems);

  SafetensorsParser parser;
  WeightFiles found;
  if (at.file.empty()) {
    found = FindWeightFiles(at.directory, parser, problems);
  } else {
    found.files = {at.file};
  }
  std::vector<int32_t> shard_of_file(found.files.size(), kNotOpened);
  std::vector<bool> is_sound(found.files.size(), false);
  int64_t num_missing = 0;
  for (size_t f = 0; f < found.files.size(); ++f) {
    std::optional<MappedFile> file =
        MapWeights(at.directory, found.files[f], num_missing, problems);
    if (!file) continue;
    const size_t errors_before = problems.errors().size();
    shard_of_file[f] = static_cast<int32_t>(checkpoint->shards_.size());
    std::vector<TensorInfo> tensors = parser.ParseHeader(
        file->bytes(), file->size(), Printable(found.files[f]), shard_of_file[f], problems);
    is_sound[f] = problems.errors().size() == errors_before;
    std::move(tensors.begin(), tensors.end(), std::back_inserter(checkpoint->tensors_));
    checkpoint->shards_.push_back({at.directory + "/" + found.files[f], *std::move(file)});
  }
  if (num_missing > kMaxShown) {
    problems.Error("... and {} more weight files are missing", num_missing - kMaxShown);
  }
  if (checkpoint->shards_.empty()) return problems.ToStatus(path);

  SortByName(checkpoint->shards_, checkpoint->tensors_, problems);
  if (!found.entries.empty()) {
    CheckIndex(found, shard_of_file, is_sound, checkpoint->tensors_, problems);
  }
  return checkpoint;
}

const TensorInfo* Checkpoint::Find(std::string_view name) const {
  const auto it =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorInfo& t, std::string_view n) { return t.name < n; });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

std::span<const std::byte> Checkpoint::Bytes(const TensorInfo& tensor) const {
  return shards_[tensor.shard].file.bytes().subspan(tensor.offset, tensor.bytes);
}

void Checkpoint::Release(const TensorInfo& tensor) const {
  shards_[tensor.shard].file.Release(tensor.offset, tensor.bytes);
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t total = 0;
  for (const TensorInfo& tensor : tensors_) total += tensor.bytes;
  return total;
}

}  // namespace quern::checkpoint
