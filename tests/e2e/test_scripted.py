"""The openai client against answers written by the tests."""

import concurrent.futures
import json

import openai
import pytest

from conftest import say, start_scripted

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                       "required": ["city"]},
    },
}
CALLS = ("I need the tool.</think>Let me look."
         "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
         "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>"
         "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Zürich \"Süd\"</arg_value></tool_call>")


def ask(server, text, **options):
    return server.client().chat.completions.create(model="fake", messages=[{"role": "user", "content": text}], **options)


def join(stream):
    """What the chunks of a stream add up to."""
    total = {"role": "", "content": "", "reasoning": "", "calls": {}, "finish": None, "usage": None}
    for chunk in stream:
        if chunk.usage is not None:
            total["usage"] = chunk.usage
        for choice in chunk.choices:
            delta = choice.delta
            total["role"] += delta.role or ""
            total["content"] += delta.content or ""
            total["reasoning"] += getattr(delta, "reasoning_content", None) or ""
            for part in delta.tool_calls or []:
                call = total["calls"].setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                call["id"] += part.id or ""
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""
            total["finish"] = choice.finish_reason or total["finish"]
    return total


def test_chat(scripted):
    answer = ask(scripted, say("Thinking.</think>Hello, wörld 👋"))
    message = answer.choices[0].message
    assert message.role == "assistant"
    assert message.content == "Hello, wörld 👋"
    assert message.reasoning_content == "Thinking."
    assert message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"
    assert answer.object == "chat.completion"
    assert answer.model == "fake"
    assert answer._request_id == answer.id
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_adds_up_to_the_whole_answer(scripted):
    text = say("Thinking a while.</think>Hello, wörld 👋 and goodbye.")
    whole = ask(scripted, text)
    streamed = join(ask(scripted, text, stream=True, stream_options={"include_usage": True}))
    assert streamed["role"] == "assistant"
    assert streamed["content"] == whole.choices[0].message.content
    assert streamed["reasoning"] == whole.choices[0].message.reasoning_content
    assert streamed["finish"] == "stop"
    assert streamed["usage"] == whole.usage


def test_no_usage_unless_asked(scripted):
    assert join(ask(scripted, "Hi", stream=True))["usage"] is None


def test_tools_round_trip(scripted):
    client = scripted.client()
    messages = [{"role": "user", "content": say(CALLS)}]
    answer = client.chat.completions.create(model="fake", messages=messages, tools=[WEATHER])
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look."
    assert choice.message.reasoning_content == "I need the tool."
    calls = choice.message.tool_calls
    assert [c.function.name for c in calls] == ["get_weather", "get_weather"]
    assert json.loads(calls[0].function.arguments) == {"city": "Paris", "days": 2}
    assert json.loads(calls[1].function.arguments) == {"city": 'Zürich "Süd"'}
    assert len({c.id for c in calls}) == 2

    # The client sends the answer back as it came, with the results after it.
    messages.append(choice.message)
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "21 C"} for call in calls]
    prompt = rendered(scripted, messages, tools=[WEATHER])
    assert prompt.endswith(
        "<|assistant|><think>I need the tool.</think>Let me look."
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
        "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>"
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Zürich \"Süd\"</arg_value></tool_call>"
        "<|observation|><tool_response>21 C</tool_response><tool_response>21 C</tool_response><|assistant|><think>")
    messages.append({"role": "user", "content": say("</think>It is 21 C.")})
    answer = client.chat.completions.create(model="fake", messages=messages, tools=[WEATHER])
    assert answer.choices[0].message.content == "It is 21 C."
    assert answer.choices[0].finish_reason == "stop"


def rendered(server, messages, **options):
    """The prompt the server makes of messages."""
    plain = [m if isinstance(m, dict) else m.model_dump() for m in messages]
    tokens = server.post("/tokenize", {"messages": plain, **options})["tokens"]
    return server.post("/detokenize", {"tokens": tokens})["prompt"]


def test_streamed_tool_calls_are_the_same(scripted):
    whole = ask(scripted, say(CALLS), tools=[WEATHER]).choices[0].message
    streamed = join(ask(scripted, say(CALLS), tools=[WEATHER], stream=True))
    assert streamed["finish"] == "tool_calls"
    assert streamed["content"] == whole.content
    assert streamed["reasoning"] == whole.reasoning_content
    assert [(c["name"], c["arguments"]) for _, c in sorted(streamed["calls"].items())] == \
        [(c.function.name, c.function.arguments) for c in whole.tool_calls]
    assert all(c["id"].startswith("call_") for c in streamed["calls"].values())


def test_the_clients_own_stream_helper_accumulates(scripted):
    with scripted.client().chat.completions.stream(
            model="fake", messages=[{"role": "user", "content": say(CALLS)}], tools=[WEATHER]) as stream:
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "Let me look."
    assert [json.loads(c.function.arguments)["city"] for c in message.tool_calls] == ["Paris", 'Zürich "Süd"']


def test_tool_choice_none_leaves_tools_out(scripted):
    answer = ask(scripted, say("</think>plain"), tools=[WEATHER], tool_choice="none")
    assert answer.choices[0].message.tool_calls is None
    messages = [{"role": "user", "content": "Hi"}]
    assert "get_weather" in rendered(scripted, messages, tools=[WEATHER])
    assert "get_weather" not in rendered(scripted, messages, tools=[WEATHER], tool_choice="none")


def test_prefill_goes_on_inside_a_tool_call(scripted):
    messages = [{"role": "user", "content": say("ris</arg_value></tool_call>")},
                {"role": "assistant", "content": "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Pa"}]
    answer = scripted.client().chat.completions.create(model="fake", messages=messages, tools=[WEATHER])
    assert answer.choices[0].finish_reason == "tool_calls"
    assert json.loads(answer.choices[0].message.tool_calls[0].function.arguments) == {"city": "Paris"}


def test_stop_strings_cut_exactly(scripted):
    text = say("</think>one two three four")
    assert ask(scripted, text, stop=" three").choices[0].message.content == "one two"
    streamed = join(ask(scripted, text, stop=["never", "ee f"], stream=True))
    assert streamed["content"] == "one two thr"
    assert streamed["finish"] == "stop"


def test_max_tokens_ends_for_length(scripted):
    answer = ask(scripted, say("</think>" + "word " * 50), max_tokens=5)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 5


def test_n_choices(scripted):
    answer = ask(scripted, say("</think>same"), n=3)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    assert [c.message.content for c in answer.choices] == ["same"] * 3
    single = ask(scripted, say("</think>same"))
    assert answer.usage.prompt_tokens == single.usage.prompt_tokens
    assert answer.usage.completion_tokens == 3 * single.usage.completion_tokens


def test_logprobs(scripted):
    answer = ask(scripted, say("</think>né"), logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    assert bytes(b for item in content for b in item.bytes).decode() == "</think>né"
    assert all(len(item.top_logprobs) == 2 for item in content)
    streamed = []
    for chunk in ask(scripted, say("</think>né"), logprobs=True, top_logprobs=2, stream=True):
        if chunk.choices[0].logprobs is not None:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == content

    completion = scripted.client().completions.create(model="fake", prompt=say("abc"), logprobs=2)
    logprobs = completion.choices[0].logprobs
    assert "".join(logprobs.tokens) == completion.choices[0].text == "abc"
    assert logprobs.text_offset[0] == 0
    assert len(logprobs.top_logprobs) == len(logprobs.tokens)


def test_completions(scripted):
    client = scripted.client()
    answer = client.completions.create(model="fake", prompt=[say("one"), say("two")], max_tokens=50)
    assert [c.text for c in answer.choices] == ["one", "two"]
    stream = client.completions.create(model="fake", prompt=say("one two three"), max_tokens=50, stream=True,
                                       stream_options={"include_usage": True})
    chunks = list(stream)
    assert "".join(c.choices[0].text for c in chunks if c.choices) == "one two three"
    assert chunks[-1].usage.completion_tokens > 0


def test_errors(scripted):
    client = scripted.client()
    with pytest.raises(openai.BadRequestError) as error:
        ask(scripted, "Hi", temperature=3)
    assert error.value.param == "temperature"
    assert error.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError) as error:
        ask(scripted, "Hi", response_format={"type": "json_object"})
    assert error.value.param == "response_format"
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Hi"}])
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.RateLimitError):
        ask(scripted, "[[busy]]")
    with pytest.raises(openai.InternalServerError):
        ask(scripted, "[[fail]]")
    with pytest.raises(openai.APIError, match="scripted failure"):
        list(ask(scripted, "[[fail]]", stream=True))
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="fake", input="x")


def test_api_key():
    server = start_scripted("--api-key", "sesame")
    try:
        with pytest.raises(openai.AuthenticationError) as error:
            server.client(api_key="wrong").models.list()
        assert error.value.code == "invalid_api_key"
        assert [m.id for m in server.client(api_key="sesame").models.list()] == ["fake"]
    finally:
        server.kill()


def test_abort_mid_stream_cancels(scripted):
    stream = ask(scripted, say("word ", "repeat 10000", "delay 5"), stream=True)
    for _, chunk in zip(range(5), stream):
        assert chunk.choices
    assert scripted.metric("quern_requests_running") == 1
    stream.close()
    scripted.wait_for_metric("quern_requests_running", lambda n: n == 0)


def test_fifty_clients_get_complete_answers(scripted):
    def one(i):
        text = f"</think>answer {i} of fifty"
        if i % 2:
            return join(ask(scripted, say(text, "delay 1"), stream=True))["content"]
        return ask(scripted, say(text, "delay 1")).choices[0].message.content

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(one, range(50)))
    assert answers == [f"answer {i} of fifty" for i in range(50)]


def test_sigterm_lets_a_stream_finish_and_exits_0():
    server = start_scripted()
    try:
        stream = ask(server, say("</think>word ", "repeat 10", "delay 20"), stream=True)
        next(iter(stream))
        server.process.terminate()
        assert join(stream)["content"].count("word") == 10
        assert server.process.wait(timeout=30) == 0
    finally:
        server.kill()
