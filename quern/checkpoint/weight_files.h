// Which files of a checkpoint folder hold its weights, and what a file is that should be one but is
// not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quern/checkpoint/problems.h"
#include "quern/checkpoint/safetensors.h"

namespace quern::checkpoint {

// The weight files of a folder by name, and what the index says about their tensors.
struct WeightFiles {
  std::vector<std::string> files;                      // relative to the folder, sorted
  std::string index_file;                              // empty when there is no index
  std::vector<SafetensorsParser::IndexEntry> entries;  // by tensor; `file` counts in `files`
};

// Looks for model.safetensors.index.json, then model.safetensors, then any *.safetensors files (a
// warning: nothing says whether they are complete). `files` is empty when there is nothing to open;
// then the reason, with the weight formats found instead (GGUF, PyTorch pickles ...), is an error
// in `problems`.
WeightFiles FindWeightFiles(const std::string& directory, SafetensorsParser& parser,
                            Problems& problems);

// True for the text file that Git-LFS leaves in place of content it has not fetched.
bool IsLfsPointer(std::span<const std::byte> bytes);

// The name of the unsupported weight format that a file name suggests ("GGUF" for "x.gguf"), or
// empty.
std::string ForeignFormat(const std::string& file_name);

}  // namespace quern::checkpoint
