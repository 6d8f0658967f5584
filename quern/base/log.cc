#include "quern/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace quern::log {

bool SetLevel(std::string_view level) {
  for (auto known : {"trace", "debug", "info", "warn", "error", "off"}) {
    if (level == known) {
      spdlog::set_level(spdlog::level::from_str(std::string(level)));
      return true;
    }
  }
  return false;
}

void Init() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("quern"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
}

}  // namespace quern::log
