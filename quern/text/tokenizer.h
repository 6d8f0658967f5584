// The checkpoint's tokenizer.json, run by the Hugging Face `tokenizers` crate (folder rust/).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/status.h"

namespace quern::text {

// Owns the crate's tokenizer. Immutable and thread-safe after creation.
class Tokenizer {
 public:
  // Path of a tokenizer.json.
  static Result<std::unique_ptr<Tokenizer>> FromFile(const std::string& path);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Token ids of UTF-8 `text`. Added tokens (<|user|> ...) in the text are matched literally, as
  // the reference does; `add_special_tokens` runs the post-processor (GLM's adds nothing).
  // kInvalidArgument for invalid UTF-8.
  Result<std::vector<int32_t>> Encode(std::string_view text, bool add_special_tokens = false) const;

  // Text of `ids`. Bytes that are not UTF-8 become U+FFFD; ids out of range are an error naming the
  // id.
  Result<std::string> Decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // The raw bytes token `id` stands for ("" for padding rows past the vocabulary); added tokens
  // give their text. `skip_special` gives "" for tokens flagged special.
  const std::string& TokenBytes(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  // The id of an added or base token by its exact content, e.g. "</think>".
  std::optional<int32_t> TokenId(std::string_view token) const;
  int32_t vocab_size() const;  // ids are < vocab_size()

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::text
