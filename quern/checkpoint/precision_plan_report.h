// Thousands of tensors can be wrong in one way: messages by kind, with the first named and the
// others counted.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "quern/checkpoint/problems.h"

namespace quern::checkpoint {

// "3-77, 79" for {3..77, 79}.
std::string FormatLayers(const std::set<int>& layers);

// The N of "model.layers.N." at the start of a name, -1 without one.
int LayerOf(std::string_view name);

// `name` with every run of digits replaced by '#': names of one kind become equal.
std::string NameKind(std::string_view name);

// Gathers messages by key in the order their keys first came.
class GroupedMessages {
 public:
  // `message` is a complete message about tensor `name`; it is kept only if it is the first with
  // this key.
  void Add(std::string key, std::string_view name, std::string message);
  bool empty() const { return groups_.empty(); }

  // One message per key: the first one, then how many more there are, in which layers.
  std::vector<std::string> Take();

 private:
  struct Group {
    std::string message;
    size_t count = 0;
    std::set<int> layers;
  };
  std::unordered_map<std::string, size_t> index_;
  std::vector<Group> groups_;
};

}  // namespace quern::checkpoint
