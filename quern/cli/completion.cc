#include "quern/cli/completion.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>

#include "quern/cli/interrupt.h"

namespace quern::cli {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Events from the engine's thread to the one that waits. Shared, as the sink may outlive the wait.
struct EventQueue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<engine::TokenEvent> events;
};

}  // namespace

void AddSamplingFlags(CLI::App& command, SamplingFlags& flags) {
  const std::string group = "Sampling (default: the checkpoint's generation_config.json)";
  command.add_option("--temperature", flags.temperature, "0 takes the likeliest token each time")
      ->check(CLI::Range(0.0f, 100.0f))
      ->group(group);
  command
      .add_option("--top-p", flags.top_p,
                  "Draw from the likeliest tokens of this total probability")
      ->check(CLI::Range(1e-6f, 1.0f))
      ->group(group);
  command.add_option("--top-k", flags.top_k, "Draw from this many likeliest tokens; 0 = all")
      ->check(CLI::Range(0, 1 << 30))
      ->group(group);
  command.add_option("--min-p", flags.min_p, "Drop tokens under this share of the likeliest one")
      ->check(CLI::Range(0.0f, 1.0f))
      ->group(group);
  command.add_option("--presence-penalty", flags.presence_penalty, "For tokens already generated")
      ->check(CLI::Range(-2.0f, 2.0f))
      ->group(group);
  command.add_option("--frequency-penalty", flags.frequency_penalty, "The same, per occurrence")
      ->check(CLI::Range(-2.0f, 2.0f))
      ->group(group);
  command
      .add_option("--repetition-penalty", flags.repetition_penalty,
                  "Divides the logits of tokens seen; 1 = off")
      ->check(CLI::Range(1e-3f, 1e3f))
      ->group(group);
  command.add_option("--seed", flags.seed, "Same seed, same answer (default: a new one each time)")
      ->group(group);
  command.add_option("--max-tokens", flags.max_tokens, "Longest answer in tokens")
      ->check(CLI::Range(1, 1 << 30))
      ->group(group);
  command.add_option("--stop", flags.stop, "End before this text; may be given more than once")
      ->allow_extra_args(false)
      ->group(group);
  command.add_flag("--ignore-eos", flags.ignore_eos, "Go on after an end-of-text token")
      ->group(group);
}

engine::SamplingParams MakeSampling(const SamplingFlags& flags,
                                    const checkpoint::GenerationConfig& defaults) {
  engine::SamplingParams sampling;
  sampling.temperature = flags.temperature.value_or(defaults.temperature.value_or(1.0f));
  sampling.top_p = flags.top_p.value_or(defaults.top_p.value_or(1.0f));
  const int64_t default_top_k = std::clamp<int64_t>(defaults.top_k.value_or(0), 0, 1 << 30);
  sampling.top_k = flags.top_k.value_or(static_cast<int32_t>(default_top_k));
  sampling.min_p = flags.min_p.value_or(defaults.min_p.value_or(0.0f));
  sampling.presence_penalty = flags.presence_penalty.value_or(0.0f);
  sampling.frequency_penalty = flags.frequency_penalty.value_or(0.0f);
  sampling.repetition_penalty =
      flags.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0f));
  sampling.seed = flags.seed.has_value() ? *flags.seed : std::random_device{}();
  return sampling;
}

engine::Request MakeRequest(std::vector<int32_t> prompt, const SamplingFlags& flags,
                            const checkpoint::GenerationConfig& defaults,
                            const std::vector<int32_t>& eos_token_ids, int32_t max_tokens,
                            int64_t max_model_len) {
  engine::Request request;
  request.sampling = MakeSampling(flags, defaults);
  // At least 1: a prompt that leaves no room is then refused by the engine, which says why.
  const int64_t room =
      std::clamp<int64_t>(max_model_len - static_cast<int64_t>(prompt.size()), 1, 1 << 30);
  const int64_t fallback = max_tokens == 0 ? room : std::min<int64_t>(max_tokens, room);
  request.max_tokens = flags.max_tokens.value_or(static_cast<int32_t>(fallback));
  request.prompt = std::move(prompt);
  request.stop_token_ids = eos_token_ids;
  request.ignore_eos = flags.ignore_eos;
  request.stop_strings = flags.stop;
  return request;
}

double Completion::tokens_per_second() const {
  if (tokens.size() < 2 || total_ms <= first_token_ms) return 0;
  return static_cast<double>(tokens.size() - 1) * 1000 / (total_ms - first_token_ms);
}

const char* FinishReasonName(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kCancelled:
      return "cancelled";
    case engine::FinishReason::kNone:
    case engine::FinishReason::kError:
      break;
  }
  return "error";
}

Result<Completion> Complete(engine::Engine& engine, engine::Request request,
                            const std::function<void(std::string_view)>& on_text) {
  auto queue = std::make_shared<EventQueue>();
  const Clock::time_point start = Clock::now();
  QUERN_ASSIGN(const engine::RequestId id,
               engine.Submit(std::move(request), [queue](const engine::TokenEvent& event) {
                 std::lock_guard lock(queue->mutex);
                 queue->events.push_back(event);
                 queue->changed.notify_one();
               }));

  Completion completion;
  while (completion.finish == engine::FinishReason::kNone) {
    engine::TokenEvent event;
    {
      std::unique_lock lock(queue->mutex);
      // Woken now and then to look for ctrl-C, which cannot notify a condition variable.
      queue->changed.wait_for(lock, std::chrono::milliseconds(50),
                              [&] { return !queue->events.empty(); });
      if (queue->events.empty()) {
        lock.unlock();
        if (InterruptFlag::Take()) engine.Cancel(id);
        continue;
      }
      event = std::move(queue->events.front());
      queue->events.pop_front();
    }
    if (InterruptFlag::Take()) engine.Cancel(id);
    if (event.has_token) {
      if (completion.tokens.empty()) completion.first_token_ms = MsSince(start);
      completion.tokens.push_back(event.token);
    }
    if (!event.text.empty()) {
      completion.text += event.text;
      on_text(event.text);
    }
    if (event.finish == engine::FinishReason::kNone) continue;
    completion.finish = event.finish;
    completion.stop_string = event.stop_string;
    completion.num_prompt_tokens = event.num_prompt_tokens;
    completion.num_cached_tokens = event.num_cached_tokens;
    completion.num_completion_tokens = event.num_completion_tokens;
    completion.total_ms = MsSince(start);
    if (event.finish == engine::FinishReason::kError) {
      return Internal("the engine stopped this request: {}", event.error_message);
    }
  }
  return completion;
}

}  // namespace quern::cli
