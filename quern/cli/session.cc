#include "quern/cli/session.h"

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/base/json.h"
#include "quern/base/log.h"
#include "quern/base/thread_pool.h"
#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/precision_plan.h"
#include "quern/cli/terminal.h"
#include "quern/model/expected_tensors.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

// "org/name": the way models are named on Hugging Face.
bool LooksLikeHubName(const std::string& path) {
  const size_t slash = path.find('/');
  return slash != std::string::npos && slash > 0 &&
         path.find('/', slash + 1) == std::string::npos && slash + 1 < path.size() &&
         path[0] != '.' && path[0] != '~';
}

// The directory of a checkpoint given as a directory or as one of its files.
fs::path DirectoryOf(const fs::path& path) {
  std::error_code ec;
  if (fs::is_directory(path, ec)) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Joins `problems` with those of config.json and the weight files, so that all are told at once.
Status WithWeightProblems(const SessionOptions& options, checkpoint::Problems& problems) {
  Result<std::unique_ptr<checkpoint::Checkpoint>> checkpoint =
      checkpoint::Checkpoint::Open(options.model, problems);
  if (!checkpoint.ok()) {
    problems.Error("{}", checkpoint.status().message());
    return problems.ToStatus(options.model);
  }
  const size_t before = problems.errors().size();
  const checkpoint::ModelConfig config =
      checkpoint::ParseModelConfig((*checkpoint)->config_json(), problems);
  if (problems.errors().size() == before) {
    checkpoint::ResolvePrecisionPlan(
        **checkpoint, config, model::ExpectedTensors(config),
        {.read_scales = false, .trust_signatures = options.trust_signatures}, problems);
  }
  return problems.ToStatus(options.model);
}

std::string NameOf(const fs::path& path) {
  std::error_code ec;
  fs::path full = fs::weakly_canonical(path, ec);
  if (ec) full = path;
  const std::string name = full.filename().string();
  return name.empty() ? "model" : name;
}

}  // namespace

void AddSessionOptions(CLI::App& command, SessionOptions& options) {
  command
      .add_option("model", options.model,
                  "Checkpoint directory (config.json, *.safetensors, tokenizer.json)")
      ->required();
  command
      .add_option("--threads", options.threads,
                  "Threads to compute with (default: all cores it may use)")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--latent-norm-eps", options.latent_norm_eps,
                  "Epsilon of q_a_layernorm and kv_a_layernorm (default: the model's rms_norm_eps)")
      ->check(CLI::Range(1e-12f, 1.0f));
  command.add_flag("--strict", options.strict, "Take warnings about the checkpoint as errors");
  command.add_flag("--trust-signatures", options.trust_signatures,
                   "Where quantization_config and a tensor's stored form disagree, go by the form");
  AddComputeFlags(command, options.compute);
  AddEngineFlags(command, options.engine);
}

Status CheckModelPath(const std::string& path) {
  std::error_code ec;
  if (!fs::exists(path, ec)) {
    if (LooksLikeHubName(path)) {
      return NotFound(
          "{}: no such directory. quern reads local checkpoints and downloads nothing; fetch it "
          "first, for example "
          "with: hf download {} --local-dir {}",
          path, path, fs::path(path).filename().string());
    }
    return NotFound(
        "{}: no such file or directory; want a checkpoint directory with config.json, "
        "*.safetensors and "
        "tokenizer.json",
        path);
  }
  const fs::path directory = DirectoryOf(path);
  if (fs::path(path).extension() == ".gguf") {
    return Unimplemented(
        "{}: GGUF files are not supported; want the model's safetensors checkpoint (bf16, FP8 or "
        "MXFP4)",
        path);
  }
  if (!fs::exists(directory / "config.json", ec)) {
    return NotFound(
        "{}: holds no config.json; want a checkpoint directory with config.json, *.safetensors and "
        "tokenizer.json",
        directory.string());
  }
  return OkStatus();
}

Session::Session() = default;
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::Open(const SessionOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  QUERN_TRY(CheckModelPath(options.model));
  std::unique_ptr<Session> session(new Session());
  // The small files first: a broken tokenizer is told before minutes of reading weights.
  checkpoint::Problems problems;
  session->ReadTextSide(options.model, problems);
  if (!problems.errors().empty()) return WithWeightProblems(options, problems);
  QUERN_TRY(session->LoadWeights(options));
  session->load_ms_ = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return session;
}

void Session::ReadTextSide(const std::string& path, checkpoint::Problems& problems) {
  const fs::path directory = DirectoryOf(path);
  directory_ = directory.string();
  name_ = NameOf(directory);

  std::error_code ec;
  const fs::path generation_path = directory / "generation_config.json";
  if (fs::exists(generation_path, ec)) {
    const Result<Json> generation = ReadJsonFile(generation_path.string());
    if (generation.ok()) {
      generation_ = checkpoint::ParseGenerationConfig(*generation, problems);
    } else {
      problems.Error("{}", generation.status().message());
    }
  }
  const fs::path examples_path = directory / "examples.json";
  if (fs::exists(examples_path, ec)) {
    const Result<Json> examples = ReadJsonFile(examples_path.string());
    if (examples.ok() && examples->is_array()) {
      for (const Json& e : *examples) {
        if (e.is_string()) examples_.push_back(e.get<std::string>());
      }
    } else {
      log::warn("{}: want a list of strings; no examples are shown", examples_path.string());
    }
  }
  Result<std::unique_ptr<text::Tokenizer>> tokenizer =
      text::Tokenizer::FromFile((directory / "tokenizer.json").string());
  if (tokenizer.ok()) {
    tokenizer_ = std::move(tokenizer).value();
  } else {
    problems.Error("{}", tokenizer.status().message());
  }
  Result<std::unique_ptr<text::ChatTemplate>> chat = text::ChatTemplate::FromCheckpoint(directory_);
  if (chat.ok()) {
    chat_template_ = std::move(chat).value();
  } else if (chat.status().code() != StatusCode::kNotFound) {
    problems.Error("{}", chat.status().message());
  }
}

Status Session::LoadWeights(const SessionOptions& options) {
  QUERN_ASSIGN(const engine::EngineOptions engine_options, ToEngineOptions(options.engine));
  const int threads = options.threads > 0 ? options.threads : ThreadPool::DefaultNumThreads();
  backend_ = backend::CreateCpuBackend(threads);

  model::LoadOptions load;
  load.strict = options.strict;
  load.trust_signatures = options.trust_signatures;
  load.latent_norm_eps = options.latent_norm_eps;
  load.compute = ToComputeOptions(options.compute);
  std::vector<std::string> warnings;
  {
    ProgressBar bar("Loading " + name_);
    load.progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
    QUERN_ASSIGN(model_, model::LoadModel(options.model, *backend_, load, warnings));
  }
  for (const std::string& warning : warnings) log::warn("{}", warning);

  if (options.start_engine) {
    QUERN_ASSIGN(engine_, engine::CreateEngine(*model_, *tokenizer_, engine_options));
  }
  eos_token_ids_ = generation_.eos_token_ids.empty() ? model_->config().eos_token_ids
                                                     : generation_.eos_token_ids;
  return OkStatus();
}

}  // namespace quern::cli
