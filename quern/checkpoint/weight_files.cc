#include "quern/checkpoint/weight_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "quern/base/file.h"

namespace quern::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kSingleFile[] = "model.safetensors";

struct Foreign {
  std::string_view suffix;
  std::string_view format;
};
constexpr Foreign kForeign[] = {
    {".gguf", "GGUF"},
    {".ggml", "GGML"},
    {".bin", "PyTorch pickle"},
    {".pt", "PyTorch pickle"},
    {".pth", "PyTorch pickle"},
    {".ckpt", "PyTorch pickle"},
    {".h5", "Keras HDF5"},
    {".msgpack", "Flax msgpack"},
    {".onnx", "ONNX"},
    {".npz", "NumPy archive"},
    {".engine", "TensorRT engine"},
};

bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

// Names of the files in `directory`, sorted. An unreadable folder has none: what is missing is
// reported by name.
std::vector<std::string> ListFiles(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "a", "a, b", "a, b and 7 more".
std::string NameSome(const std::vector<std::string>& names) {
  constexpr size_t kMaxShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxShown); ++i) {
    text += (i == 0 ? "" : ", ") + Printable(names[i]);
  }
  if (names.size() > kMaxShown) text += fmt::format(" and {} more", names.size() - kMaxShown);
  return text;
}

// No safetensors at all: says what is there instead.
void ReportNoWeights(const std::vector<std::string>& names, Problems& problems) {
  for (const Foreign& foreign : kForeign) {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      if (EndsWith(name, foreign.suffix)) found.push_back(name);
    }
    if (found.empty()) continue;
    problems.Error(
        "no safetensors weights, only {} files ({}), which quern does not read; supported are "
        "{} or {} with its shards",
        foreign.format, NameSome(found), kSingleFile, kIndexFile);
    return;
  }
  problems.Error("no weights: neither {} nor {} is there; is the download complete?", kSingleFile,
                 kIndexFile);
}

void ReadIndex(const std::string& directory, SafetensorsParser& parser, WeightFiles& out,
               Problems& problems) {
  constexpr uint64_t kMaxIndexBytes = uint64_t{256} << 20;
  out.index_file = kIndexFile;
  Result<std::string> text = ReadFile(directory + "/" + kIndexFile, kMaxIndexBytes);
  if (!text.ok()) {
    problems.Error("{}", text.status().message());
  } else if (text->empty()) {
    problems.Error("{}: zero bytes; is the download complete?", kIndexFile);
  } else if (IsLfsPointer(std::as_bytes(std::span(*text)))) {
    problems.Error("{}: a Git-LFS pointer, not the file itself; run: git lfs pull", kIndexFile);
  } else {
    SafetensorsParser::Index index = parser.ParseIndex(*text, kIndexFile, problems);
    out.files = std::move(index.files);
    out.entries = std::move(index.entries);
  }
}

}  // namespace

bool IsLfsPointer(std::span<const std::byte> bytes) {
  constexpr std::string_view kStart = "version https://git-lfs.github.com/spec/";
  return bytes.size() >= kStart.size() &&
         std::memcmp(bytes.data(), kStart.data(), kStart.size()) == 0;
}

std::string ForeignFormat(const std::string& file_name) {
  for (const Foreign& foreign : kForeign) {
    if (EndsWith(file_name, foreign.suffix)) return std::string(foreign.format);
  }
  return {};
}

WeightFiles FindWeightFiles(const std::string& directory, SafetensorsParser& parser,
                            Problems& problems) {
  WeightFiles out;
  const std::vector<std::string> names = ListFiles(directory);
  const auto has = [&names](const char* name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  if (has(kIndexFile)) {
    ReadIndex(directory, parser, out, problems);
    if (has(kSingleFile) && !std::binary_search(out.files.begin(), out.files.end(), kSingleFile)) {
      problems.Warning("{} is there too, but {} does not name it: it is not read", kSingleFile,
                       kIndexFile);
    }
    return out;
  }
  if (has(kSingleFile)) {
    out.files = {kSingleFile};
    return out;
  }
  for (const std::string& name : names) {
    if (EndsWith(name, ".safetensors")) out.files.push_back(name);
  }
  if (out.files.empty()) {
    ReportNoWeights(names, problems);
  } else {
    problems.Warning(
        "no {}: reading all {} .safetensors files ({}); whether they are complete is unknown",
        kIndexFile, out.files.size(), NameSome(out.files));
  }
  return out;
}

}  // namespace quern::checkpoint
