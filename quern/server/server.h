// The HTTP server: OpenAI-compatible endpoints in front of one engine. Endpoints and defaults:
// docs/api.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quern/base/status.h"
#include "quern/engine/engine.h"
#include "quern/engine/request.h"
#include "quern/text/chat_template.h"
#include "quern/text/tokenizer.h"

namespace quern::server {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address or a name; "0.0.0.0" or "::" = every interface
  uint16_t port = 8000;            // 0 = any free port, see Server::port()
  std::string api_key;             // empty = no key asked; else "Authorization: Bearer <api_key>"
  // Names a request may give as "model"; the first is the one answers carry. Empty =
  // ModelInfo::name.
  std::vector<std::string> served_model_names;
  // Origins that browsers may call from: "*" for all. Empty = no CORS headers are sent.
  std::vector<std::string> cors_origins;

  uint64_t max_body_bytes = uint64_t{32} << 20;  // more is 413
  uint32_t max_header_bytes = 32 << 10;          // more is 431
  int32_t max_connections = 4096;                // one more is answered 503 and closed

  std::chrono::milliseconds header_timeout{10'000};  // request line and headers, else 408
  std::chrono::milliseconds body_timeout{60'000};    // the whole body, else 408
  std::chrono::milliseconds idle_timeout{75'000};    // between requests of a kept-alive connection
  std::chrono::milliseconds write_timeout{
      60'000};  // a reader that takes nothing for so long is dropped

  bool vllm_metrics = false;  // /metrics shows vLLM's names as well

  int32_t num_io_threads = 2;    // sockets, SSE
  int32_t num_work_threads = 2;  // parsing, templates, tokenization of large prompts
};

// What the server says about the model, and the defaults it applies.
struct ModelInfo {
  std::string name;                    // shown unless ServerOptions::served_model_names is given
  int64_t max_model_len = 0;           // 0 = Engine::max_model_len()
  std::vector<int32_t> eos_token_ids;  // Request::stop_token_ids of every request
  engine::SamplingParams
      sampling_defaults;    // from generation_config.json; fields a request leaves out
  int64_t created = 0;      // Unix seconds
  std::string fingerprint;  // identifies the weights; part of "system_fingerprint"
};

// Owns the listening socket, its threads and its connections. Run on one thread, Stop from any.
// What it is built from must outlive it. It cancels its own requests when it stops but leaves
// Engine::Shutdown to the engine's owner.
class Server {
 public:
  // Binds and listens; connections queue in the kernel until Run. `chat_template` may be null: chat
  // is then refused with an error that says so. kInvalidArgument for options out of range,
  // kUnavailable when the address is taken.
  static Result<std::unique_ptr<Server>> Create(ServerOptions options, engine::Engine& engine,
                                                const text::Tokenizer& tokenizer,
                                                const text::ChatTemplate* chat_template,
                                                ModelInfo model);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The bound port.
  uint16_t port() const;

  // Serves until Stop has been called and the connections have ended. Call once.
  void Run();

  // Starts the end and returns at once: no new connections or requests, answers in progress may
  // finish within `grace`, the rest are cancelled and told so. Thread-safe; a later call can only
  // shorten the grace.
  void Stop(std::chrono::milliseconds grace);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::server
