// The small tokenizer and a GLM template of tests/data, loaded once, for the server's tests.
#pragma once

#include <memory>
#include <string>

#include "quern/server/server.h"
#include "quern/server/testing/fake_engine.h"
#include "quern/text/chat_template.h"
#include "quern/text/tokenizer.h"

namespace quern::server {

struct TestModel {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;
  ModelInfo info;  // named "test-model", with the tokenizer's eos ids
};

// Loaded at the first call; lives as long as the program.
const TestModel& SharedTestModel();

}  // namespace quern::server
