#include "quern/model/scratch.h"

#include <algorithm>

namespace quern::model {

Result<backend::Tensor> Scratch::Take(Dtype dtype, std::initializer_list<int64_t> shape) {
  constexpr int64_t kAlign = 64, kChunkBytes = int64_t{16} << 20;
  backend::Tensor t(dtype, shape, nullptr);
  const int64_t bytes = (std::max<int64_t>(t.bytes(), 1) + kAlign - 1) / kAlign * kAlign;
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_]->bytes()) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    QUERN_ASSIGN(std::unique_ptr<backend::Buffer> buffer,
                 backend_.Allocate(std::max(bytes, kChunkBytes)));
    chunks_.push_back(std::move(buffer));
    used_ = 0;
  }
  t.data = static_cast<char*>(chunks_[chunk_]->data()) + used_;
  used_ += bytes;
  return t;
}

}  // namespace quern::model
