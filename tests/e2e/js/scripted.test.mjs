// The openai client for JavaScript against answers written by the tests.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { say, startScripted } from "./servers.mjs";

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } },
  },
};
const call = "I need it.</think>Let me look.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>" +
  "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>";

let server, client;
before(async () => {
  server = await startScripted();
  client = server.client();
});
after(() => server.stop("SIGKILL"));

const ask = (text, options = {}, more = {}) =>
  client.chat.completions.create({ model: "fake", messages: [{ role: "user", content: text }], ...options }, more);

async function join(stream) {
  let content = "", reasoning = "", finish = null, usage = null;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) {
      content += choice.delta.content ?? "";
      reasoning += choice.delta.reasoning_content ?? "";
      finish = choice.finish_reason ?? finish;
    }
  }
  return { content, reasoning, finish, usage };
}

test("chat", async () => {
  const answer = await ask(say("Hm.</think>Hello, wörld 👋"));
  assert.equal(answer.choices[0].message.content, "Hello, wörld 👋");
  assert.equal(answer.choices[0].message.reasoning_content, "Hm.");
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test("a stream adds up to the whole answer", async () => {
  const whole = await ask(say("Hm.</think>Hello, wörld 👋"));
  const streamed = await join(await ask(say("Hm.</think>Hello, wörld 👋"),
    { stream: true, stream_options: { include_usage: true } }));
  assert.equal(streamed.content, whole.choices[0].message.content);
  assert.equal(streamed.reasoning, "Hm.");
  assert.equal(streamed.finish, "stop");
  assert.deepEqual(streamed.usage, whole.usage);
});

test("tools round trip", async () => {
  const messages = [{ role: "user", content: say(call) }];
  const answer = await client.chat.completions.create({ model: "fake", messages, tools: [weather] });
  const message = answer.choices[0].message;
  assert.equal(answer.choices[0].finish_reason, "tool_calls");
  assert.equal(message.content, "Let me look.");
  assert.equal(message.tool_calls[0].function.name, "get_weather");
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "Paris", days: 2 });
  messages.push(message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "21 C" },
    { role: "user", content: say("</think>It is 21 C.") });
  const last = await client.chat.completions.create({ model: "fake", messages, tools: [weather] });
  assert.equal(last.choices[0].message.content, "It is 21 C.");
});

test("the client's own runner executes tools and goes on", async () => {
  // The second request holds the tool's result, "answer with this": the engine obeys the last directive.
  const runner = client.chat.completions.runTools({
    model: "fake",
    messages: [{ role: "user", content: say(call) }],
    tools: [{ type: "function", function: { ...weather.function, parse: JSON.parse,
      function: (args) => say(`</think>${args.days} days in ${args.city}`) } }],
  });
  assert.equal(await runner.finalContent(), "2 days in Paris");
});

test("streamed tool calls accumulate", async () => {
  const stream = client.chat.completions.stream(
    { model: "fake", messages: [{ role: "user", content: say(call) }], tools: [weather] });
  const final = await stream.finalChatCompletion();
  assert.deepEqual(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments), { city: "Paris", days: 2 });
  assert.equal(final.choices[0].finish_reason, "tool_calls");
});

test("logprobs", async () => {
  const answer = await ask(say("</think>né"), { logprobs: true, top_logprobs: 2 });
  const content = answer.choices[0].logprobs.content;
  assert.equal(Buffer.from(content.flatMap((item) => item.bytes)).toString(), "</think>né");
  assert.ok(content.every((item) => item.top_logprobs.length === 2));
});

test("errors have their classes, params and codes", async () => {
  await assert.rejects(ask("Hi", { temperature: 3 }), (e) =>
    e instanceof OpenAI.BadRequestError && e.param === "temperature");
  await assert.rejects(client.chat.completions.create({ model: "gpt-5", messages: [{ role: "user", content: "Hi" }] }),
    (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
  await assert.rejects(ask("[[busy]]"), (e) => e instanceof OpenAI.RateLimitError);
  await assert.rejects(ask("[[fail]]"), (e) => e instanceof OpenAI.InternalServerError);
  await assert.rejects(async () => join(await ask("[[fail]]", { stream: true })), /scripted failure/);
});

test("an API key is asked for", async () => {
  const guarded = await startScripted("--api-key", "sesame");
  try {
    await assert.rejects(guarded.client({ apiKey: "wrong" }).models.list(),
      (e) => e instanceof OpenAI.AuthenticationError && e.code === "invalid_api_key");
    assert.equal((await guarded.client({ apiKey: "sesame" }).models.list()).data[0].id, "fake");
  } finally {
    await guarded.stop("SIGKILL");
  }
});

test("abort mid-stream cancels", async () => {
  const stream = await ask(say("word ", "repeat 10000", "delay 5"), { stream: true });
  for await (const chunk of stream) {
    assert.ok(chunk.choices);
    break;  // the client aborts when a loop over its stream is left
  }
  for (let i = 0; await server.metric("quern_requests_running") > 0; ++i) {
    assert.ok(i < 200, "still running");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

test("fifty clients get complete answers", async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, async (_, i) =>
    (await join(await ask(say(`</think>answer ${i}`, "delay 1"), { stream: true }))).content));
  assert.deepEqual(answers, Array.from({ length: 50 }, (_, i) => `answer ${i}`));
});

test("SIGTERM lets a stream finish and the server exits 0", async () => {
  const own = await startScripted();
  const stream = await own.client().chat.completions.create({ model: "fake", stream: true,
    messages: [{ role: "user", content: say("</think>word ", "repeat 10", "delay 20") }] });
  const code = own.stop("SIGTERM");
  assert.equal((await join(stream)).content.split("word").length, 11);
  assert.equal(await code, 0);
});
