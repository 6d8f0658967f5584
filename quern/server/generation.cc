#include "quern/server/generation.h"

#include "quern/server/http/event_channel.h"
#include "quern/server/sse.h"

namespace quern::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kWriteBytes = 64 << 10;
constexpr int kClientClosedRequest = 499;  // nginx's number for it; seen in metrics only

double SecondsSince(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

ApiError ErrorOfEvent(const engine::TokenEvent& event) {
  if (event.finish == engine::FinishReason::kCancelled) {
    return FromStatus(Unavailable("the request was cancelled: the server is shutting down"));
  }
  return FromStatus(Internal("generation failed: {}", event.error_message));
}

// The choices of one request inside the engine. Destroyed before their end, it cancels them.
class Run {
 public:
  Run(Services& services, Exchange& exchange)
      : services_(services), channel_(std::make_shared<EventChannel>(exchange.executor())) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    Cancel();
    channel_->Close();
  }

  Status Submit(std::vector<engine::Request> requests) {
    for (engine::Request& request : requests) {
      const int choice = static_cast<int>(ids_.size());
      Result<engine::RequestId> id = services_.engine.Submit(
          std::move(request), [channel = channel_, choice](const engine::TokenEvent& event) {
            channel->Push(choice, event);
          });
      if (!id.ok()) return id.status();
      ids_.push_back(*id);
      last_token_.emplace_back();
    }
    open_ = ids_.size();
    return OkStatus();
  }

  void Cancel() {
    for (const std::optional<engine::RequestId>& id : ids_) {
      if (id) services_.engine.Cancel(*id);
    }
    CountCancelled();
    ids_.clear();
    open_ = 0;
  }

  // Accounts for one event; the choice is then over if it was its last.
  void Note(const ChoiceEvent& item, Clock::time_point start) {
    const size_t choice = static_cast<size_t>(item.choice);
    if (item.event.has_token) {
      std::optional<Clock::time_point>& last = last_token_[choice];
      if (last) services_.metrics.ObserveInterTokenLatency(SecondsSince(*last, item.arrived));
      if (!any_token_) services_.metrics.ObserveTimeToFirstToken(SecondsSince(start, item.arrived));
      any_token_ = true;
      last = item.arrived;
    }
    if (item.event.finish != engine::FinishReason::kNone && ids_[choice]) {
      ids_[choice].reset();
      --open_;
      services_.metrics.ObserveQueueTime(item.event.queue_seconds);
      if (open_ == 0) services_.metrics.ObserveEndToEnd(SecondsSince(start, item.arrived));
    }
  }

  bool done() const { return open_ == 0; }
  EventChannel& channel() { return *channel_; }
  std::shared_ptr<EventChannel> shared_channel() { return channel_; }

 private:
  void CountCancelled() {
    for (const std::optional<engine::RequestId>& id : ids_) {
      if (id) services_.metrics.CountFinish("cancelled");
    }
  }

  Services& services_;
  std::shared_ptr<EventChannel> channel_;
  std::vector<std::optional<engine::RequestId>> ids_;  // by choice; reset once it ended
  std::vector<std::optional<Clock::time_point>> last_token_;
  size_t open_ = 0;
  bool any_token_ = false;
};

HttpResponse StreamHead(const std::string& id) {
  HttpResponse head;
  head.content_type = kSseContentType;
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}, {"X-Request-Id", id}};
  return head;
}

// Feeds one event to the writer. An error when the event is a failure.
std::optional<ApiError> Consume(Services& services, Run& run, AnswerWriter& writer,
                                const ChoiceEvent& item, Clock::time_point start) {
  run.Note(item, start);
  const engine::FinishReason finish = item.event.finish;
  if (finish == engine::FinishReason::kError || finish == engine::FinishReason::kCancelled) {
    services.metrics.CountFinish(finish == engine::FinishReason::kError ? "error" : "cancelled");
    return ErrorOfEvent(item.event);
  }
  writer.Add(item.choice, item.event);
  if (finish != engine::FinishReason::kNone) {
    services.metrics.CountFinish(writer.finish_reason(item.choice));
  }
  return std::nullopt;
}

// Ends an answer with an error: as a status if none was sent, else as the stream's last event.
asio::awaitable<int> Fail(Exchange& exchange, const ApiError& error) {
  if (!exchange.has_begun()) {
    HttpResponse response = ErrorResponse(error);
    co_await exchange.Send(std::move(response));
    co_return error.http_status;
  }
  std::string event;
  AppendSse(ErrorBody(error), event);
  exchange.CloseAfterwards();
  co_await exchange.Write(event);
  co_await exchange.End();
  co_return 200;
}

// Sends streamed text, after the head if it is the first. False when the peer is gone.
asio::awaitable<bool> Flush(Exchange& exchange, const std::string& id, std::string& text) {
  if (text.empty()) co_return true;
  if (!exchange.has_begun()) {
    HttpResponse head = StreamHead(id);
    co_await exchange.Begin(std::move(head));
  }
  const bool taken = co_await exchange.Write(text);
  text.clear();
  co_return taken;
}

asio::awaitable<int> Deliver(Services& services, Exchange& exchange, PreparedAnswer& answer,
                             Run& run, Clock::time_point start) {
  std::string text;  // streamed text not yet sent
  while (!run.done()) {
    const std::vector<ChoiceEvent> events = co_await run.channel().Next();
    std::optional<ApiError> error;
    for (size_t i = 0; i < events.size() && !error; ++i) {
      error = Consume(services, run, *answer.writer, events[i], start);
      text += answer.writer->Take();
      // Much may have piled up behind a slow peer: it gets that piece by piece, too.
      if (text.size() < kWriteBytes) continue;
      const bool taken = co_await Flush(exchange, answer.id, text);
      if (!taken) co_return 200;
    }
    if (events.empty()) {
      if (run.channel().interruption() == Exchange::Interruption::kPeerClosed) {
        co_return exchange.has_begun() ? 200 : kClientClosedRequest;
      }
      error = FromStatus(Unavailable("the server is shutting down; send the request again later"));
    }
    // What came before an error is still delivered.
    const bool taken = co_await Flush(exchange, answer.id, text);
    if (!taken) co_return 200;
    if (error) {
      run.Cancel();
      const int status = co_await Fail(exchange, *error);
      co_return status;
    }
  }
  std::string last = answer.writer->Finish();
  if (answer.stream) {
    co_await exchange.Write(last);
    co_await exchange.End();
    co_return 200;
  }
  HttpResponse response;
  response.body = std::move(last);
  response.headers = {{"X-Request-Id", answer.id}};
  co_await exchange.Send(std::move(response));
  co_return 200;
}

}  // namespace

asio::awaitable<int> AnswerGeneration(Services& services, asio::thread_pool& work_pool,
                                      Exchange& exchange, PrepareAnswer prepare) {
  const Clock::time_point start = Clock::now();
  std::optional<ApiResult<PreparedAnswer>> prepared;
  const std::function<void()> work = [&] {
    prepared.emplace(prepare(services, exchange.request().body));
  };
  co_await RunOn(work_pool, work);
  if (!prepared->ok()) {
    const int status = co_await Fail(exchange, prepared->error());
    co_return status;
  }
  PreparedAnswer answer = std::move(prepared->value());

  Run run(services, exchange);
  // Watching begins before submitting, and ends (Watch(nullptr)) before `run` does.
  exchange.Watch(
      [channel = run.shared_channel()](Exchange::Interruption why) { channel->Interrupt(why); });
  const Status submitted = run.Submit(std::move(answer.requests));
  if (!submitted.ok()) {
    run.Cancel();
    const int status = co_await Fail(exchange, FromStatus(submitted));
    co_return status;
  }
  const int status = co_await Deliver(services, exchange, answer, run, start);
  exchange.Watch(nullptr);
  co_return status;
}

}  // namespace quern::server
