#include "quern/server/sampling_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SamplingFields Read(const std::string& body, std::optional<ApiError>* error = nullptr,
                    engine::SamplingParams defaults = {}) {
  const ApiResult<Json> json = ParseBody(body);
  EXPECT_TRUE(json.ok()) << json.error().message;
  FieldReader reader(*json);
  SamplingFields fields = ReadSamplingFields(reader, defaults);
  reader.RefuseUnknown();
  if (error != nullptr && !reader.ok()) *error = reader.error();
  if (error == nullptr) {
    EXPECT_TRUE(reader.ok()) << reader.error().message;
  }
  return fields;
}

ApiError ReadError(const std::string& body) {
  std::optional<ApiError> error;
  Read(body, &error);
  EXPECT_TRUE(error.has_value()) << body << " was accepted";
  return error.value_or(ApiError{});
}

TEST(SamplingFields, TakesEveryField) {
  const SamplingFields f =
      Read(R"({"temperature": 0.5, "top_p": 0.25, "top_k": 7, "min_p": 0.125, "seed": 42,
    "presence_penalty": -2, "frequency_penalty": 2, "repetition_penalty": 1.5, "logit_bias": {"3": -100, "5": 1.5},
    "stop": ["a", "bc"], "max_tokens": 9, "ignore_eos": true, "n": 3, "skip_special_tokens": false,
    "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_EQ(f.sampling.temperature, 0.5f);
  EXPECT_EQ(f.sampling.top_p, 0.25f);
  EXPECT_EQ(f.sampling.top_k, 7);
  EXPECT_EQ(f.sampling.min_p, 0.125f);
  EXPECT_EQ(f.sampling.seed, 42u);
  EXPECT_TRUE(f.has_seed);
  EXPECT_EQ(f.sampling.presence_penalty, -2.0f);
  EXPECT_EQ(f.sampling.frequency_penalty, 2.0f);
  EXPECT_EQ(f.sampling.repetition_penalty, 1.5f);
  EXPECT_THAT(f.sampling.logit_bias, ElementsAre(std::pair(3, -100.0f), std::pair(5, 1.5f)));
  EXPECT_THAT(f.stop, ElementsAre("a", "bc"));
  EXPECT_EQ(f.max_tokens, 9);
  EXPECT_TRUE(f.ignore_eos);
  EXPECT_FALSE(f.skip_special_tokens);
  EXPECT_EQ(f.num_choices, 3);
  EXPECT_TRUE(f.stream);
  EXPECT_TRUE(f.include_usage);
}

TEST(SamplingFields, LeavesDefaultsWhereNothingOrNullIsSent) {
  engine::SamplingParams defaults;
  defaults.temperature = 0.6f;
  defaults.top_p = 0.95f;
  defaults.top_k = 20;
  const SamplingFields f =
      Read(R"({"temperature": null, "stop": null, "seed": null, "n": null})", nullptr, defaults);
  EXPECT_EQ(f.sampling.temperature, 0.6f);
  EXPECT_EQ(f.sampling.top_p, 0.95f);
  EXPECT_EQ(f.sampling.top_k, 20);
  EXPECT_FALSE(f.has_seed);
  EXPECT_EQ(f.num_choices, 1);
  EXPECT_FALSE(f.max_tokens.has_value());
  EXPECT_FALSE(f.stream);
}

TEST(SamplingFields, TakesSeedsOfAnySignAndIntegersWrittenAsFloats) {
  EXPECT_EQ(Read(R"({"seed": -1})").sampling.seed, ~uint64_t{0});
  EXPECT_EQ(Read(R"({"seed": 18446744073709551615})").sampling.seed, ~uint64_t{0});
  EXPECT_EQ(Read(R"({"max_tokens": 12.0})").max_tokens, 12);
  EXPECT_EQ(Read(R"({"top_k": -1})").sampling.top_k, 0);
  EXPECT_THAT(Read(R"({"stop": "x"})").stop, ElementsAre("x"));
}

TEST(SamplingFields, NamesTheFieldOfEveryWrongValue) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"temperature": 2.5})", "temperature"},
      {R"({"temperature": -0.1})", "temperature"},
      {R"({"temperature": "hot"})", "temperature"},
      {R"({"temperature": true})", "temperature"},
      {R"({"temperature": 1e308})", "temperature"},
      {R"({"top_p": 0})", "top_p"},
      {R"({"top_p": 1e-60})", "top_p"},
      {R"({"top_p": 1.01})", "top_p"},
      {R"({"top_k": 1.5})", "top_k"},
      {R"({"top_k": -2})", "top_k"},
      {R"({"top_k": 99999999999999999999})", "top_k"},
      {R"({"min_p": 2})", "min_p"},
      {R"({"presence_penalty": 3})", "presence_penalty"},
      {R"({"frequency_penalty": -3})", "frequency_penalty"},
      {R"({"repetition_penalty": 0})", "repetition_penalty"},
      {R"({"seed": 1.5})", "seed"},
      {R"({"seed": "1"})", "seed"},
      {R"({"max_tokens": 0})", "max_tokens"},
      {R"({"max_tokens": 1e300})", "max_tokens"},
      {R"({"max_completion_tokens": -5})", "max_completion_tokens"},
      {R"({"max_tokens": 5, "max_completion_tokens": 6})", "max_completion_tokens"},
      {R"({"stop": 5})", "stop"},
      {R"({"stop": {}})", "stop"},
      {R"({"stop": ["a", 5]})", "stop[1]"},
      {R"({"stop": ["a", ""]})", "stop[1]"},
      {R"({"stop": ["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]})",
       "stop"},
      {R"({"logit_bias": []})", "logit_bias"},
      {R"({"logit_bias": {"x": 1}})", "logit_bias"},
      {R"({"logit_bias": {"-1": 1}})", "logit_bias"},
      {R"({"logit_bias": {"1": "x"}})", "logit_bias"},
      {R"({"logit_bias": {"1": 101}})", "logit_bias"},
      {R"({"logit_bias": {"99999999999": 1}})", "logit_bias"},
      {R"({"n": 0})", "n"},
      {R"({"n": 129})", "n"},
      {R"({"n": [1]})", "n"},
      {R"({"ignore_eos": 1})", "ignore_eos"},
      {R"({"stream": "yes"})", "stream"},
      {R"({"stream_options": {"include_usage": true}})", "stream_options"},
      {R"({"stream": true, "stream_options": {"include_usage": 1}})",
       "stream_options.include_usage"},
      {R"({"stream": true, "stream_options": {"other": 1}})", "stream_options.other"},
      {R"({"stream": true, "stream_options": []})", "stream_options"},
      {R"({"no_such_thing": 1})", "no_such_thing"},
  };
  for (const auto& [body, param] : kCases) {
    SCOPED_TRACE(body);
    const ApiError error = ReadError(body);
    EXPECT_EQ(error.param, param);
    EXPECT_EQ(error.http_status, 400);
    EXPECT_FALSE(error.message.empty());
  }
}

TEST(SamplingFields, SaysWhatCameAndWhatWasWanted) {
  const ApiError error = ReadError(R"({"temperature": "hot"})");
  EXPECT_EQ(error.message, "temperature: got the string \"hot\", want a number");
  EXPECT_THAT(ReadError(R"({"n": 1000})").message,
              HasSubstr("got 1000, want an integer in [1, 128]"));
}

TEST(SamplingFields, ChoicesDifferBySeedOnly) {
  SamplingFields fields = Read(R"({"seed": 10, "stop": "x", "ignore_eos": true})");
  const engine::Request first = MakeEngineRequest(fields, {1, 2}, 5, {7, 8}, 0);
  const engine::Request third = MakeEngineRequest(fields, {1, 2}, 5, {7, 8}, 2);
  EXPECT_EQ(first.sampling.seed, 10u);
  EXPECT_EQ(third.sampling.seed, 12u);
  EXPECT_THAT(third.prompt, ElementsAre(1, 2));
  EXPECT_THAT(third.stop_token_ids, ElementsAre(7, 8));
  EXPECT_THAT(third.stop_strings, ElementsAre("x"));
  EXPECT_TRUE(third.ignore_eos);
  EXPECT_EQ(third.max_tokens, 5);
}

TEST(ParseBody, RefusesWhatIsNoObject) {
  for (const std::string& body :
       {std::string(), std::string("  \n"), std::string("[]"), std::string("5"), std::string("{"),
        std::string("{} x"), std::string("{\"a\": \xff}"), std::string("{\"a\": \"\xff\"}"),
        std::string("{\"a\": 1e999}"), std::string("{\"a\": NaN}"), std::string("\xef\xbb\xbf"),
        std::string(5, '\0')}) {
    const ApiResult<Json> json = ParseBody(body);
    ASSERT_FALSE(json.ok()) << body;
    EXPECT_EQ(json.error().http_status, 400);
    EXPECT_EQ(json.error().code, "invalid_json");
  }
}

TEST(ParseBody, BoundsDepthAndMembers) {
  const std::string deep = "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  ASSERT_FALSE(ParseBody(deep).ok());
  EXPECT_THAT(ParseBody(deep).error().message, HasSubstr("deeper than 64"));
  std::string wide = "{";
  for (int i = 0; i < 2'000; ++i) wide += "\"k" + std::to_string(i) + "\": 0, ";
  wide += "\"last\": 0}";
  ASSERT_FALSE(ParseBody(wide).ok());
  EXPECT_THAT(ParseBody(wide).error().message, HasSubstr("more than 1024 members"));
  std::string list = "{\"a\": [0";
  for (int i = 0; i < 100'000; ++i) list += ", 0";
  EXPECT_TRUE(ParseBody(list + "]}").ok());
}

TEST(ErrorBody, HasOpenAisShape) {
  EXPECT_EQ(
      DumpJson(ErrorBody(BadField("n", "n: no", "out_of_range"))),
      R"({"error":{"message":"n: no","type":"invalid_request_error","param":"n","code":"out_of_range"}})");
  EXPECT_EQ(
      DumpJson(ErrorBody(FromStatus(Internal("oops")))),
      R"({"error":{"message":"oops","type":"server_error","param":null,"code":"internal_error"}})");
}

TEST(FromStatus, MapsCodesToHttp) {
  EXPECT_EQ(FromStatus(InvalidArgument("x")).http_status, 400);
  EXPECT_EQ(FromStatus(Unimplemented("x")).http_status, 400);
  EXPECT_EQ(FromStatus(NotFound("x")).http_status, 404);
  EXPECT_EQ(FromStatus(ResourceExhausted("x")).http_status, 429);
  EXPECT_GT(FromStatus(ResourceExhausted("x")).retry_after_s, 0);
  EXPECT_EQ(FromStatus(Unavailable("x")).http_status, 503);
  EXPECT_EQ(FromStatus(DataLoss("x")).http_status, 500);
}

}  // namespace
}  // namespace quern::server
