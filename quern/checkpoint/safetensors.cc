#include "quern/checkpoint/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "quern/checkpoint/safetensors_impl.h"

namespace quern::checkpoint {
namespace {

using simdjson::dom::element;

constexpr size_t kMaxRank = 16;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// The JSON text of the header, or nothing when the length in front of it cannot be right.
std::optional<std::string_view> HeaderText(std::span<const std::byte> bytes, uint64_t file_size,
                                           FileErrors& errors) {
  if (file_size < 8 || bytes.size() < 8) {
    errors.Add("{} bytes, too short for a safetensors header; is the download complete?",
               file_size);
    return std::nullopt;
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = (length << 8) | static_cast<uint64_t>(bytes[i]);
  if (length > kMaxSafetensorsHeaderBytes) {
    errors.Add(
        "header length {} is over the limit of {}; this is not a safetensors file, or it is "
        "damaged",
        length, kMaxSafetensorsHeaderBytes);
    return std::nullopt;
  }
  if (length > file_size - 8 || length > bytes.size() - 8) {
    errors.Add("the header needs {} bytes but the file ends after {}; is the download complete?",
               length + 8, file_size);
    return std::nullopt;
  }
  return std::string_view(reinterpret_cast<const char*>(bytes.data()) + 8, length);
}

// One tensor's JSON object, field by field.
struct Fields {
  std::optional<std::string_view> dtype;
  std::optional<simdjson::dom::array> shape;
  std::optional<simdjson::dom::array> offsets;
};

// What is wrong with the object's fields, or empty.
std::string ReadFields(element value, Fields& out) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return "is not a JSON object";
  for (auto field : object) {
    simdjson::error_code error = simdjson::SUCCESS;
    bool twice = false;
    if (field.key == "dtype") {
      twice = out.dtype.has_value();
      error = field.value.get(out.dtype.emplace());
    } else if (field.key == "shape") {
      twice = out.shape.has_value();
      error = field.value.get(out.shape.emplace());
    } else if (field.key == "data_offsets") {
      twice = out.offsets.has_value();
      error = field.value.get(out.offsets.emplace());
    }
    if (error != simdjson::SUCCESS) return fmt::format("has a {} of the wrong type", field.key);
    if (twice) return fmt::format("has {} twice", field.key);
  }
  if (!out.dtype) return "has no dtype";
  if (!out.shape) return "has no shape";
  if (!out.offsets) return "has no data_offsets";
  return {};
}

// Fills `tensor` (but for its name and shard) from its JSON; what is wrong, or empty. Offsets stay
// relative.
std::string ReadTensor(element value, TensorInfo& tensor) {
  Fields fields;
  if (std::string error = ReadFields(value, fields); !error.empty()) return error;

  const std::optional<Dtype> dtype = DtypeFromName(*fields.dtype);
  if (!dtype)
    return fmt::format("has dtype {}, which quern does not know", Printable(*fields.dtype));
  tensor.dtype = *dtype;

  if (fields.shape->size() > kMaxRank) return fmt::format("has more than {} dimensions", kMaxRank);
  uint64_t bytes = static_cast<uint64_t>(DtypeBytes(*dtype));
  for (element dim : *fields.shape) {
    int64_t n = 0;
    if (dim.get(n) != simdjson::SUCCESS || n < 0) {
      return "has a shape that is not a list of non-negative integers";
    }
    tensor.shape.push_back(n);
  }
  // A zero anywhere makes the tensor empty, whatever the product of the other dimensions.
  const bool is_empty = std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0;
  for (int64_t n : tensor.shape) {
    if (is_empty) {
      bytes = 0;
    } else if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(n), &bytes)) {
      return fmt::format("has shape {}, too large for any file", ShapeText(tensor.shape));
    }
  }

  uint64_t range[2] = {0, 0};
  size_t count = 0;
  for (element offset : *fields.offsets) {
    uint64_t n = 0;
    if (count == 2 || offset.get(n) != simdjson::SUCCESS) count = 3;
    if (count > 2) break;
    range[count++] = n;
  }
  if (count != 2) return "has data_offsets that are not two non-negative integers";
  if (range[0] > range[1]) {
    return fmt::format("has data_offsets [{}, {}], which run backwards", range[0], range[1]);
  }
  // Offsets far beyond any file would overflow once the header's size is added.
  if (range[1] > (uint64_t{1} << 62)) {
    return fmt::format("has data_offsets [{}, {}], beyond any file", range[0], range[1]);
  }
  tensor.offset = range[0];
  tensor.bytes = range[1] - range[0];
  if (tensor.bytes != bytes) {
    return fmt::format("holds {} bytes, want {} ({} {}); is the file damaged?", tensor.bytes, bytes,
                       ShapeText(tensor.shape), DtypeName(*dtype));
  }
  return {};
}

// Removes tensors whose name came before, reporting each.
void DropDuplicates(std::vector<TensorInfo>& tensors, FileErrors& errors) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  auto last = std::unique(tensors.begin(), tensors.end(),
                          [&errors](const TensorInfo& a, const TensorInfo& b) {
                            if (a.name != b.name) return false;
                            errors.Add("tensor {} is listed twice", Printable(a.name));
                            return true;
                          });
  tensors.erase(last, tensors.end());
}

// Sorts by place in the file and reports overlaps, bytes missing at the end and bytes without an
// owner.
void CheckLayout(std::vector<TensorInfo>& tensors, uint64_t data_begin, uint64_t file_size,
                 const std::string& file, FileErrors& errors, Problems& problems) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.offset + a.bytes) < std::pair(b.offset, b.offset + b.bytes);
  });
  uint64_t end = data_begin;  // of everything seen so far
  uint64_t unowned = 0;
  const TensorInfo* last = nullptr;  // the tensor that reaches to `end`
  for (const TensorInfo& tensor : tensors) {
    if (tensor.bytes == 0) {  // overlaps nothing, but must lie in the file like the rest
      if (tensor.offset > file_size) {
        errors.Add("empty tensor {} lies at byte {} of {}", Printable(tensor.name), tensor.offset,
                   file_size);
      }
      continue;
    }
    if (tensor.offset < end && last != nullptr) {
      errors.Add("tensors {} and {} overlap at byte {}", Printable(last->name),
                 Printable(tensor.name), tensor.offset);
    }
    if (tensor.offset > end) unowned += tensor.offset - end;
    if (tensor.offset + tensor.bytes > end) {
      end = tensor.offset + tensor.bytes;
      last = &tensor;
    }
  }
  if (end > file_size) {
    errors.Add(
        "{} bytes, want {}: {} bytes missing (up to the end of tensor {}); is the download "
        "complete?",
        file_size, end, end - file_size, Printable(last->name));
  } else {
    unowned += file_size - end;
  }
  if (unowned > 0) {
    problems.Warning("{}: {} bytes of data belong to no tensor", file, unowned);
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  constexpr size_t kMaxBytes = 200;
  std::string out(text.substr(0, kMaxBytes));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (text.size() <= kMaxBytes) return out;
  // Cut before a half character, not through it.
  while (!out.empty() && (static_cast<unsigned char>(text[out.size()]) & 0xC0) == 0x80)
    out.pop_back();
  return out + "...";
}

SafetensorsParser::SafetensorsParser() : impl_(std::make_unique<Impl>()) {}
SafetensorsParser::~SafetensorsParser() = default;

std::vector<TensorInfo> SafetensorsParser::ParseHeader(std::span<const std::byte> bytes,
                                                       uint64_t file_size, const std::string& file,
                                                       int32_t shard, Problems& problems) {
  std::vector<TensorInfo> tensors;
  FileErrors errors(file, problems);
  const std::optional<std::string_view> text = HeaderText(bytes, file_size, errors);
  if (!text) return tensors;

  simdjson::dom::object root;
  if (const char* error = impl_->ParseObject(*text, root); error != nullptr) {
    errors.Add("the header is not the JSON object it should be ({}); is this a safetensors file?",
               error);
    return tensors;
  }
  tensors.reserve(root.size());
  const uint64_t data_begin = 8 + text->size();
  for (auto field : root) {
    if (field.key == "__metadata__") continue;
    TensorInfo tensor;
    if (std::string error = ReadTensor(field.value, tensor); !error.empty()) {
      errors.Add("tensor {} {}", Printable(field.key), error);
      continue;
    }
    tensor.name = std::string(field.key);
    tensor.shard = shard;
    tensor.offset += data_begin;
    tensors.push_back(std::move(tensor));
  }
  DropDuplicates(tensors, errors);
  CheckLayout(tensors, data_begin, file_size, file, errors, problems);
  // A tensor that ends beyond the file must never be handed out: reading it would be a fault.
  std::erase_if(tensors,
                [file_size](const TensorInfo& t) { return t.offset + t.bytes > file_size; });
  return tensors;
}

}  // namespace quern::checkpoint
