// A checkpoint opened for use: tokenizer, chat template, defaults, weights and a running engine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quern/backend/backend.h"
#include "quern/base/status.h"
#include "quern/checkpoint/config.h"
#include "quern/checkpoint/problems.h"
#include "quern/cli/engine_flags.h"
#include "quern/engine/engine.h"
#include "quern/model/model.h"
#include "quern/text/chat_template.h"
#include "quern/text/tokenizer.h"

namespace quern::cli {

// The options of every command that runs a model.
struct SessionOptions {
  std::string model;
  int threads = 0;  // 0: as many as this process may use
  EngineFlags engine;
  ComputeFlags compute;
  std::optional<float> latent_norm_eps;
  bool strict = false;
  bool trust_signatures = false;
  bool start_engine = true;  // no flag: for commands that make their own
};
void AddSessionOptions(CLI::App& command, SessionOptions& options);

// Owns all of it; the engine is stopped first. What it hands out may be used from any thread as
// their headers say.
class Session {
 public:
  ~Session();
  // Prints a progress bar (on a terminal) and the checkpoint's warnings to stderr.
  static Result<std::unique_ptr<Session>> Open(const SessionOptions& options);

  // The last part of the path: "quern-nano" of "models/quern-nano/".
  const std::string& name() const { return name_; }
  const std::string& directory() const { return directory_; }
  const checkpoint::ModelConfig& config() const { return model_->config(); }
  const checkpoint::GenerationConfig& generation() const { return generation_; }
  // generation_config.json's, else config.json's.
  const std::vector<int32_t>& eos_token_ids() const { return eos_token_ids_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  // nullptr when the checkpoint has none: raw completions still work.
  const text::ChatTemplate* chat_template() const { return chat_template_.get(); }
  engine::Engine& engine() { return *engine_; }  // with SessionOptions::start_engine
  model::Model& model() { return *model_; }
  int num_threads() const { return backend_->num_threads(); }
  // Prompts the model is good at, from examples.json (a list of strings) beside it; may be empty.
  const std::vector<std::string>& examples() const { return examples_; }
  const std::string& fingerprint() const { return model_->fingerprint(); }
  double load_ms() const { return load_ms_; }

 private:
  Session();
  void ReadTextSide(const std::string& path, checkpoint::Problems& problems);
  Status LoadWeights(const SessionOptions& options);

  std::string directory_;
  std::string name_;
  checkpoint::GenerationConfig generation_;
  std::vector<int32_t> eos_token_ids_;
  std::vector<std::string> examples_;
  double load_ms_ = 0;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> chat_template_;
  // Each uses the ones above it and is destroyed before them.
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<engine::Engine> engine_;
};

// Explains a path that is no checkpoint: missing, a Hugging Face name, a directory without
// config.json, a GGUF file.
Status CheckModelPath(const std::string& path);

}  // namespace quern::cli
