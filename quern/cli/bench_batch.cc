#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <random>

#include "quern/base/json.h"
#include "quern/cli/bench.h"
#include "quern/cli/session.h"
#include "quern/cli/terminal.h"

namespace quern::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BatchOptions {
  SessionOptions session;
  std::vector<int32_t> streams = {1, 2, 4, 8, 16};
  std::vector<std::string> drafts;  // empty: as --speculative says
  int32_t input_len = 128, output_len = 64;
  int32_t runs = 5;
  uint64_t seed = 1;
  std::string prompts;
  bool json = false;
};

// One line of the table: a number of streams and what drafts.
struct Setting {
  int32_t streams = 1;
  std::string drafts;
  engine::EngineOptions engine;
};

// What one run of a setting gave. Decoding is the time in which all streams decode: from the last
// first token to the first last one.
struct Sample {
  double prefill_seconds = 0, decode_seconds = 0;
  int64_t prefill_tokens = 0, decode_tokens = 0;
  engine::EngineStats stats;  // while decoding: differences

  double decode_rate() const {
    return decode_seconds > 0 ? static_cast<double>(decode_tokens) / decode_seconds : 0;
  }
  double prefill_rate() const {
    return prefill_seconds > 0 ? static_cast<double>(prefill_tokens) / prefill_seconds : 0;
  }
  double compute_seconds() const { return stats.model_seconds + stats.draft_seconds; }
  double bandwidth() const {  // bytes per second
    return compute_seconds() > 0 ? static_cast<double>(stats.bytes_read) / compute_seconds() : 0;
  }
  // Share of the engine's own work in its time: scheduling, drawing, detokenizing, handing out.
  double overhead() const {
    const double own = stats.schedule_seconds + stats.sample_seconds;
    return own > 0 ? own / (own + compute_seconds()) : 0;
  }
};

// Requests that run together, and when what happened.
class Wave {
 public:
  Sample Run(engine::Engine& engine, std::vector<engine::Request> requests, Status& status) {
    Sample sample;
    waiting_ = ending_ = requests.size();
    const Clock::time_point start = Clock::now();
    for (engine::Request& request : requests) {
      sample.prefill_tokens += static_cast<int64_t>(request.prompt.size());
      auto seen = std::make_shared<bool>(false);
      const auto id = engine.Submit(std::move(request),
                                    [this, seen](const engine::TokenEvent& e) { Take(e, *seen); });
      if (!id.ok()) {
        status = id.status();
        std::lock_guard lock(mutex_);
        --waiting_, --ending_;
      }
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == 0 || ended_ > 0; });
    lock.unlock();
    const engine::EngineStats before = engine.Stats();
    lock.lock();
    changed_.wait(lock, [&] { return ended_ > 0 || ending_ == 0; });
    lock.unlock();
    sample.stats = Difference(engine.Stats(), before);
    lock.lock();
    changed_.wait(lock, [&] { return ending_ == 0; });
    sample.prefill_seconds = Seconds(all_begun_ - start);
    // Tokens of the step in which the last stream began came before the clock started.
    sample.decode_seconds = std::max(0.0, Seconds(first_end_ - all_begun_));
    sample.decode_tokens = sample.decode_seconds > 0 ? tokens_ : 0;
    if (!error_.empty()) status = Internal("{}", error_);
    return sample;
  }

 private:
  static double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

  static engine::EngineStats Difference(engine::EngineStats a, const engine::EngineStats& b) {
    a.steps -= b.steps;
    a.schedule_seconds -= b.schedule_seconds;
    a.model_seconds -= b.model_seconds;
    a.sample_seconds -= b.sample_seconds;
    a.draft_seconds -= b.draft_seconds;
    a.bytes_read -= b.bytes_read;
    for (size_t i = 0; i < a.drafted.size(); ++i) {
      a.drafted[i] -= b.drafted[i];
      a.accepted[i] -= b.accepted[i];
    }
    return a;
  }

  void Take(const engine::TokenEvent& e, bool& begun) {
    std::lock_guard lock(mutex_);
    if (e.has_token) {
      if (!begun) {
        begun = true;
        if (--waiting_ == 0) all_begun_ = Clock::now(), tokens_ = 0, changed_.notify_all();
      } else if (waiting_ == 0 && ended_ == 0) {
        ++tokens_;
      }
    }
    if (e.finish == engine::FinishReason::kNone) return;
    if (!e.error_message.empty()) error_ = e.error_message;
    if (ended_++ == 0) first_end_ = Clock::now();
    --ending_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t waiting_ = 0, ending_ = 0, ended_ = 0;
  int64_t tokens_ = 0;
  Clock::time_point all_begun_, first_end_;
  std::string error_;
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Medians over the runs.
struct Row {
  const Setting* setting = nullptr;
  double decode_rate = 0, prefill_rate = 0, bandwidth = 0, overhead = 0, step_ms = 0;
  double tokens_per_step = 0;  // of one stream: the acceptance length
  double best = 0, worst = 0;  // decode rate
};

Row Summarize(const Setting& setting, const std::vector<Sample>& samples) {
  const auto median = [&](auto of) {
    std::vector<double> values;
    for (const Sample& s : samples) values.push_back(of(s));
    return Median(values);
  };
  Row row;
  row.setting = &setting;
  row.decode_rate = median([](const Sample& s) { return s.decode_rate(); });
  row.prefill_rate = median([](const Sample& s) { return s.prefill_rate(); });
  row.bandwidth = median([](const Sample& s) { return s.bandwidth(); });
  row.overhead = median([](const Sample& s) { return s.overhead(); });
  const auto per_step = [](const Sample& s, double value) {
    return s.stats.steps > 0 ? value / static_cast<double>(s.stats.steps) : 0;
  };
  row.step_ms = median([&](const Sample& s) { return per_step(s, s.compute_seconds() * 1e3); });
  row.tokens_per_step = median([&](const Sample& s) {
    return per_step(s, static_cast<double>(s.decode_tokens)) / setting.streams;
  });
  row.best = 0, row.worst = 1e300;
  for (const Sample& s : samples) {
    row.best = std::max(row.best, s.decode_rate());
    row.worst = std::min(row.worst, s.decode_rate());
  }
  return row;
}

Result<engine::EngineOptions> WithDrafts(engine::EngineOptions options, const std::string& drafts) {
  if (drafts == "auto") {
    options.draft.mode = engine::DraftMode::kAuto;
    return options;
  }
  int32_t count = 0;
  try {
    count = std::stoi(drafts);
  } catch (const std::exception&) {
    count = -1;
  }
  if (count < 0 || count > engine::kMaxDrafts || std::to_string(count) != drafts) {
    return InvalidArgument("--drafts {}: want auto or a number from 0 to {}", drafts,
                           engine::kMaxDrafts);
  }
  options.draft.mode = count == 0 ? engine::DraftMode::kOff : engine::DraftMode::kFixed;
  options.draft.num_drafts = std::max(count, 1);
  if (count == 0) options.draft.simulated_accept_length = 0;
  return options;
}

// Token ids of each line's prompt: {"prompt": text} or {"messages": [...]}, as in models/evals.
Result<std::vector<std::vector<int32_t>>> ReadPrompts(const std::string& path,
                                                      const Session& session) {
  std::ifstream file(path);
  if (!file) return NotFound("{}: cannot be read", path);
  std::vector<std::vector<int32_t>> prompts;
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    if (line.empty()) continue;
    Result<Json> item = ParseJson(line);
    if (!item.ok() || !item->is_object())
      return InvalidArgument("{}:{}: want a JSON object", path, line_number);
    std::string text;
    if (item->contains("prompt") && (*item)["prompt"].is_string()) {
      text = (*item)["prompt"].get<std::string>();
    } else if (item->contains("messages")) {
      if (session.chat_template() == nullptr)
        return FailedPrecondition("{}:{}: messages, but the model has no chat template", path,
                                  line_number);
      Json context = {{"messages", (*item)["messages"]},
                      {"add_generation_prompt", true},
                      {"enable_thinking", false}};
      if (item->contains("tools")) context["tools"] = (*item)["tools"];
      QUERN_ASSIGN(text, session.chat_template()->Render(context));
    } else {
      return InvalidArgument("{}:{}: want \"prompt\" or \"messages\"", path, line_number);
    }
    QUERN_ASSIGN(std::vector<int32_t> ids, session.tokenizer().Encode(text));
    prompts.push_back(std::move(ids));
  }
  if (prompts.empty()) return InvalidArgument("{}: holds no prompts", path);
  return prompts;
}

class BatchBench {
 public:
  BatchBench(const BatchOptions& options, Session& session)
      : options_(options), session_(session) {}

  Status Run() {
    if (!options_.prompts.empty()) {
      QUERN_ASSIGN(prompts_, ReadPrompts(options_.prompts, session_));
    }
    QUERN_TRY(MakeSettings());
    std::vector<std::vector<Sample>> samples(settings_.size());
    {
      ProgressBar bar("Measuring");
      const uint64_t total = settings_.size() * static_cast<uint64_t>(options_.runs + 1);
      uint64_t done = 0;
      // Settings take turns, so that a slow minute of the machine is shared by all of them. The
      // first round warms up.
      for (int32_t run = 0; run <= options_.runs; ++run) {
        for (size_t i = 0; i < settings_.size(); ++i) {
          QUERN_ASSIGN(const Sample sample, Measure(settings_[i], run));
          if (run > 0) samples[i].push_back(sample);
          bar.Update(++done, total);
        }
      }
    }
    for (size_t i = 0; i < settings_.size(); ++i)
      rows_.push_back(Summarize(settings_[i], samples[i]));
    return OkStatus();
  }

  void Print() const {
    std::printf("%s, %d threads, %s, %d tokens out, medians of %d runs\n\n",
                session_.name().c_str(), session_.num_threads(), Input().c_str(),
                options_.output_len, options_.runs);
    std::printf("%7s %7s %10s %7s %9s %9s %8s %7s %8s %10s\n", "streams", "drafts", "decode/s",
                "x first", "spread", "step ms", "tok/step", "GB/s", "x first", "prefill/s");
    for (const Row& r : rows_) {
      std::printf("%7d %7s %10.1f %7.2f %8.0f%% %9.2f %8.2f %7.2f %8.2f %10.0f\n",
                  r.setting->streams, r.setting->drafts.c_str(), r.decode_rate,
                  Ratio(r.decode_rate, rows_[0].decode_rate),
                  100 * Ratio(r.best - r.worst, r.decode_rate), r.step_ms, r.tokens_per_step,
                  r.bandwidth / 1e9, Ratio(r.bandwidth, rows_[0].bandwidth), r.prefill_rate);
    }
    std::printf(
        "\ndecode/s: tokens per second of all streams while all of them decode. GB/s: bytes of "
        "weights and keys that had\nto be read (distinct experts counted) by the time of model and "
        "drafts; beside it, against the first line.\nScheduling, sampling and streaming took "
        "%.2f%% of the last line's time.\n",
        100 * rows_.back().overhead);
    if (is_simulated())
      std::printf("SIMULATED: drafts were accepted unseen (--simulate-accept-length).\n");
  }

  Json ToJson() const {
    Json rows = Json::array();
    for (const Row& r : rows_) {
      rows.push_back({{"streams", r.setting->streams},
                      {"drafts", r.setting->drafts},
                      {"decode_tokens_per_second", r.decode_rate},
                      {"decode_tokens_per_second_range", {r.worst, r.best}},
                      {"step_ms", r.step_ms},
                      {"tokens_per_step_and_stream", r.tokens_per_step},
                      {"bytes_per_second", r.bandwidth},
                      {"engine_overhead", r.overhead},
                      {"prefill_tokens_per_second", r.prefill_rate}});
    }
    return {{"model", session_.name()},
            {"fingerprint", session_.fingerprint()},
            {"threads", session_.num_threads()},
            {"input", Input()},
            {"output_len", options_.output_len},
            {"runs", options_.runs},
            {"simulated_accept_length", options_.session.engine.simulate_accept_length},
            {"rows", std::move(rows)}};
  }

 private:
  static double Ratio(double a, double b) { return b > 0 ? a / b : 0; }
  bool is_simulated() const { return options_.session.engine.simulate_accept_length > 0; }
  std::string Input() const {
    return options_.prompts.empty() ? fmt::format("{} random tokens in", options_.input_len)
                                    : "prompts of " + options_.prompts;
  }

  Status MakeSettings() {
    QUERN_ASSIGN(engine::EngineOptions engine, ToEngineOptions(options_.session.engine));
    engine.prefix_cache = false;  // runs would find each other's prompts
    int64_t longest = options_.input_len;
    for (const auto& p : prompts_) longest = std::max(longest, static_cast<int64_t>(p.size()));
    engine.max_model_len = longest + options_.output_len;
    const std::vector<std::string> drafts =
        options_.drafts.empty() ? std::vector<std::string>{""} : options_.drafts;
    for (int32_t streams : options_.streams) {
      for (const std::string& d : drafts) {
        Setting s{.streams = streams, .drafts = d, .engine = engine};
        if (d.empty()) {
          s.drafts = options_.session.engine.speculative;
        } else {
          QUERN_ASSIGN(s.engine, WithDrafts(engine, d));
        }
        const bool with_mtp =
            session_.model().has_mtp() && s.engine.draft.mode != engine::DraftMode::kOff;
        const int64_t page_bytes =
            model::MakeKvLayout(session_.config(),
                                {.with_mtp = with_mtp, .dtype = s.engine.kv_dtype})
                .bytes_per_page();
        s.engine.kv_cache_bytes =
            page_bytes * streams *
            ((engine.max_model_len + 2 * backend::kPageTokens) / backend::kPageTokens);
        s.engine.max_running = std::max(streams, 1);
        settings_.push_back(std::move(s));
      }
    }
    return OkStatus();
  }

  engine::Request MakeRequest(int32_t run, int32_t stream) const {
    engine::Request request;
    request.sampling.temperature = 0;
    request.max_tokens = options_.output_len;
    if (!prompts_.empty()) {
      request.prompt = prompts_[static_cast<size_t>(stream) % prompts_.size()];
      request.stop_token_ids = session_.eos_token_ids();
      return request;
    }
    request.ignore_eos = true;
    std::mt19937_64 rng(options_.seed * 1000003 + static_cast<uint64_t>(run) * 1009 +
                        static_cast<uint64_t>(stream));
    const int64_t vocab =
        std::min<int64_t>(session_.tokenizer().vocab_size(), session_.config().vocab_size);
    for (int32_t i = 0; i < options_.input_len; ++i)
      request.prompt.push_back(static_cast<int32_t>(rng() % static_cast<uint64_t>(vocab)));
    return request;
  }

  // One engine; one wave of random prompts, or as many as it takes to ask each given prompt once.
  Result<Sample> Measure(const Setting& setting, int32_t run) {
    QUERN_ASSIGN(const std::unique_ptr<engine::Engine> engine,
                 engine::CreateEngine(session_.model(), session_.tokenizer(), setting.engine));
    const int32_t waves =
        prompts_.empty()
            ? 1
            : (static_cast<int32_t>(prompts_.size()) + setting.streams - 1) / setting.streams;
    Sample sum;
    for (int32_t wave = 0; wave < waves; ++wave) {
      std::vector<engine::Request> requests;
      for (int32_t i = 0; i < setting.streams; ++i)
        requests.push_back(MakeRequest(run, wave * setting.streams + i));
      Status status;
      const Sample s = Wave().Run(*engine, std::move(requests), status);
      QUERN_TRY(status);
      Add(sum, s);
    }
    return sum;
  }

  static void Add(Sample& sum, const Sample& s) {
    sum.prefill_seconds += s.prefill_seconds;
    sum.decode_seconds += s.decode_seconds;
    sum.prefill_tokens += s.prefill_tokens;
    sum.decode_tokens += s.decode_tokens;
    sum.stats.steps += s.stats.steps;
    sum.stats.schedule_seconds += s.stats.schedule_seconds;
    sum.stats.model_seconds += s.stats.model_seconds;
    sum.stats.sample_seconds += s.stats.sample_seconds;
    sum.stats.draft_seconds += s.stats.draft_seconds;
    sum.stats.bytes_read += s.stats.bytes_read;
  }

  const BatchOptions& options_;
  Session& session_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<Setting> settings_;
  std::vector<Row> rows_;
};

Status RunBenchBatch(const BatchOptions& options) {
  QUERN_ASSIGN(const std::unique_ptr<Session> session, Session::Open(options.session));
  BatchBench bench(options, *session);
  QUERN_TRY(bench.Run());
  if (options.json) {
    std::fputs((DumpJson(bench.ToJson(), 2) + "\n").c_str(), stdout);
  } else {
    bench.Print();
  }
  return OkStatus();
}

}  // namespace

void AddBenchBatchCommand(CLI::App& bench, CommandResult& result) {
  auto options = std::make_shared<BatchOptions>();
  options->session.start_engine = false;
  CLI::App* command =
      bench.add_subcommand("batch", "Decoding speed by number of streams and of drafts");
  command->footer(
      "Runs the engine in this process, without HTTP: what the model and the engine can do. "
      "Settings take turns.\n"
      "Examples:\n"
      "  quern bench batch MODEL --streams 1,4,16,64\n"
      "  quern bench batch MODEL --streams 1 --drafts 0,1,2,3,4,5,auto --prompts "
      "models/evals/quern.jsonl");
  command->add_option("--streams", options->streams, "How many requests decode together, a list")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--drafts", options->drafts,
                   "Drafts per round, a list of numbers and auto; 0 is off (default: as "
                   "--speculative says)")
      ->delimiter(',');
  command->add_option("--input-len", options->input_len, "Random tokens in each prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--output-len", options->output_len, "Tokens to generate, at most")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--prompts", options->prompts,
                   "JSONL file of prompts or messages instead; answers end where the model ends "
                   "them")
      ->check(CLI::ExistingFile);
  command->add_option("--runs", options->runs, "Runs per setting; medians are printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the random prompts")->capture_default_str();
  command->add_flag("--json", options->json, "Print the table as JSON");
  AddSessionOptions(*command, options->session);
  command->callback([options, &result] { result.status = RunBenchBatch(*options); });
}

}  // namespace quern::cli
