// Rendering compared byte for byte with what transformers' own Jinja2 environment printed
// (tools/goldens/make_chat_goldens.py).
#include <gtest/gtest.h>

#include <string>

#include "quern/base/file.h"
#include "quern/base/json.h"
#include "quern/text/chat_template.h"

namespace quern::text {
namespace {

const std::string kChatDir = std::string(QUERN_SOURCE_DIR) + "/tests/data/chat/";

const std::string kNanoDir = std::string(QUERN_SOURCE_DIR) + "/models/quern-nano";

// With `nano`, the bundled model's template stands in for the one it renders as.
std::unique_ptr<ChatTemplate> Compile(const Json& golden, bool nano) {
  if (nano) return ChatTemplate::FromCheckpoint(kNanoDir).value();
  const std::string source =
      golden.contains("source")
          ? golden["source"].get<std::string>()
          : ReadFile(kChatDir + golden["template"].get<std::string>()).value();
  Result<std::unique_ptr<ChatTemplate>> compiled = ChatTemplate::FromSource(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status().ToString();
  return compiled.ok() ? std::move(compiled).value() : nullptr;
}

void ExpectGoldens(bool nano) {
  const Json goldens = ReadJsonFile(kChatDir + "goldens.json").value();
  size_t seen = 0;
  for (const Json& golden : goldens["cases"]) {
    if (nano && golden.value("template", "") != "glm-5.2.jinja") continue;
    ++seen;
    SCOPED_TRACE(golden["name"].get<std::string>());
    const auto compiled = Compile(golden, nano);
    if (compiled == nullptr) continue;
    const Json& context = goldens["contexts"][golden["context"].get<size_t>()];
    SCOPED_TRACE(context.dump());
    const Result<std::string> text = compiled->Render(context);
    if (golden.contains("error")) {
      EXPECT_FALSE(text.ok()) << *text;
      if (text.ok()) continue;
      EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
      if (golden["raised"].get<bool>()) {
        EXPECT_EQ(text.status().message(), "chat template: " + golden["error"].get<std::string>());
      }
      continue;
    }
    EXPECT_TRUE(text.ok()) << text.status().ToString();
    EXPECT_EQ(text.ok() ? *text : "", golden["text"].get<std::string>());
  }
  EXPECT_GT(seen, nano ? 50u : 200u);
}

TEST(ChatTemplateGolden, RendersAsTransformersDoes) { ExpectGoldens(/*nano=*/false); }

TEST(ChatTemplateGolden, TheBundledModelRendersAsGlm52Does) { ExpectGoldens(/*nano=*/true); }

}  // namespace
}  // namespace quern::text
