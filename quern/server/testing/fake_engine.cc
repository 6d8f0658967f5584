#include "quern/server/testing/fake_engine.h"

#include <algorithm>
#include <charconv>

#include "quern/text/detokenizer.h"

namespace quern::server {

using engine::FinishReason;
using engine::TokenEvent;

struct FakeEngine::Sequence {
  Sequence(engine::Request r, engine::EventSink s, Script sc, const text::Tokenizer& tokenizer)
      : request(std::move(r)),
        sink(std::move(s)),
        script(std::move(sc)),
        detokenizer(tokenizer, request.skip_special_tokens),
        stops(request.stop_strings),
        due(Clock::now() + script.delay) {
    Result<std::vector<int32_t>> ids = tokenizer.Encode(script.text);
    QUERN_CHECK(ids.ok(), "script: {}", ids.status().ToString());
    tokens = std::move(*ids);
    // The script ends as a model would, with its end-of-turn token.
    if (script.finish == FinishReason::kStop && script.error.empty() &&
        !request.stop_token_ids.empty() && !request.ignore_eos) {
      tokens.push_back(request.stop_token_ids.front());
      ends_with_eos = true;
    }
  }

  engine::Request request;
  engine::EventSink sink;
  Script script;
  text::Detokenizer detokenizer;
  text::StopStrings stops;
  std::vector<int32_t> tokens;
  bool ends_with_eos = false;
  size_t next = 0;
  Clock::time_point due;
  bool cancelled = false;
};

FakeEngine::FakeEngine(const text::Tokenizer& tokenizer, Scripter scripter, int64_t max_model_len)
    : tokenizer_(tokenizer),
      scripter_(std::move(scripter)),
      max_model_len_(max_model_len),
      thread_([this] { Loop(); }) {}

FakeEngine::~FakeEngine() {
  Shutdown(0);
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<engine::RequestId> FakeEngine::Submit(engine::Request request, engine::EventSink sink) {
  Script script = scripter_(request);
  std::lock_guard lock(mutex_);
  if (refuses_) return Unavailable("the engine is shutting down");
  requests_.push_back(request);
  if (!script.submit.ok()) return script.submit;
  const engine::RequestId id = next_id_++;
  stats_.prompt_tokens += static_cast<int64_t>(request.prompt.size());
  running_.emplace(id, std::make_unique<Sequence>(std::move(request), std::move(sink),
                                                  std::move(script), tokenizer_));
  changed_.notify_all();
  return id;
}

void FakeEngine::Cancel(engine::RequestId id) {
  std::lock_guard lock(mutex_);
  const auto it = running_.find(id);
  if (it != running_.end()) it->second->cancelled = true;
  changed_.notify_all();
}

void FakeEngine::Shutdown(int64_t grace_ms) {
  std::unique_lock lock(mutex_);
  refuses_ = true;
  changed_.wait_for(lock, std::chrono::milliseconds(grace_ms), [this] { return running_.empty(); });
  for (auto& [id, sequence] : running_) sequence->cancelled = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return running_.empty(); });
}

engine::EngineStats FakeEngine::Stats() const {
  std::lock_guard lock(mutex_);
  engine::EngineStats stats = stats_;
  stats.num_running = static_cast<int64_t>(running_.size());
  stats.kv_pages_total = 100;
  return stats;
}

std::vector<engine::Request> FakeEngine::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void FakeEngine::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    Clock::time_point wake = Clock::now() + std::chrono::hours(1);
    const Clock::time_point now = Clock::now();
    std::vector<std::pair<engine::RequestId, Sequence*>> ready;
    for (auto& [id, sequence] : running_) {
      if (sequence->cancelled || sequence->due <= now) {
        ready.emplace_back(id, sequence.get());
      } else {
        wake = std::min(wake, sequence->due);
      }
    }
    if (ready.empty()) {
      changed_.wait_until(lock, wake);
      continue;
    }
    for (const auto& [id, sequence] : ready) {
      const bool cancelled = sequence->cancelled;
      lock.unlock();  // sinks are called without the lock, as the real engine does
      bool ended = true;
      if (cancelled) {
        TokenEvent event;
        event.finish = FinishReason::kCancelled;
        Finish(*sequence, std::move(event));
      } else {
        ended = Step(*sequence);
      }
      lock.lock();
      if (!cancelled) ++stats_.generated_tokens;
      if (cancelled) ++stats_.requests_cancelled;
      if (ended) running_.erase(id);
    }
    changed_.notify_all();
  }
}

bool FakeEngine::Step(Sequence& s) {
  s.due = Clock::now() + s.script.delay;
  TokenEvent last;
  if (s.next < s.tokens.size()) {
    TokenEvent event;
    event.has_token = true;
    event.token = s.tokens[s.next++];
    const bool is_stop = s.ends_with_eos && s.next == s.tokens.size();
    if (s.request.num_top_logprobs >= 0) {
      event.logprob = {event.token, -0.25f};
      for (int32_t i = 0; i < s.request.num_top_logprobs; ++i) {
        event.top_logprobs.push_back(
            {(event.token + i) % tokenizer_.vocab_size(), -0.25f - static_cast<float>(i)});
      }
    }
    if (!is_stop) event.text = s.stops.Push(s.detokenizer.Push(event.token));
    s.sink(event);
    if (s.stops.stopped()) {
      last.finish = FinishReason::kStop;
      last.stop_string = s.stops.matched();
    } else if (is_stop) {
      last.finish = FinishReason::kStop;
    } else if (static_cast<int32_t>(s.next) >= s.request.max_tokens) {
      last.finish = FinishReason::kLength;
    } else {
      return false;
    }
  } else if (!s.script.error.empty()) {
    last.finish = FinishReason::kError;
    last.error_message = s.script.error;
  } else {
    last.finish = s.script.finish;
  }
  if (!s.stops.stopped()) {
    last.text = s.stops.Push(s.detokenizer.Flush());
    if (!s.stops.stopped()) last.text += s.stops.Flush();
  }
  Finish(s, std::move(last));
  return true;
}

void FakeEngine::Finish(Sequence& s, TokenEvent event) {
  event.num_prompt_tokens = static_cast<int32_t>(s.request.prompt.size());
  event.num_completion_tokens = static_cast<int32_t>(s.next);
  s.sink(event);
}

namespace {

// The text between the last `open` and the `close` after it.
std::string Between(const std::string& text, const std::string& open, const std::string& close) {
  const size_t begin = text.rfind(open);
  if (begin == std::string::npos) return {};
  const size_t end = text.find(close, begin);
  return end == std::string::npos ? std::string()
                                  : text.substr(begin + open.size(), end - begin - open.size());
}

int64_t NumberAfter(const std::string& text, const std::string& open, int64_t otherwise) {
  const std::string digits = Between(text, open, "]]");
  int64_t number = otherwise;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

FakeEngine::Scripter ObedientScripter(const text::Tokenizer& tokenizer) {
  return [&tokenizer](const engine::Request& request) {
    Script script;
    const Result<std::string> prompt =
        tokenizer.Decode(request.prompt, /*skip_special_tokens=*/false);
    QUERN_CHECK(prompt.ok(), "{}", prompt.status().ToString());
    std::string text = Between(*prompt, "[[say]]", "[[/say]]");
    if (text.empty()) text = "The quick brown fox jumps over the lazy dog.";
    for (size_t at = text.find("\\/"); at != std::string::npos; at = text.find("\\/", at))
      text.erase(at, 1);
    const int64_t times = NumberAfter(*prompt, "[[repeat ", 1);
    for (int64_t i = 0; i < times; ++i) script.text += text;
    script.delay = std::chrono::milliseconds(NumberAfter(*prompt, "[[delay ", 0));
    if (prompt->find("[[fail]]") != std::string::npos) script.error = "scripted failure";
    if (prompt->find("[[busy]]") != std::string::npos)
      script.submit = ResourceExhausted("the queue is full");
    return script;
  };
}

}  // namespace quern::server
