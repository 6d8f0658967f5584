// The server over real sockets, with a scripted engine behind it.
#include "quern/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "quern/base/json.h"
#include "quern/base/log.h"
#include "quern/server/testing/http_client.h"
#include "quern/server/testing/test_model.h"

namespace quern::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr char kChat[] = "/v1/chat/completions";

class ServerTest : public ::testing::Test {
 protected:
  // As in a program's main: the logger exists before there are threads.
  static void SetUpTestSuite() { log::Init(); }
  void SetUp() override {
    options_.port = 0;
    options_.num_io_threads = 2;
  }
  void TearDown() override { StopNow(); }

  void Start() {
    auto server = Server::Create(options_, engine_, *model_.tokenizer, model_.chat_template.get(),
                                 model_.info);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    thread_ = std::thread([this] { server_->Run(); });
  }
  void StopNow(std::chrono::milliseconds grace = 0ms) {
    if (!server_) return;
    server_->Stop(grace);
    Join();
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }
  uint16_t port() const { return server_->port(); }

  // A chat body whose answer is `text`, after "</think>".
  static std::string Ask(const std::string& say, const std::string& more = "") {
    const Json content = "[[say]]thought<\\/think>" + say + "[[/say]]";
    return "{\"messages\": [{\"role\": \"user\", \"content\": " + DumpJson(content) + "}]" + more +
           "}";
  }
  bool WaitForCancelled(int64_t count) {
    for (const auto end = Clock::now() + 10s; Clock::now() < end;
         std::this_thread::sleep_for(2ms)) {
      if (engine_.Stats().requests_cancelled >= count) return true;
    }
    return false;
  }

  // /metrics as soon as it holds `text`, or as it is after a minute.
  std::string MetricsWith(const std::string& text) {
    HttpClient client(port());
    std::string metrics;
    for (const auto end = Clock::now() + 60s; Clock::now() < end;
         std::this_thread::sleep_for(5ms)) {
      metrics = client.Do("GET", "/metrics").body;
      if (metrics.find(text) != std::string::npos) break;
    }
    return metrics;
  }

  const TestModel& model_ = SharedTestModel();
  FakeEngine engine_{*model_.tokenizer, ObedientScripter(*model_.tokenizer)};
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

std::string ContentOf(const ClientResponse& response) {
  const Result<Json> json = ParseJson(response.body);
  EXPECT_TRUE(json.ok()) << response.body;
  if (!json.ok() || !json->contains("choices")) return response.body;
  return (*json)["choices"][0]["message"]["content"].get<std::string>();
}

std::string CodeOf(const ClientResponse& response) {
  const Result<Json> json = ParseJson(response.body);
  if (!json.ok() || !json->contains("error")) return "no error in: " + response.body;
  return (*json)["error"].value("code", Json("")).get<std::string>();
}

// The content of a streamed chat; empty unless it ended with [DONE].
std::string JoinStream(const std::string& sse) {
  std::string content;
  size_t at = 0;
  while (at < sse.size()) {
    const size_t end = sse.find("\n\n", at);
    if (end == std::string::npos) return {};
    const std::string data = sse.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") return content;
    const Json chunk = *ParseJson(data);
    if (!chunk["choices"].empty()) content += chunk["choices"][0]["delta"].value("content", "");
  }
  return {};
}

TEST_F(ServerTest, AnswersManyRequestsOnOneConnection) {
  Start();
  HttpClient client(port());
  for (int i = 0; i < 5; ++i) {
    const ClientResponse response = client.Do("POST", kChat, Ask("Hello " + std::to_string(i)));
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(ContentOf(response), "Hello " + std::to_string(i));
    EXPECT_EQ(response.headers.at("connection"), "keep-alive");
    EXPECT_EQ(response.headers.at("x-request-id").rfind("chatcmpl-", 0), 0u);
  }
  const ClientResponse stream = client.Do("POST", kChat, Ask("streamed", ", \"stream\": true"));
  EXPECT_EQ(stream.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(JoinStream(stream.body), "streamed");
  EXPECT_EQ(client.Do("GET", "/health").status, 200);
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  Start();
  HttpClient client(port());
  for (int i = 0; i < 4; ++i) {
    client.SendRequest("POST", kChat,
                       Ask(std::to_string(i), i % 2 == 0 ? "" : ", \"stream\": true"));
  }
  for (int i = 0; i < 4; ++i) {
    const ClientResponse response = client.Read();
    EXPECT_EQ(i % 2 == 0 ? ContentOf(response) : JoinStream(response.body), std::to_string(i));
  }
}

TEST_F(ServerTest, TakesChunkedBodiesAndExpectContinue) {
  Start();
  const std::string body = Ask("chunked");
  HttpClient client(port());
  client.Send("POST " + std::string(kChat) +
              " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (size_t at = 0; at < body.size(); at += 10) {
    char size[8];
    std::snprintf(size, sizeof(size), "%zx\r\n", std::min<size_t>(10, body.size() - at));
    client.Send(size + body.substr(at, 10) + "\r\n");
  }
  client.Send("0\r\n\r\n");
  EXPECT_EQ(ContentOf(client.Read()), "chunked");

  client.Send("POST " + std::string(kChat) +
              " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.Read().status, 100);
  client.Send(body);
  EXPECT_EQ(ContentOf(client.Read()), "chunked");
}

TEST_F(ServerTest, SpeaksHttp10) {
  Start();
  const std::string body = Ask("old", ", \"stream\": true");
  HttpClient client(port());
  client.Send("POST " + std::string(kChat) +
              " HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const ClientResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(JoinStream(response.body), "old");
}

TEST_F(ServerTest, AnswersHeadOptionsAndUnknownThings) {
  options_.cors_origins = {"https://page.example"};
  Start();
  HttpClient client(port());
  ClientResponse response = client.Do("HEAD", "/v1/models");
  EXPECT_EQ(response.status, 200);
  EXPECT_GT(std::stoi(response.headers.at("content-length")), 0);
  response = client.Do("OPTIONS", kChat, "", "Origin: https://page.example\r\n");
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "https://page.example");
  response = client.Do("POST", kChat, Ask("x"), "Origin: https://page.example\r\n");
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "https://page.example");
  response = client.Do("GET", "/v1/models", "", "Origin: https://other.example\r\n");
  EXPECT_EQ(response.headers.count("access-control-allow-origin"), 0u);
  response = client.Do("GET", "/v2/nothing?x=1");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(CodeOf(response), "not_found");
  response = client.Do("DELETE", kChat);
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.headers.at("allow"), "POST, OPTIONS");
  response = client.Do("GET", "/");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr("<!doctype html>"));
  EXPECT_THAT(client.Do("GET", "/metrics").body, HasSubstr("quern_http_requests_total"));
}

TEST_F(ServerTest, RefusesFormsFromBrowserPages) {
  Start();
  HttpClient client(port());
  const std::string body = Ask("x");
  const auto send = [&](const std::string& headers) {
    client.Send("POST " + std::string(kChat) + " HTTP/1.1\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
    return client.Read().status;
  };
  EXPECT_EQ(send("Content-Type: application/x-www-form-urlencoded\r\n"), 200) << "curl without -H";
  EXPECT_EQ(send("Content-Type: text/plain\r\nOrigin: https://evil.example\r\n"), 415);
}

TEST_F(ServerTest, AsksForTheKey) {
  options_.api_key = "s3cret";
  Start();
  for (const char* header :
       {"", "Authorization: Bearer wrong\r\n", "Authorization: Basic s3cret\r\n",
        "Authorization: s3cret\r\n", "Authorization: Bearer \r\n"}) {
    SCOPED_TRACE(header);
    HttpClient client(port());
    const ClientResponse response = client.Do("POST", kChat, Ask("x"), header);
    EXPECT_EQ(response.status, 401);
    EXPECT_EQ(CodeOf(response), "invalid_api_key");
  }
  HttpClient client(port());
  EXPECT_EQ(client.Do("GET", "/v1/models").status, 401);
  EXPECT_EQ(client.Do("GET", "/metrics").status, 401);
  EXPECT_EQ(client.Do("GET", "/health").status, 200);
  EXPECT_EQ(client.Do("GET", "/ready").status, 200);
  EXPECT_EQ(client.Do("GET", "/v1/models", "", "Authorization: bearer s3cret\r\n").status, 200);
  EXPECT_EQ(ContentOf(client.Do("POST", kChat, Ask("in"), "Authorization: Bearer s3cret\r\n")),
            "in");
}

TEST_F(ServerTest, RefusesOversizeAndBrokenRequests) {
  options_.max_body_bytes = 10'000;
  options_.max_header_bytes = 1'000;
  Start();
  {
    HttpClient client(port());
    const ClientResponse response = client.Do("POST", kChat, std::string(3'000'000, 'x'));
    EXPECT_EQ(response.status, 413);
    EXPECT_EQ(CodeOf(response), "body_too_large");
  }
  {
    HttpClient client(port());
    client.Send("POST " + std::string(kChat) + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; ++i) client.Send("400\r\n" + std::string(1024, 'x') + "\r\n");
    EXPECT_EQ(client.Read().status, 413);
  }
  {
    HttpClient client(port());
    const ClientResponse response =
        client.Do("GET", "/health", "", "X-Long: " + std::string(5'000, 'x') + "\r\n");
    EXPECT_EQ(response.status, 431);
  }
  for (const char* garbage :
       {"GARBAGE\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    SCOPED_TRACE(garbage);
    HttpClient client(port());
    client.Send(garbage);
    EXPECT_EQ(client.Read().status, 400);
    EXPECT_TRUE(client.AtEnd());
  }
  HttpClient client(port());
  EXPECT_EQ(client.Do("POST", kChat, "{\"messages\": [\xff]}").status, 400);
  EXPECT_EQ(client.Do("POST", kChat).status, 400);
  EXPECT_EQ(client.Do("GET", "/health").status, 200);
}

TEST_F(ServerTest, DropsSlowSendersAndIdleConnections) {
  options_.header_timeout = 200ms;
  options_.body_timeout = 200ms;
  options_.idle_timeout = 300ms;
  Start();
  HttpClient silent(port()), slow_header(port()), slow_body(port()), idle(port());
  slow_header.Send("GET /health HTTP/1.1\r\nX-A: ");
  slow_body.Send("POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(idle.Do("GET", "/health").status, 200);
  const auto start = Clock::now();
  while (Clock::now() - start < 400ms) {
    slow_header.Send("x");
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(slow_header.Read().status, 408);
  EXPECT_EQ(slow_body.Read().status, 408);
  EXPECT_TRUE(silent.AtEnd());
  EXPECT_TRUE(idle.AtEnd());
  HttpClient next(port());
  EXPECT_EQ(next.Do("GET", "/health").status, 200);
}

TEST_F(ServerTest, ReportsEngineErrors) {
  Start();
  HttpClient client(port());
  ClientResponse response = client.Do("POST", kChat, Ask("[[busy]]"));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(CodeOf(response), "server_busy");
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  response = client.Do("POST", kChat, R"({"messages": [{"role": "user", "content": "[[fail]]"}]})");
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, HasSubstr("scripted failure"));
  response = client.Do(
      "POST", kChat, R"({"stream": true, "messages": [{"role": "user", "content": "[[fail]]"}]})");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body,
              HasSubstr("data: {\"error\":{\"message\":\"generation failed: scripted failure\""));
  EXPECT_THAT(response.body, ::testing::Not(HasSubstr("[DONE]")));
  EXPECT_TRUE(response.complete);
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(ServerTest, APeerThatGoesAwayCancelsItsRequest) {
  Start();
  for (const char* more : {"", ", \"stream\": true", ", \"n\": 3"}) {
    SCOPED_TRACE(more);
    const int64_t before = engine_.Stats().requests_cancelled;
    const int64_t running = std::string(more).find("\"n\"") == std::string::npos ? 1 : 3;
    {
      HttpClient client(port());
      client.SendRequest("POST", kChat, Ask("word [[repeat 3000]][[delay 5]]", more));
      if (std::string(more).find("stream") != std::string::npos) {
        EXPECT_THAT(client.ReadUntil("\"delta\""), HasSubstr("\"delta\""));
      }
      while (engine_.Stats().num_running < running) std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(WaitForCancelled(before + running));
  }
  EXPECT_THAT(MetricsWith("status=\"499\"} 2"), HasSubstr("status=\"499\"} 2"));
}

TEST_F(ServerTest, ASlowReaderHoldsNobodyUpAndIsDropped) {
  options_.write_timeout = 300ms;
  Start();
  HttpClient slow(port());
  slow.ShrinkReceiveBuffer();
  // Several times what the kernel's buffers take.
  slow.SendRequest(
      "POST", kChat,
      Ask("word [[repeat 4000]]", ", \"stream\": true, \"logprobs\": true, \"top_logprobs\": 20"));
  HttpClient other(port());
  EXPECT_EQ(ContentOf(other.Do("POST", kChat, Ask("quick"))), "quick");
  other.Close();
  const char* kOnlyTheAsker = "quern_http_connections 1\n";
  EXPECT_THAT(MetricsWith(kOnlyTheAsker), HasSubstr(kOnlyTheAsker))
      << "the slow reader was not dropped";
}

TEST_F(ServerTest, FiftyClientsGetCompleteAnswers) {
  Start();
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back([this, i, &right] {
      HttpClient client(port());
      for (int round = 0; round < 3; ++round) {
        const std::string text = fmt::format("client {} round {}", i, round);
        const bool stream = (i + round) % 2 == 0;
        const ClientResponse response =
            client.Do("POST", kChat, Ask(text, stream ? ", \"stream\": true" : ""));
        if ((stream ? JoinStream(response.body) : ContentOf(response)) == text) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 150);
}

TEST_F(ServerTest, RefusesConnectionsBeyondTheLimit) {
  options_.max_connections = 2;
  Start();
  HttpClient first(port()), second(port());
  EXPECT_EQ(first.Do("GET", "/health").status, 200);
  EXPECT_EQ(second.Do("GET", "/health").status, 200);
  {
    HttpClient third(port());
    EXPECT_EQ(third.Read().status, 503);
  }
  first.Close();
  // The place is free again once the server has seen the end.
  int status = 0;
  for (const auto end = Clock::now() + 10s; status != 200 && Clock::now() < end;) {
    HttpClient fourth(port());
    status = fourth.Do("GET", "/health").status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(ServerTest, StopLetsAnswersFinishWithinTheGrace) {
  Start();
  HttpClient streaming(port()), idle(port());
  EXPECT_EQ(idle.Do("GET", "/health").status, 200);
  streaming.SendRequest("POST", kChat,
                        Ask("one two three four five [[delay 10]]", ", \"stream\": true"));
  streaming.ReadUntil("\"delta\"");
  const uint16_t old_port = port();
  server_->Stop(20s);
  const ClientResponse response = streaming.Read();
  EXPECT_THAT(JoinStream(response.body), HasSubstr("one two three four five"));
  EXPECT_TRUE(streaming.AtEnd());
  EXPECT_TRUE(idle.AtEnd());
  const auto start = Clock::now();
  Join();
  EXPECT_LT(Clock::now() - start, 5s) << "nothing was left to wait for";
  EXPECT_FALSE(HttpClient(old_port).connected());
}

TEST_F(ServerTest, StopCancelsWhatOutlastsTheGrace) {
  Start();
  HttpClient streaming(port()), waiting(port());
  streaming.SendRequest("POST", kChat,
                        Ask("word [[repeat 3000]][[delay 5]]", ", \"stream\": true"));
  waiting.SendRequest("POST", kChat, Ask("word [[repeat 3000]][[delay 5]]"));
  streaming.ReadUntil("\"delta\"");
  while (engine_.Stats().num_running < 2) std::this_thread::sleep_for(1ms);
  const auto start = Clock::now();
  server_->Stop(1h);
  StopNow(100ms);  // a later call can shorten the grace
  EXPECT_LT(Clock::now() - start, 10s);
  const ClientResponse cut = streaming.Read();
  EXPECT_THAT(cut.body, HasSubstr("\"error\""));
  EXPECT_TRUE(cut.complete);
  EXPECT_EQ(waiting.Read().status, 503);
  EXPECT_TRUE(WaitForCancelled(2));
}

TEST_F(ServerTest, StoppingBeforeRunningIsFine) {
  auto server = Server::Create(options_, engine_, *model_.tokenizer, nullptr, model_.info);
  ASSERT_TRUE(server.ok());
  EXPECT_GT((*server)->port(), 0);
  (*server)->Stop(0ms);
  (*server)->Run();
}

TEST_F(ServerTest, CreateExplainsWhatItCannotDo) {
  Start();
  options_.port = port();
  auto taken = Server::Create(options_, engine_, *model_.tokenizer, nullptr, model_.info);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(taken.status().message(), HasSubstr("--port"));
  options_.host = "no.such.host.invalid";
  auto nowhere = Server::Create(options_, engine_, *model_.tokenizer, nullptr, model_.info);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.status().code(), StatusCode::kInvalidArgument);
  options_.num_io_threads = 0;
  EXPECT_FALSE(Server::Create(options_, engine_, *model_.tokenizer, nullptr, model_.info).ok());
}

}  // namespace
}  // namespace quern::server
