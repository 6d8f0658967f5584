// Working memory of a step: taken in order, given back in reverse, kept between steps.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "quern/backend/backend.h"

namespace quern::model {

// A stack of tensors in backend memory. Grows in the first steps, then no longer allocates. The
// memory a Frame took is free for others when the Frame ends; ops run in order, so what was issued
// before still sees its own data.
class Scratch {
 public:
  explicit Scratch(backend::Backend& backend) : backend_(backend) {}

  class Frame {
   public:
    explicit Frame(Scratch& scratch)
        : scratch_(scratch), chunk_(scratch.chunk_), used_(scratch.used_) {}
    ~Frame() {
      scratch_.chunk_ = chunk_;
      scratch_.used_ = used_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& scratch_;
    size_t chunk_;
    int64_t used_;
  };

  // Contents are undefined.
  Result<backend::Tensor> Take(Dtype dtype, std::initializer_list<int64_t> shape);

 private:
  backend::Backend& backend_;
  std::vector<std::unique_ptr<backend::Buffer>> chunks_;
  size_t chunk_ = 0;  // current chunk
  int64_t used_ = 0;  // bytes used of it
};

}  // namespace quern::model
