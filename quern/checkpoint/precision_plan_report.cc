#include "quern/checkpoint/precision_plan_report.h"

#include <fmt/format.h>

#include <utility>

namespace quern::checkpoint {

std::string FormatLayers(const std::set<int>& layers) {
  std::string text;
  for (auto it = layers.begin(); it != layers.end();) {
    const int first = *it;
    int last = first;
    while (++it != layers.end() && *it == last + 1) last = *it;
    if (!text.empty()) text += ", ";
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

int LayerOf(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (name.substr(0, kPrefix.size()) != kPrefix) return -1;
  int layer = 0;
  size_t i = kPrefix.size();
  for (; i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i) {
    if (layer > 100'000) return -1;
    layer = layer * 10 + (name[i] - '0');
  }
  return i > kPrefix.size() && i < name.size() && name[i] == '.' ? layer : -1;
}

std::string NameKind(std::string_view name) {
  std::string kind;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) {
      kind += c;
    } else if (kind.empty() || kind.back() != '#') {
      kind += '#';
    }
  }
  return kind;
}

void GroupedMessages::Add(std::string key, std::string_view name, std::string message) {
  const auto [it, fresh] = index_.emplace(std::move(key), groups_.size());
  if (fresh) groups_.push_back({.message = std::move(message)});
  Group& group = groups_[it->second];
  ++group.count;
  if (const int layer = LayerOf(name); layer >= 0) group.layers.insert(layer);
}

std::vector<std::string> GroupedMessages::Take() {
  std::vector<std::string> messages;
  for (Group& group : groups_) {
    std::string message = std::move(group.message);
    if (group.count > 1) {
      message += fmt::format(" ({} more like it", group.count - 1);
      if (!group.layers.empty()) {
        message += fmt::format("; layer{} {}", group.layers.size() > 1 ? "s" : "",
                               FormatLayers(group.layers));
      }
      message += ")";
    }
    messages.push_back(std::move(message));
  }
  groups_.clear();
  index_.clear();
  return messages;
}

}  // namespace quern::checkpoint
