#include "quern/cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace quern::cli {
namespace {

int64_t NowMs() {
  using std::chrono::steady_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool IsTerminal(int fd) { return isatty(fd) == 1; }

bool UseColor(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return IsTerminal(fd);
}

std::string FormatBytes(uint64_t bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

std::string FormatProgress(std::string_view label, uint64_t done, uint64_t total, int bar_width) {
  done = std::min(done, total);
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const int filled = static_cast<int>(share * bar_width);
  return fmt::format("{} [{}{}] {:3.0f}%  {} of {}", label, std::string(filled, '#'),
                     std::string(bar_width - filled, '.'), std::floor(share * 100),
                     FormatBytes(done), FormatBytes(total));
}

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), visible_(IsTerminal(STDERR_FILENO)) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Update(uint64_t done, uint64_t total) {
  if (!visible_) return;
  const int64_t now = NowMs();
  if (drawn_ && done < total && now - last_draw_ms_ < 100) return;
  last_draw_ms_ = now;
  drawn_ = true;
  std::fprintf(stderr, "\r\033[K%s", FormatProgress(label_, done, total, 32).c_str());
  std::fflush(stderr);
}

LineReader::Outcome LineReader::Read(std::string& line) {
  for (;;) {
    if (const size_t newline = buffer_.find('\n'); newline != std::string::npos) {
      line = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return Outcome::kLine;
    }
    if (end_) {
      if (buffer_.empty()) return Outcome::kEnd;
      line = std::move(buffer_);
      buffer_.clear();
      return Outcome::kLine;
    }
    char chunk[4096];
    const ssize_t count = read(fd_, chunk, sizeof(chunk));
    if (count > 0) {
      buffer_.append(chunk, static_cast<size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      buffer_.clear();
      return Outcome::kInterrupted;
    } else {
      end_ = true;  // end of file, or a terminal that went away
    }
  }
}

}  // namespace quern::cli
