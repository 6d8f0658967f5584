#include <algorithm>
#include <utility>

#include "quern/checkpoint/safetensors.h"
#include "quern/checkpoint/safetensors_impl.h"

namespace quern::checkpoint {
namespace {

// A relative path that stays inside the checkpoint's folder.
bool StaysInside(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos)
    return false;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return false;
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return true;
}

using Pair = std::pair<std::string_view, std::string_view>;  // tensor, file

// The index's weight_map as pairs; a bad entry is an error and left out.
std::vector<Pair> ReadPairs(simdjson::dom::object map, FileErrors& errors) {
  std::vector<Pair> pairs;
  for (auto field : map) {
    std::string_view name;
    if (field.value.get(name) != simdjson::SUCCESS || !StaysInside(name)) {
      errors.Add("tensor {} is placed in {}, which is not a file of this folder",
                 Printable(field.key),
                 name.empty() ? "something other than a file name" : Printable(name));
      continue;
    }
    pairs.emplace_back(field.key, name);
  }
  return pairs;
}

}  // namespace

SafetensorsParser::Index SafetensorsParser::ParseIndex(std::string_view text,
                                                       const std::string& file,
                                                       Problems& problems) {
  Index index;
  FileErrors errors(file, problems);
  simdjson::dom::object root, map;
  if (const char* error = impl_->ParseObject(text, root); error != nullptr) {
    errors.Add("not a JSON object ({}); is the download complete?", error);
    return index;
  }
  if (root["weight_map"].get(map) != simdjson::SUCCESS) {
    errors.Add("has no \"weight_map\" object, so no tensor can be found");
    return index;
  }
  std::vector<Pair> pairs = ReadPairs(map, errors);
  if (pairs.empty()) {
    errors.Add("\"weight_map\" places no tensor in any file");
    return index;
  }
  for (const Pair& pair : pairs) index.files.emplace_back(pair.second);
  std::sort(index.files.begin(), index.files.end());
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());

  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.first < b.first; });
  index.entries.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    if (!index.entries.empty() && index.entries.back().tensor == pair.first) {
      errors.Add("tensor {} is listed twice", Printable(pair.first));
      continue;
    }
    const auto at = std::lower_bound(index.files.begin(), index.files.end(), pair.second);
    index.entries.push_back(
        {std::string(pair.first), static_cast<int32_t>(at - index.files.begin())});
  }
  return index;
}

}  // namespace quern::checkpoint
