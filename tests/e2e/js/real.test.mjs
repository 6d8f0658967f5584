// The openai client for JavaScript against `quern serve` with a real engine and model.
import assert from "node:assert/strict";
import { basename } from "node:path";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { startReal } from "./servers.mjs";

let server, client, model;
before(async () => {
  server = await startReal();
  client = server.client();
  model = basename(process.env.QUERN_MODEL);
});
after(() => server.stop("SIGKILL"));

const chat = (options = {}) => client.chat.completions.create(
  { model, messages: [{ role: "user", content: "Hello there" }], max_tokens: 12, seed: 1, ...options });

async function joined(stream) {
  let text = "", finish = null;
  for await (const chunk of stream) {
    text += (chunk.choices[0]?.delta.reasoning_content ?? "") + (chunk.choices[0]?.delta.content ?? "");
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  return { text, finish };
}

test("models tell the context length", async () => {
  const { data } = await client.models.list();
  assert.equal(data[0].id, model);
  assert.ok(data[0].max_model_len > 0);
});

test("chat and stream agree", async () => {
  const { message, finish_reason } = (await chat()).choices[0];
  const streamed = await joined(await chat({ stream: true }));
  assert.equal(streamed.text, (message.reasoning_content ?? "") + (message.content ?? ""));
  assert.equal(streamed.finish, finish_reason);
});

test("usage, logprobs and ignore_eos", async () => {
  const answer = await chat({ logprobs: true, top_logprobs: 2, ignore_eos: true });
  assert.equal(answer.usage.completion_tokens, 12);
  assert.equal(answer.choices[0].logprobs.content.length, 12);
  assert.equal(answer.choices[0].finish_reason, "length");
});

test("text completions", async () => {
  const answer = await client.completions.create({ model, prompt: "Once", max_tokens: 4, n: 2 });
  assert.equal(answer.choices.length, 2);
});

test("errors", async () => {
  await assert.rejects(chat({ no_such_field: 1 }), (e) =>
    e instanceof OpenAI.BadRequestError && e.param === "no_such_field");
  await assert.rejects(chat({ model: "other" }), (e) => e instanceof OpenAI.NotFoundError);
});

test("abort mid-stream cancels", async () => {
  const stream = await chat({ stream: true, max_tokens: 200, ignore_eos: true });
  for await (const chunk of stream) {
    assert.ok(chunk.choices);
    break;
  }
  for (let i = 0; await server.metric("quern_requests_running") > 0; ++i) {
    assert.ok(i < 500, "still running");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

test("fifty clients get complete answers", async () => {
  const expected = await joined(await chat({ stream: true }));
  const answers = await Promise.all(Array.from({ length: 50 }, async () => joined(await chat({ stream: true }))));
  for (const answer of answers) assert.deepEqual(answer, expected);
});
