#include "quern/server/testing/test_model.h"

#include "quern/base/file.h"

namespace quern::server {
namespace {

TestModel* Load() {
  const std::string data = std::string(QUERN_SOURCE_DIR) + "/tests/data/";
  auto model = std::make_unique<TestModel>();
  auto tokenizer = text::Tokenizer::FromFile(data + "tokenizer/tokenizer.json");
  QUERN_CHECK(tokenizer.ok(), "{}", tokenizer.status().ToString());
  model->tokenizer = std::move(*tokenizer);
  const auto source = ReadFile(data + "chat/glm-5.2.jinja");
  QUERN_CHECK(source.ok(), "{}", source.status().ToString());
  auto chat_template = text::ChatTemplate::FromSource(*source);
  QUERN_CHECK(chat_template.ok(), "{}", chat_template.status().ToString());
  model->chat_template = std::move(*chat_template);
  model->info.name = "test-model";
  model->info.created = 1'700'000'000;
  model->info.fingerprint = "0123abcd";
  for (const char* token : {"<|endoftext|>", "<|user|>", "<|observation|>"}) {
    const auto id = model->tokenizer->TokenId(token);
    QUERN_CHECK(id.has_value(), "{} is not in the tokenizer", token);
    model->info.eos_token_ids.push_back(*id);
  }
  return model.release();
}

}  // namespace

const TestModel& SharedTestModel() {
  static const TestModel* model = Load();
  return *model;
}

}  // namespace quern::server
