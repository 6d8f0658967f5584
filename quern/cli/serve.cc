#include "quern/cli/serve.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "quern/base/json.h"
#include "quern/base/log.h"
#include "quern/cli/completion.h"
#include "quern/cli/interrupt.h"
#include "quern/cli/session.h"
#include "quern/server/server.h"

namespace quern::cli {
namespace {

struct ServeOptions {
  SessionOptions session;
  server::ServerOptions server;
  double max_body_mb = 32;
  uint32_t max_header_kb = 32;
  double header_timeout_s = 10, body_timeout_s = 60, idle_timeout_s = 75, write_timeout_s = 60;
  double grace_s = 30;
  std::string metrics_compat = "none";
};

std::chrono::milliseconds Ms(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

server::ServerOptions ToServerOptions(const ServeOptions& options) {
  server::ServerOptions server = options.server;
  server.max_body_bytes = static_cast<uint64_t>(options.max_body_mb * (1 << 20));
  server.max_header_bytes = options.max_header_kb << 10;
  server.header_timeout = Ms(options.header_timeout_s);
  server.body_timeout = Ms(options.body_timeout_s);
  server.idle_timeout = Ms(options.idle_timeout_s);
  server.write_timeout = Ms(options.write_timeout_s);
  server.vllm_metrics = options.metrics_compat == "vllm";
  return server;
}

// Turns signals into a stop: the first ends politely, the second at once. A signal before there is
// a server (weights are still loading) has nothing to be polite to.
class Stopper {
 public:
  explicit Stopper(double grace_s) : grace_(Ms(grace_s)) {}

  void set_server(server::Server* server) { server_ = server; }

  void OnSignal(int count) {
    server::Server* server = server_;
    if (server == nullptr) {
      std::fputs("\nquern: stopped while loading\n", stderr);
      _exit(0);
    }
    if (count == 1) {
      log::info(
          "stopping: answers in progress have {:.0f} s to finish; a second signal stops at once",
          static_cast<double>(grace_.count()) / 1000);
      server->Stop(grace_);
    } else if (count == 2) {
      log::info("stopping at once: answers in progress are cancelled");
      server->Stop(std::chrono::milliseconds(0));
    } else {
      _exit(1);
    }
  }

 private:
  std::chrono::milliseconds grace_;
  std::atomic<server::Server*> server_ = nullptr;
};

// Where a client on this machine reaches the server.
std::string BaseUrl(const std::string& host, uint16_t port) {
  std::string name = host;
  if (name == "0.0.0.0" || name.empty()) name = "127.0.0.1";
  if (name == "::") name = "::1";
  if (name.find(':') != std::string::npos) name = "[" + name + "]";
  return fmt::format("http://{}:{}", name, port);
}

// A prompt inside a JSON string inside single quotes of the shell.
std::string ShellJson(const std::string& prompt) {
  std::string quoted;
  for (char c : DumpJson(Json(prompt)))
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted;
}

std::string ReadyText(const ServeOptions& options, const std::string& model, uint16_t port,
                      const std::vector<std::string>& examples, const std::string& program) {
  const std::string url = BaseUrl(options.server.host, port);
  const bool key = !options.server.api_key.empty();
  std::string asks;
  if (!examples.empty()) {
    asks = "What it does well:\n\n";
    for (const std::string& example : examples) asks += "  " + example + "\n";
    asks += "\n";
  }
  return fmt::format(
      "\n"
      "{model} is ready at {url}   (ctrl-C stops)\n"
      "\n"
      "Open it in a browser for a chat page, or try from another terminal:\n"
      "\n"
      "  curl -N {url}/v1/chat/completions -H 'Content-Type: application/json' {curl_key}\\\n"
      "    -d '{{\"model\": \"{model}\", \"stream\": true, \"messages\": [{{\"role\": \"user\", "
      "\"content\": {prompt}}}]}}'\n"
      "\n"
      "  # Python: pip install openai\n"
      "  from openai import OpenAI\n"
      "  client = OpenAI(base_url=\"{url}/v1\", api_key=\"{key}\")\n"
      "  answer = client.chat.completions.create(\n"
      "      model=\"{model}\", messages=[{{\"role\": \"user\", \"content\": \"Hello\"}}])\n"
      "  print(answer.choices[0].message)\n"
      "\n"
      "  {program} chat {path}\n"
      "\n{examples}",
      fmt::arg("model", model), fmt::arg("url", url), fmt::arg("examples", asks),
      fmt::arg("prompt", ShellJson(examples.empty() ? "Hello" : examples.front())),
      fmt::arg("curl_key", key ? "-H \"Authorization: Bearer $QUERN_API_KEY\" " : ""),
      fmt::arg("key", key ? "<the key>" : "none"), fmt::arg("program", program),
      fmt::arg("path", options.session.model));
}

server::ModelInfo MakeModelInfo(Session& session) {
  server::ModelInfo info;
  info.name = session.name();
  info.max_model_len = session.engine().max_model_len();
  info.eos_token_ids = session.eos_token_ids();
  info.sampling_defaults = MakeSampling(SamplingFlags{}, session.generation());
  info.fingerprint = session.fingerprint();
  info.created = static_cast<int64_t>(std::time(nullptr));
  return info;
}

Status RunServe(const ServeOptions& options, const std::string& program) {
  Stopper stopper(options.grace_s);
  const SignalWatcher signals([&stopper](int count) { stopper.OnSignal(count); });
  const server::ServerOptions server_options = ToServerOptions(options);

  QUERN_ASSIGN(const std::unique_ptr<Session> session, Session::Open(options.session));
  QUERN_ASSIGN(const std::unique_ptr<server::Server> server,
               server::Server::Create(server_options, session->engine(), session->tokenizer(),
                                      session->chat_template(), MakeModelInfo(*session)));
  stopper.set_server(server.get());
  if (session->chat_template() == nullptr) {
    log::warn("{} has no chat template: /v1/chat/completions is refused, /v1/completions works",
              session->directory());
  }
  const std::string& name = options.server.served_model_names.empty()
                                ? session->name()
                                : options.server.served_model_names.front();
  std::fputs(ReadyText(options, name, server->port(), session->examples(), program).c_str(),
             stdout);
  std::fflush(stdout);
  server->Run();
  session->engine().Shutdown(0);
  log::info("stopped");
  return OkStatus();
}

void AddServerOptions(CLI::App& command, ServeOptions& options) {
  server::ServerOptions& server = options.server;
  command.add_option("--host", server.host, "Address to listen on; 0.0.0.0 = every interface")
      ->capture_default_str();
  command.add_option("--port", server.port, "Port; 0 takes a free one and prints it")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      .add_option("--api-key", server.api_key,
                  "Key that clients must send (better: in the environment)")
      ->envname("QUERN_API_KEY");
  command
      .add_option(
          "--served-model-name", server.served_model_names,
          "Name of the model in the API; more than one are aliases (default: the directory's name)")
      ->allow_extra_args(false);
  command
      .add_option("--cors-origin", server.cors_origins,
                  "Origin that browsers may call from; * = all")
      ->allow_extra_args(false);
  command
      .add_option("--metrics-compat", options.metrics_compat,
                  "vllm: /metrics shows vLLM's metric names as well, for routers that read them")
      ->check(CLI::IsMember({"none", "vllm"}))
      ->capture_default_str();
  command
      .add_option("--grace", options.grace_s,
                  "Seconds that answers in progress have on SIGINT or SIGTERM")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
}

void AddLimits(CLI::App& command, ServeOptions& options) {
  const std::string group = "Limits";
  const auto seconds = CLI::Range(0.001, 86400.0);
  command.add_option("--max-body-mb", options.max_body_mb, "Largest request body, in MiB")
      ->check(CLI::Range(0.001, 4096.0))
      ->capture_default_str()
      ->group(group);
  command.add_option("--max-header-kb", options.max_header_kb, "Largest request header, in KiB")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  command.add_option("--max-connections", options.server.max_connections, "Open connections")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--header-timeout", options.header_timeout_s, "Seconds for a request's header")
      ->check(seconds)
      ->capture_default_str()
      ->group(group);
  command.add_option("--body-timeout", options.body_timeout_s, "Seconds for a request's body")
      ->check(seconds)
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--idle-timeout", options.idle_timeout_s,
                  "Seconds a connection may wait between requests")
      ->check(seconds)
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--write-timeout", options.write_timeout_s,
                  "Seconds a client may take nothing of its answer")
      ->check(seconds)
      ->capture_default_str()
      ->group(group);
}

}  // namespace

void AddServeCommand(CLI::App& app, CommandResult& result) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over the OpenAI HTTP API");
  command->footer(
      "Examples:\n"
      "  quern serve MODEL                              http://127.0.0.1:8000/v1, this machine "
      "only\n"
      "  QUERN_API_KEY=secret quern serve MODEL --host 0.0.0.0\n"
      "  quern serve MODEL --max-model-len 32768 --kv-cache-gb 8\n"
      "SIGINT or SIGTERM stops: no new requests, those in progress may finish within --grace.");
  AddSessionOptions(*command, options->session);
  AddServerOptions(*command, *options);
  AddLimits(*command, *options);
  command->callback([options, &result] { result.status = RunServe(*options, result.program); });
}

}  // namespace quern::cli
