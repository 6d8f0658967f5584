// What safetensors.cc and safetensors_index.cc share: the JSON parser and bounded error lists.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>
#include <utility>

#include "quern/checkpoint/safetensors.h"

namespace quern::checkpoint {

// Errors of one file, prefixed with its name, and no more of them than a person would read.
class FileErrors {
 public:
  FileErrors(const std::string& file, Problems& problems) : file_(file), problems_(problems) {}
  ~FileErrors() {
    if (count_ > kMaxShown) problems_.Error("{}: ... and {} more", file_, count_ - kMaxShown);
  }
  FileErrors(const FileErrors&) = delete;
  FileErrors& operator=(const FileErrors&) = delete;

  template <typename... Args>
  void Add(fmt::format_string<Args...> f, Args&&... args) {
    if (++count_ > kMaxShown) return;
    problems_.Error("{}: {}", file_, fmt::format(f, std::forward<Args>(args)...));
  }

 private:
  static constexpr int64_t kMaxShown = 20;
  const std::string& file_;
  Problems& problems_;
  int64_t count_ = 0;
};

struct SafetensorsParser::Impl {
  simdjson::dom::parser parser;

  // Parses `text`, which must be one JSON object; views into it live until the next call. What is
  // wrong, or null.
  const char* ParseObject(std::string_view text, simdjson::dom::object& out) {
    // The parser reads a few bytes past its input, so it makes its own padded copy.
    simdjson::dom::element root;
    simdjson::error_code error = parser.parse(text.data(), text.size(), true).get(root);
    if (error == simdjson::SUCCESS) error = root.get(out);
    return error == simdjson::SUCCESS ? nullptr : simdjson::error_message(error);
  }
};

}  // namespace quern::checkpoint
