// fake-quern-server: the HTTP server over a FakeEngine, for tests of client libraries. Prints
// "listening on PORT". Usage: fake-quern-server TOKENIZER_JSON CHAT_TEMPLATE [--api-key KEY]
// [--name NAME]
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "quern/base/file.h"
#include "quern/base/log.h"
#include "quern/server/server.h"
#include "quern/server/testing/fake_engine.h"

namespace quern::server {
namespace {

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(
        stderr,
        "usage: fake-quern-server TOKENIZER_JSON CHAT_TEMPLATE [--api-key KEY] [--name NAME]\n");
    return 2;
  }
  log::Init();
  // Signals are waited for on a thread, so every thread made from here on has them blocked.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ServerOptions options;
  options.port = 0;
  ModelInfo model;
  model.name = "fake";
  for (int i = 3; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--api-key") == 0) options.api_key = argv[i + 1];
    if (std::strcmp(argv[i], "--name") == 0) model.name = argv[i + 1];
  }
  auto tokenizer = text::Tokenizer::FromFile(argv[1]);
  auto source = ReadFile(argv[2]);
  if (!tokenizer.ok() || !source.ok()) {
    std::fprintf(stderr, "%s\n",
                 (tokenizer.ok() ? source.status() : tokenizer.status()).ToString().c_str());
    return 1;
  }
  auto chat_template = text::ChatTemplate::FromSource(*source);
  QUERN_CHECK(chat_template.ok(), "{}", chat_template.status().ToString());
  for (const char* token : {"<|endoftext|>", "<|user|>", "<|observation|>"}) {
    if (const auto id = (*tokenizer)->TokenId(token)) model.eos_token_ids.push_back(*id);
  }
  FakeEngine engine(**tokenizer, ObedientScripter(**tokenizer));

  auto server = Server::Create(options, engine, **tokenizer, chat_template->get(), model);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("listening on %u\n", (*server)->port());
  std::fflush(stdout);
  std::thread stopper([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    (*server)->Stop(std::chrono::seconds(5));
  });
  (*server)->Run();
  stopper.join();
  return 0;
}

}  // namespace
}  // namespace quern::server

int main(int argc, char** argv) { return quern::server::Main(argc, argv); }
