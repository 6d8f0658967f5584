"""The openai client against `quern serve` with a real engine and model."""

import asyncio
import os
import pathlib
import subprocess

import openai
import pytest

from conftest import start_real

HI = [{"role": "user", "content": "Hello there"}]


def model_name():
    return pathlib.Path(os.environ["QUERN_MODEL"]).resolve().name


def chat(server, messages=None, **options):
    return server.client().chat.completions.create(model=model_name(), messages=messages or HI,
                                                   **{"max_tokens": 12, "seed": 1, **options})


def text_of(choice):
    """All text of a choice: a random model may end its reasoning anywhere, or never."""
    message = choice.message
    return (getattr(message, "reasoning_content", None) or "") + (message.content or "")


def streamed_text(stream):
    text, finish = "", None
    for chunk in stream:
        for choice in chunk.choices:
            text += getattr(choice.delta, "reasoning_content", None) or ""
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return text, finish


def test_models_tell_the_context_length(real):
    models = list(real.client().models.list())
    assert models[0].id == model_name()
    assert models[0].max_model_len > 0
    assert real.client().models.retrieve(model_name()).id == model_name()


def test_chat_and_stream_agree(real):
    whole = chat(real)
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert 1 <= whole.usage.completion_tokens <= 12
    assert whole.usage.prompt_tokens == real.post("/tokenize", {"messages": HI})["count"]
    assert streamed_text(chat(real, stream=True)) == (text_of(whole.choices[0]), whole.choices[0].finish_reason)


def test_the_same_seed_gives_the_same_answer_and_n_counts_it_up(real):
    three = chat(real, n=3, seed=5)
    alone = [chat(real, seed=5 + i) for i in range(3)]
    assert [text_of(c) for c in three.choices] == [text_of(a.choices[0]) for a in alone]
    assert three.usage.prompt_tokens == alone[0].usage.prompt_tokens
    assert three.usage.completion_tokens == sum(a.usage.completion_tokens for a in alone)


def test_stop_strings_cut_exactly(real):
    options = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0, "model": model_name(),
               "extra_body": {"ignore_eos": True}}
    client = real.client()
    whole = client.completions.create(**options).choices[0]
    assert whole.finish_reason == "length"
    middle = len(whole.text) // 2
    stop = whole.text[middle:middle + 3]
    cut = client.completions.create(**options, stop=[stop]).choices[0]
    assert cut.text == whole.text[:whole.text.index(stop)]
    assert cut.finish_reason == "stop"
    streamed = "".join(c.choices[0].text for c in client.completions.create(**options, stop=stop, stream=True))
    assert streamed == cut.text


def test_usage_and_ignore_eos(real):
    answer = chat(real, max_tokens=20, extra_body={"ignore_eos": True})
    assert answer.usage.completion_tokens == 20
    assert answer.choices[0].finish_reason == "length"
    chunks = list(chat(real, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage.prompt_tokens == answer.usage.prompt_tokens


def test_logprobs(real):
    answer = chat(real, logprobs=True, top_logprobs=3, temperature=0, max_tokens=5, extra_body={"ignore_eos": True})
    content = answer.choices[0].logprobs.content
    assert len(content) == 5
    for item in content:
        assert item.logprob <= 0
        assert len(item.top_logprobs) == 3
        assert item.top_logprobs[0].logprob == pytest.approx(item.logprob)  # greedy takes the best
    completion = real.client().completions.create(model=model_name(), prompt="Hello", max_tokens=4, logprobs=2,
                                                  extra_body={"ignore_eos": True})
    assert len(completion.choices[0].logprobs.token_logprobs) == 4


def test_logit_bias_decides(real):
    token = real.post("/tokenize", {"prompt": "a"})["tokens"][0]
    answer = real.client().completions.create(model=model_name(), prompt="Hello", max_tokens=3, temperature=0,
                                              logit_bias={str(token): 100}, extra_body={"ignore_eos": True})
    assert answer.choices[0].text == "aaa"


def test_prompts_as_token_ids(real):
    client = real.client()
    ids = real.post("/tokenize", {"prompt": "Once upon a time"})["tokens"]
    options = {"model": model_name(), "max_tokens": 8, "temperature": 0}
    as_text = client.completions.create(prompt="Once upon a time", **options).choices[0].text
    assert client.completions.create(prompt=ids, **options).choices[0].text == as_text
    two = client.completions.create(prompt=[ids, ids], **options)
    assert [c.text for c in two.choices] == [as_text, as_text]
    assert two.usage.prompt_tokens == 2 * len(ids)


def test_prefill_continues_the_last_message(real):
    messages = HI + [{"role": "assistant", "content": "Sure: "}]
    tokens = real.post("/tokenize", {"messages": messages})["tokens"]
    prompt = real.post("/detokenize", {"tokens": tokens})["prompt"]
    assert prompt.endswith("Sure: ")
    answer = chat(real, messages, temperature=0)
    plain = real.client().completions.create(model=model_name(), prompt=tokens, max_tokens=12, temperature=0)
    assert text_of(answer.choices[0]) == plain.choices[0].text


def test_tools_and_their_history_are_rendered(real):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    messages = HI + [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "3 C"}]
    tokens = real.post("/tokenize", {"messages": messages, "tools": tools})["tokens"]
    prompt = real.post("/detokenize", {"tokens": tokens})["prompt"]
    assert "get_weather" in prompt and "Oslo" in prompt and "3 C" in prompt
    answer = chat(real, messages, tools=tools)
    assert answer.usage.prompt_tokens == len(tokens)


def test_errors(real):
    limit = list(real.client().models.list())[0].max_model_len
    with pytest.raises(openai.BadRequestError) as error:
        chat(real, max_tokens=limit)
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as error:
        chat(real, extra_body={"no_such_field": 1})
    assert error.value.param == "no_such_field"
    with pytest.raises(openai.NotFoundError):
        real.client().chat.completions.create(model="other", messages=HI)


def test_abort_mid_stream_cancels(real):
    stream = chat(real, max_tokens=200, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    real.wait_for_metric("quern_requests_running", lambda n: n == 0)
    assert chat(real).choices[0].finish_reason in ("stop", "length")


def test_fifty_clients_get_complete_answers(real):
    expected = streamed_text(chat(real, stream=True))

    async def one(client):
        text, finish = "", None
        async for chunk in await client.chat.completions.create(model=model_name(), messages=HI, max_tokens=12, seed=1,
                                                                stream=True):
            for choice in chunk.choices:
                text += (getattr(choice.delta, "reasoning_content", None) or "") + (choice.delta.content or "")
                finish = choice.finish_reason or finish
        return text, finish

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=real.url + "/v1", api_key="none", max_retries=0, timeout=300) as client:
            return await asyncio.gather(*[one(client) for _ in range(50)])

    assert asyncio.run(all_of_them()) == [expected] * 50


def test_metrics_count_tokens(real):
    before = real.metric("quern_generated_tokens_total")
    answer = chat(real)
    assert real.metric("quern_generated_tokens_total") == before + answer.usage.completion_tokens
    assert real.metric("quern_kv_pages_total") > 0
    assert real.metric("quern_time_to_first_token_seconds_count") > 0


@pytest.mark.parametrize("grace", ["0", "30"])
def test_sigterm_while_streaming_exits_0(grace):
    server = start_real("--grace", grace)
    try:
        stream = chat(server, stream=True, max_tokens=60, extra_body={"ignore_eos": True})
        next(iter(stream))
        server.process.terminate()
        if grace == "30":
            assert streamed_text(stream)[1] == "length"
        else:
            # Either it was cut, which the client must hear of, or it was faster than the signal.
            try:
                assert streamed_text(stream)[1] == "length"
            except openai.APIError as error:
                assert "shutting down" in str(error)
        assert server.process.wait(timeout=30) == 0
    except subprocess.TimeoutExpired:
        pytest.fail("did not stop")
    finally:
        server.kill()
