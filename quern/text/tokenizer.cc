#include "quern/text/tokenizer.h"

#include <cstring>
#include <unordered_map>

#include "quern/base/file.h"
#include "quern/text/rust_buffer.h"

namespace quern::text {
namespace {

constexpr uint32_t kSpecialFlag = 1;
// An id is an int32_t, and the table below has a row for each: this bounds what a broken file can
// ask for.
constexpr uint32_t kMaxVocabSize = 1u << 24;

struct TokenRow {
  std::string bytes;  // "" for an id that no token has
  bool special = false;
};

// Reads the records that quern_tokenizer_vocabulary writes.
class RecordReader {
 public:
  explicit RecordReader(std::string_view data) : data_(data) {}

  bool done() const { return data_.empty(); }
  uint32_t Word() {
    uint32_t word;
    std::memcpy(&word, Bytes(sizeof(word)).data(), sizeof(word));
    return word;
  }
  std::string_view Bytes(size_t count) {
    QUERN_CHECK(count <= data_.size(), "vocabulary record of {} bytes, {} left", count,
                data_.size());
    std::string_view bytes = data_.substr(0, count);
    data_.remove_prefix(count);
    return bytes;
  }

 private:
  std::string_view data_;
};

// A repository cloned without Git LFS holds small text files in place of the large ones.
bool IsLfsPointer(std::string_view content) {
  return content.substr(0, 40).find("version https://git-lfs.github.com/spec") == 0;
}

}  // namespace

struct Tokenizer::Impl {
  ~Impl() { quern_tokenizer_free(handle); }

  Status ReadVocabulary();

  QuernTokenizer* handle = nullptr;
  std::vector<TokenRow> rows;  // by id
  std::unordered_map<std::string, int32_t> id_of;
};

Status Tokenizer::Impl::ReadVocabulary() {
  RustBuffer out, error;
  QUERN_TRY(RustStatus(quern_tokenizer_vocabulary(handle, out.out(), error.out()), error));
  RecordReader reader(out.view());
  while (!reader.done()) {
    const uint32_t id = reader.Word();
    const uint32_t flags = reader.Word();
    const uint32_t bytes_len = reader.Word();
    const uint32_t content_len = reader.Word();
    const std::string_view bytes = reader.Bytes(bytes_len);
    const std::string_view content = reader.Bytes(content_len);
    if (id >= kMaxVocabSize) {
      return InvalidArgument("token \"{}\" has id {}, over the limit of {}", content, id,
                             kMaxVocabSize - 1);
    }
    if (id >= rows.size()) rows.resize(id + 1);
    rows[id] = {std::string(bytes), (flags & kSpecialFlag) != 0};
    id_of.emplace(content, static_cast<int32_t>(id));
  }
  if (rows.empty()) return InvalidArgument("it holds no tokens");
  return OkStatus();
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::FromFile(const std::string& path) {
  QUERN_ASSIGN(const std::string json, ReadFile(path));
  if (json.empty()) return DataLoss("{}: the file is empty; is the download complete?", path);
  if (IsLfsPointer(json)) {
    return DataLoss("{}: a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
                    path);
  }
  auto impl = std::make_unique<Impl>();
  RustBuffer error;
  const QuernRustCode code =
      quern_tokenizer_new(json.data(), json.size(), &impl->handle, error.out());
  Status status = RustStatus(code, error);
  if (status.ok()) status = impl->ReadVocabulary();
  if (!status.ok()) return status.WithContext(path);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                               bool add_special_tokens) const {
  RustBuffer out, error;
  QUERN_TRY(RustStatus(quern_tokenizer_encode(impl_->handle, text.data(), text.size(),
                                              add_special_tokens, out.out(), error.out()),
                       error));
  std::vector<int32_t> ids(out.view().size() / sizeof(int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), out.view().data(), out.view().size());
  return ids;
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids,
                                      bool skip_special_tokens) const {
  std::vector<uint32_t> unsigned_ids;
  unsigned_ids.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      return InvalidArgument("token id {} is outside the vocabulary of {} tokens (0 to {})", id,
                             vocab_size(), vocab_size() - 1);
    }
    unsigned_ids.push_back(static_cast<uint32_t>(id));
  }
  RustBuffer out, error;
  QUERN_TRY(
      RustStatus(quern_tokenizer_decode(impl_->handle, unsigned_ids.data(), unsigned_ids.size(),
                                        skip_special_tokens, out.out(), error.out()),
                 error));
  return std::string(out.view());
}

const std::string& Tokenizer::TokenBytes(int32_t id) const {
  static const std::string empty;
  return id >= 0 && id < vocab_size() ? impl_->rows[static_cast<size_t>(id)].bytes : empty;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->rows[static_cast<size_t>(id)].special;
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view token) const {
  const auto it = impl_->id_of.find(std::string(token));
  if (it == impl_->id_of.end()) return std::nullopt;
  return it->second;
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->rows.size()); }

}  // namespace quern::text
