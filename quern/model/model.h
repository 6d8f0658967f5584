// A loaded model: weights on a backend and the forward pass over one ragged batch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quern/base/status.h"
#include "quern/checkpoint/config.h"
#include "quern/checkpoint/problems.h"

namespace quern::backend {
class Backend;
}

namespace quern::model {

struct LoadOptions {
  bool strict = false;                   // warnings about the checkpoint are errors
  std::optional<float> latent_norm_eps;  // overrides ModelConfig::latent_norm_eps
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

class Model;

// Opens the checkpoint at `path`, finds all its problems (one error lists them all), resolves every
// tensor and loads the weights onto `backend`, which must outlive the model. Warnings are appended
// to `warnings`.
Result<std::unique_ptr<Model>> LoadModel(const std::string& path, backend::Backend& backend,
                                         const LoadOptions& options,
                                         std::vector<std::string>& warnings);

}  // namespace quern::model
