// Logging for the libraries: leveled, thread-safe, to stderr. Only the command line changes its
// settings.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace quern::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// level: trace, debug, info, warn, error or off. Returns false for another word.
bool SetLevel(std::string_view level);
// Sends logs to stderr (stdout belongs to results). Call once, early in main.
void Init();

}  // namespace quern::log
