// What the commands know of terminals: is this one, may it have colour, a progress bar, lines from
// stdin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::cli {

bool IsTerminal(int fd);
// A terminal that has not asked for plain text (NO_COLOR set and not empty, or TERM=dumb).
bool UseColor(int fd);

// "1.5 GB": powers of ten, three digits.
std::string FormatBytes(uint64_t bytes);
// "Loading weights [######......]  50%  1.2 of 2.4 GB", `bar_width` characters between the
// brackets.
std::string FormatProgress(std::string_view label, uint64_t done, uint64_t total, int bar_width);

// One line on stderr, redrawn in place at most ten times a second; silent when stderr is not a
// terminal. Destroying it clears the line. Used from one thread.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Update(uint64_t done, uint64_t total);

 private:
  std::string label_;
  bool visible_;
  bool drawn_ = false;
  int64_t last_draw_ms_ = 0;
};

// Lines of a file descriptor, of any length, without their "\n" or "\r\n". A last line without
// newline counts.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}

  enum class Outcome { kLine, kEnd, kInterrupted };
  // kInterrupted: a signal came while waiting (interrupt.h); what was typed of the line is dropped.
  Outcome Read(std::string& line);

 private:
  int fd_;
  std::string buffer_;
  bool end_ = false;
};

}  // namespace quern::cli
